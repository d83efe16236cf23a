//! Structured outputs of operations, as encoded by OSDs.
//!
//! Source: ceph `src/osd/osd_types.h` (`obj_list_watch_response_t`, `obj_list_snap_response_t`,
//! `pg_nls_response_t`).

use crate::types::{EntityName, HObject};
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};

/// Watcher of an object (`watch_item_t`).
#[derive(Debug, Clone, PartialEq)]
pub struct Watcher {
    /// Name of the client.
    pub name: EntityName,
    /// Client's own id of the watch.
    pub cookie: u64,
    /// Seconds without a ping after which the watch is lost.
    pub timeout: u32,
    /// Address of the client.
    pub addr: EntityAddr,
}

/// Output of [`crate::ops::Op::ListWatchers`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Watchers(pub Vec<Watcher>);

impl Decode for Watcher {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "watcher", |_, r| {
            Ok(Self {
                name: EntityName::decode(r)?,
                cookie: r.u64("cookie")?,
                timeout: r.u32("timeout")?,
                addr: EntityAddr::decode(r)?,
            })
        })
    }
}

impl Encode for Watcher {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 2, 1, |w| {
            self.name.encode(w);
            w.u64(self.cookie);
            w.u32(self.timeout);
            self.addr.encode(w);
        });
    }
}

impl Decode for Watchers {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "watchers", |_, r| Ok(Self(Vec::decode(r)?)))
    }
}

impl Encode for Watchers {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| self.0.encode(w));
    }
}

/// Object in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Listed {
    /// Namespace.
    pub namespace: Vec<u8>,
    /// Name.
    pub name: Vec<u8>,
    /// Locator key; empty: none.
    pub key: Vec<u8>,
}

/// Output of [`crate::ops::Op::PgNls`].
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Position after the listed objects: the input of the next request.
    pub cursor: HObject,
    /// Objects.
    pub objects: Vec<Listed>,
}

impl Decode for Listed {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            namespace: r.blob("namespace")?.to_vec(),
            name: r.blob("object name")?.to_vec(),
            key: r.blob("locator key")?.to_vec(),
        })
    }
}

impl Encode for Listed {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.namespace);
        w.blob(&self.name);
        w.blob(&self.key);
    }
}

impl Decode for Listing {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "listing", |_, r| Ok(Self { cursor: HObject::decode(r)?, objects: Vec::decode(r)? }))
    }
}

impl Encode for Listing {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            self.cursor.encode(w);
            self.objects.encode(w);
        });
    }
}

/// State of an object at some snapshots, or its current state (`clone_info`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneInfo {
    /// Id of the clone; [`NOSNAP`](crate::types::NOSNAP): the current object.
    pub id: u64,
    /// Snapshots that show the clone, oldest first.
    pub snaps: Vec<u64>,
    /// Offset and length of the bytes that the next clone, or the head, shares with this one.
    pub overlap: Vec<(u64, u64)>,
    /// Size of the object in bytes.
    pub size: u64,
}

/// Output of [`crate::ops::Op::ListSnaps`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneInfos {
    /// Clones, oldest first, then the head if it exists.
    pub clones: Vec<CloneInfo>,
    /// Newest snapshot known to a write of the object.
    pub seq: u64,
}

impl Decode for CloneInfo {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "clone of an object", |_, r| {
            Ok(Self {
                id: r.u64("clone")?,
                snaps: Vec::decode(r)?,
                overlap: Vec::decode(r)?,
                size: r.u64("size of a clone")?,
            })
        })
    }
}

impl Encode for CloneInfo {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            w.u64(self.id);
            self.snaps.encode(w);
            self.overlap.encode(w);
            w.u64(self.size);
        });
    }
}

impl Decode for CloneInfos {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "snapshots of an object", |_, r| {
            Ok(Self { clones: Vec::decode(r)?, seq: r.u64("snapshot")? })
        })
    }
}

impl Encode for CloneInfos {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 2, 1, |w| {
            self.clones.encode(w);
            w.u64(self.seq);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_survive_a_round_trip() {
        let addr = EntityAddr::msgr2("127.0.0.1:4000".parse().unwrap(), 7);
        let watcher = Watcher { name: EntityName::client(9), cookie: 1, timeout: 30, addr };
        let watchers = Watchers(vec![watcher]);
        assert_eq!(Watchers::from_bytes(&watchers.to_bytes()), Ok(watchers));
        let object = Listed { namespace: "n".into(), name: b"o".to_vec(), key: Vec::new() };
        let listing = Listing { cursor: HObject::max(), objects: vec![object] };
        assert_eq!(Listing::from_bytes(&listing.to_bytes()), Ok(listing));
    }
}
