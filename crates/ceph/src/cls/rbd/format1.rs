//! The header of an image of format 1, and the methods on it.
//!
//! Clients read and write this header themselves, except for its snapshots: these are changed by the class, so that two clients
//! do not overwrite each other's changes. The header is the data of the object with the image's name and ".rbd".
//!
//! Sources: ceph `src/include/rbd_types.h` (`rbd_obj_header_ondisk`), `src/cls/rbd/cls_rbd.cc` (`old_snapshot_*`).

use crate::cls::{methods, structure};
use crate::types::SnapContext;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer, text};
use std::ops::Range;

structure! {
    /// Snapshot of an image of format 1.
    Format1Snapshot {
        /// Snapshot.
        id: u64,
        /// Size of the image at that time, in bytes.
        image_size: u64,
        /// Name, without NUL bytes.
        name: String,
    }
}

structure! {
    /// Reply to [`Format1SnapshotList`].
    Format1Snapshots {
        /// Newest snapshot ever.
        seq: u64,
        /// Snapshots, newest first.
        snapshots: Vec<Format1Snapshot>,
    }
}

methods! { "rbd":
    /// Lists the snapshots of an image of format 1.
    "snap_list" Format1SnapshotList {} -> Format1Snapshots;
    /// Adds a snapshot of the current image. ESTALE: the id is older than a previous one; EEXIST: the name is in
    /// use; EDQUOT: the limit of snapshots is reached.
    "snap_add" Format1SnapshotAdd {
        /// Name.
        name: String,
        /// Id, allocated by the pool.
        snap: u64,
    } -> ();
    /// Removes a snapshot. ENOENT: there is no snapshot of this name.
    "snap_remove" Format1SnapshotRemove {
        /// Name.
        name: String,
    } -> ();
    /// Renames a snapshot. EEXIST: the name is in use; ENOENT: there is no such snapshot.
    "snap_rename" Format1SnapshotRename {
        /// Snapshot.
        snap: u64,
        /// New name.
        name: String,
    } -> ();
}

/// Length of the header before the image size: texts, the prefix of data objects, the object size.
const START_LEN: usize = 80;

/// Location of the prefix of data objects, which ends with a NUL byte.
const PREFIX: Range<usize> = 40..64;

/// Location of the signature: "RBD" and the version of the layout.
const SIGNATURE: Range<usize> = 64..76;

/// The only version (`RBD_HEADER_SIGNATURE`, `RBD_HEADER_VERSION`).
const VERSION: &[u8; SIGNATURE.end - SIGNATURE.start] = b"RBD\x00001.005\0";

/// Location of the order. The types of encryption and of compression follow, both none.
const ORDER: usize = 76;

/// Length of a snapshot's id and size.
const SNAPSHOT_LEN: usize = 16;

/// Header of an image of format 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format1Header {
    /// Bytes before the size, preserved as they are.
    pub start: [u8; START_LEN],
    /// Size of the image in bytes.
    pub image_size: u64,
    /// Reserved bytes.
    pub reserved: u32,
    /// Newest snapshot ever.
    pub snap_seq: u64,
    /// Snapshots, newest first.
    pub snapshots: Vec<Format1Snapshot>,
}

impl Format1Header {
    /// Length of a header without snapshots.
    pub const MIN_LEN: usize = START_LEN + 32;

    /// First bytes of a header.
    pub const TEXT: &[u8; 34] = b"<<< Rados Block Device Image >>>\n\0";

    /// First bytes of a header during a migration to another image.
    pub const MIGRATING_TEXT: &[u8; 34] = b"<<< Migrating RBD Image      >>>\n\0";

    /// Longest prefix of data objects (`RBD_MAX_BLOCK_NAME_SIZE` without its NUL byte).
    pub const MAX_PREFIX: usize = PREFIX.end - PREFIX.start - 1;

    /// Offset of the size, which a resize overwrites by itself.
    pub const SIZE_AT: u64 = START_LEN as u64;

    /// Creates the header of a new image. Truncates the prefix to [`MAX_PREFIX`](Self::MAX_PREFIX) bytes.
    pub fn new(object_prefix: &str, order: u8, image_size: u64) -> Self {
        let mut start = [0; START_LEN];
        start[..Self::TEXT.len()].copy_from_slice(Self::TEXT);
        let prefix = &object_prefix.as_bytes()[..object_prefix.len().min(Self::MAX_PREFIX)];
        start[PREFIX.start..][..prefix.len()].copy_from_slice(prefix);
        start[SIGNATURE].copy_from_slice(VERSION);
        start[ORDER] = order;
        Self { start, image_size, reserved: 0, snap_seq: 0, snapshots: Vec::new() }
    }

    /// Returns whether the image is the source of a migration. Fails if the bytes are not a header.
    pub fn is_migrating(&self) -> Decoded<bool> {
        if self.start.starts_with(Self::MIGRATING_TEXT) {
            return Ok(true);
        }
        if self.start.starts_with(Self::TEXT) {
            return Ok(false);
        }
        Err(DecodeError::Invalid { what: "text of a header", value: self.start[0].into() })
    }

    /// Returns the prefix of the data objects' names.
    pub fn object_prefix(&self) -> Decoded<&str> {
        let bytes = &self.start[PREFIX];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end])
            .map_err(|_| DecodeError::NotUtf8 { what: "prefix of data objects" })
    }

    /// Returns the base-2 logarithm of the object size.
    pub fn order(&self) -> u8 {
        self.start[ORDER]
    }

    /// Returns the snapshots that writes preserve. Fails if they are not in the order of their creation.
    pub fn snap_context(&self) -> Decoded<SnapContext> {
        let context =
            SnapContext { seq: self.snap_seq, snaps: self.snapshots.iter().map(|snap| snap.id).collect() };
        let newest = context.snaps.first().copied().unwrap_or(0);
        if newest > context.seq || !context.snaps.is_sorted_by(|newer, older| newer > older) {
            return Err(DecodeError::Invalid { what: "order of snapshots", value: newest });
        }
        Ok(context)
    }
}

impl Decode for Format1Header {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let start = r.array("start of a header")?;
        let (image_size, snap_seq) = (r.u64("image size")?, r.u64("newest snapshot")?);
        let count = r.count(SNAPSHOT_LEN, "snapshots")?;
        let (reserved, names_len) = (r.u32("reserved")?, r.u64("length of names")?);
        let mut numbers = r.sub(count * SNAPSHOT_LEN, "snapshots")?;
        let mut names = r.take(usize::try_from(names_len).unwrap_or(usize::MAX), "names of snapshots")?;
        let mut snapshots = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, image_size) = (numbers.u64("snapshot")?, numbers.u64("image size")?);
            snapshots.push(Format1Snapshot { id, image_size, name: take_name(&mut names)? });
        }
        Reader::new(names).finish("names of snapshots")?;
        Ok(Self { start, image_size, reserved, snap_seq, snapshots })
    }
}

/// Takes a name with its NUL byte from the front of `names`.
fn take_name(names: &mut &[u8]) -> Decoded<String> {
    let what = "name of a snapshot";
    let end = names.iter().position(|byte| *byte == 0);
    let end = end.ok_or(DecodeError::Truncated { what, needed: names.len() + 1, left: names.len() })?;
    let name = text::from_bytes(&names[..end]).into_owned();
    *names = &names[end + 1..];
    Ok(name)
}

impl Encode for Format1Header {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.start);
        w.u64(self.image_size);
        w.u64(self.snap_seq);
        w.count(self.snapshots.len());
        w.u32(self.reserved);
        w.u64(self.snapshots.iter().map(|snapshot| text::to_bytes(&snapshot.name).len() as u64 + 1).sum());
        for snapshot in &self.snapshots {
            w.u64(snapshot.id);
            w.u64(snapshot.image_size);
        }
        for snapshot in &self.snapshots {
            w.put(&text::to_bytes(&snapshot.name));
            w.u8(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Format1Header {
        let snapshot = |id, name: &str| Format1Snapshot { id, image_size: id * 1000, name: name.to_owned() };
        Format1Header {
            start: [b'x'; START_LEN],
            image_size: 1 << 40,
            reserved: 7,
            snap_seq: 9,
            snapshots: vec![snapshot(6, "new"), snapshot(3, "")],
        }
    }

    #[test]
    fn a_header_has_its_fields_where_clients_look_for_them() {
        let bytes = header().to_bytes();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((number(80), number(88)), (1 << 40, 9));
        assert_eq!((number(96), number(104)), (2 | 7 << 32, 5));
        assert_eq!([number(112), number(120), number(128), number(136)], [6, 6000, 3, 3000]);
        assert_eq!(&bytes[144..], b"new\0\0");
        assert_eq!(Format1Header::from_bytes(&bytes), Ok(header()));
        let empty = Format1Header { snapshots: Vec::new(), ..header() };
        assert_eq!(empty.to_bytes().len(), Format1Header::MIN_LEN);
    }

    /// Written by Ceph's `rbd` 16.2 for an image of 8 MiB.
    const OF_CEPH: &[u8; 112] = b"<<< Rados Block Device Image >>>\n\0\0\0\0\0\0\0\
        rb.0.1066.6b8b4567\0\0\0\0\0\0RBD\x00001.005\0\x16\0\0\0\
        \0\0\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

    #[test]
    fn a_new_header_equals_the_one_of_ceph() {
        let new = Format1Header::new("rb.0.1066.6b8b4567", 22, 8 << 20);
        assert_eq!(new.to_bytes(), OF_CEPH);
        let read = Format1Header::from_bytes(OF_CEPH).unwrap();
        assert_eq!((read.object_prefix(), read.order()), (Ok("rb.0.1066.6b8b4567"), 22));
        assert_eq!(read.is_migrating(), Ok(false));
        let size_at = Format1Header::SIZE_AT as usize;
        assert_eq!(OF_CEPH[size_at..size_at + 8], (8u64 << 20).to_le_bytes());
        let cut = Format1Header::new("rb.ffffffff.ffffffff.ffffffff", 22, 0);
        assert_eq!(cut.object_prefix(), Ok("rb.ffffffff.ffffffff.ff"));
    }

    #[test]
    fn invalid_headers_and_unordered_snapshots_are_detected() {
        let mut other = header();
        assert!(other.is_migrating().is_err());
        other.start[..34].copy_from_slice(Format1Header::MIGRATING_TEXT);
        assert_eq!(other.is_migrating(), Ok(true));
        assert!(Format1Header { start: [0xff; START_LEN], ..header() }.object_prefix().is_err());
        assert_eq!(header().snap_context(), Ok(SnapContext { seq: 9, snaps: vec![6, 3] }));
        assert!(Format1Header { snap_seq: 5, ..header() }.snap_context().is_err());
        other.snapshots.reverse();
        assert!(other.snap_context().is_err());
    }

    #[test]
    fn an_inconsistent_header_is_rejected() {
        let bytes = header().to_bytes();
        for len in 0..bytes.len() {
            assert!(Format1Header::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            Format1Header::decode(&mut Reader::new(&bytes))
        };
        // More or fewer snapshots than names, a count beyond the header's length.
        assert!(changed(96, 1).is_err() && changed(96, 3).is_err() && changed(99, 0xff).is_err());
        // Names that are shorter or longer than their length field, or a length that overflows.
        assert!(changed(104, 4).is_err() && changed(104, 6).is_err() && changed(111, 0xff).is_err());
        // A name without its NUL byte.
        assert!(changed(148, b'x').is_err());
        // A name need not be UTF-8.
        assert_eq!(changed(144, 0xff).unwrap().to_bytes()[144], 0xff);
        assert_eq!(changed(148, 0).unwrap(), header());
    }
}
