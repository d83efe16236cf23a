//! Listing the objects of a pool, placement group by placement group.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::list_nobjects; `src/osd/osd_types.h`, `pg_nls_response_t`;
//! `src/include/rados/librados.hpp`, `ListObjectImpl`.

use crate::client::Request;
use crate::encoding::{Decode, Encode, envelope};
use crate::messages::ObjectName;
use crate::ops::{Op, flag};
use crate::types::HObject;
use onego_buf::List;
use onego_wire::{Decoded, Reader};

/// Lists the objects of all namespaces (`LIBRADOS_ALL_NSPACES`).
pub const ALL_NAMESPACES: &str = "\u{1}";

/// Bytes that an entry takes at least: three lengths.
const MIN_ENTRY: usize = 12;

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: Vec<u8>,
    /// Its locator key, if it has one.
    pub key: String,
}

/// A part of a placement group's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Where the listing goes on. At the end of everything: the group has no more.
    pub next: HObject,
    /// The objects.
    pub entries: Vec<Entry>,
}

impl Listing {
    /// A request for at most `max` objects of a pool's group `seed`, from `from` on ([`HObject::min`] to begin with).
    ///
    /// Objects are found once if the listing goes through the groups from 0 to the pool's last, in each from the
    /// cursor of the last reply until that is [`HObject::max`]. When groups are split meanwhile, the new ones have
    /// higher numbers than those they come from, and objects that were listed already are listed again.
    pub fn request(pool: i64, seed: u32, namespace: &str, from: &HObject, max: u64) -> Request {
        let op = Op::PgNls { count: max, epoch: 0, cursor: List::from(from.to_bytes()) };
        let mut request = Request::one(pool, ObjectName::default(), op)
            .in_namespace(namespace)
            .with_flags(flag::READ | flag::PG_OP | flag::IGNORE_OVERLAY | flag::IGNORE_CACHE);
        request.group = Some(seed);
        request
    }

    /// Reads the output of a request for a listing.
    pub fn decode(output: &List) -> Decoded<Self> {
        let output = output.to_segment();
        envelope(&mut Reader::new(&output), 1, "listing", |_, r| {
            let next = HObject::decode(r)?;
            let n = r.count(MIN_ENTRY, "entries")?;
            let entry = |_| {
                Ok(Entry {
                    namespace: r.string("entry's namespace")?,
                    name: r.blob("entry's name")?.to_vec(),
                    key: r.string("entry's locator")?,
                })
            };
            Ok(Self { next, entries: (0..n).map(entry).collect::<Decoded<_>>()? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::write_envelope;
    use onego_wire::Writer;

    #[test]
    fn a_listing_reads_what_osds_write() {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, |w| {
            HObject::max().encode(w);
            w.count(1);
            w.string("space");
            w.blob(b"name");
            w.string("");
        });
        let bytes = w.into_vec();
        let entry = Entry { namespace: "space".into(), name: b"name".to_vec(), key: String::new() };
        let listing = Listing { next: HObject::max(), entries: vec![entry] };
        assert_eq!(Listing::decode(&List::from(bytes.clone())), Ok(listing));
        for end in 0..bytes.len() {
            assert!(Listing::decode(&List::from(bytes[..end].to_vec())).is_err());
        }
    }
}
