//! Identity of objects (ceph `src/osd/osd_types.{h,cc}`, object_locator_t; `src/common/hobject.{h,cc}`).

use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::cmp::Ordering;

/// Determines an object's placement, together with its name (`object_locator_t`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectLocator {
    /// Pool, or -1.
    pub pool: i64,
    /// Key that is hashed instead of the name, unless empty.
    pub key: Vec<u8>,
    /// Namespace within the pool.
    pub namespace: Vec<u8>,
    /// Explicit hash, or -1.
    pub hash: i64,
}

impl Default for ObjectLocator {
    fn default() -> Self {
        Self { pool: -1, key: Vec::new(), namespace: Vec::new(), hash: -1 }
    }
}

impl Decode for ObjectLocator {
    #[inline]
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 6, "object_locator", |version, r| {
            if version < 5 {
                return Err(DecodeError::TooOld { what: "object_locator", version, oldest: 5 });
            }
            let pool = r.i64("object_locator pool")?;
            r.i32("object_locator preferred OSD")?;
            let key = r.blob("object_locator key")?.to_vec();
            let namespace = r.blob("object_locator namespace")?.to_vec();
            let hash = if version >= 6 { r.i64("object_locator hash")? } else { -1 };
            Ok(Self { pool, key, namespace, hash })
        })
    }
}

impl Encode for ObjectLocator {
    fn encode(&self, w: &mut Writer) {
        // A reader that ignores the hash would use the wrong placement (object_locator_t::encode).
        let compat = if self.hash == -1 { 3 } else { 6 };
        write_envelope(w, 6, compat, |w| {
            w.i64(self.pool);
            w.i32(-1);
            w.blob(&self.key);
            w.blob(&self.namespace);
            w.i64(self.hash);
        });
    }
}

/// Object or clone in the whole cluster, ordered as within a placement group (`hobject_t`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HObject {
    /// Locator key; empty if it equals the name.
    pub key: Vec<u8>,
    /// Object name: any bytes.
    pub name: Vec<u8>,
    /// Snapshot; [`NOSNAP`](super::NOSNAP) is the head.
    pub snap: u64,
    /// Full hash of the name or key.
    pub hash: u32,
    /// Whether this is the end of the order instead of an object.
    pub max: bool,
    /// Namespace within the pool.
    pub namespace: Vec<u8>,
    /// Pool.
    pub pool: i64,
}

impl HObject {
    /// Returns the start of the order, before every object.
    pub fn min() -> Self {
        Self {
            key: Vec::new(),
            name: Vec::new(),
            snap: 0,
            hash: 0,
            max: false,
            namespace: Vec::new(),
            pool: i64::MIN,
        }
    }

    /// Returns the end of the order, after every object.
    pub fn max() -> Self {
        Self { max: true, ..Self::min() }
    }

    /// Returns whether this is the start of the order.
    pub fn is_min(&self) -> bool {
        *self == Self::min()
    }

    fn sort_key(&self) -> impl Ord + '_ {
        let key = if self.key.is_empty() { &self.name } else { &self.key };
        (self.pool, self.hash.reverse_bits(), &self.namespace, key, &self.name, self.snap)
    }
}

impl Default for HObject {
    fn default() -> Self {
        Self::min()
    }
}

impl Ord for HObject {
    /// Orders by the bit-reversed hash, so that a split of a placement group splits a range in two
    /// (hobject.cc, cmp).
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.max, other.max) {
            (false, false) => self.sort_key().cmp(&other.sort_key()),
            (a, b) => a.cmp(&b),
        }
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Decode for HObject {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 4, "hobject", |version, r| {
            if version < 4 {
                return Err(DecodeError::TooOld { what: "hobject", version, oldest: 4 });
            }
            Ok(Self {
                key: r.blob("hobject key")?.to_vec(),
                name: r.blob("hobject name")?.to_vec(),
                snap: r.u64("hobject snap")?,
                hash: r.u32("hobject hash")?,
                max: r.bool("hobject max")?,
                namespace: r.blob("hobject namespace")?.to_vec(),
                pool: r.i64("hobject pool")?,
            })
        })
    }
}

impl Encode for HObject {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 4, 3, |w| {
            w.blob(&self.key);
            w.blob(&self.name);
            w.u64(self.snap);
            w.u32(self.hash);
            w.bool(self.max);
            w.blob(&self.namespace);
            w.i64(self.pool);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::NOSNAP;

    #[test]
    fn objects_sort_by_reversed_hash_then_namespace_then_key() {
        let object = |hash, name: &str, key: &str| HObject {
            name: name.into(),
            key: key.into(),
            hash,
            pool: 1,
            snap: NOSNAP,
            ..HObject::min()
        };
        let mut sorted = vec![
            HObject::min(),
            object(0x8000_0000, "z", ""),
            object(2, "a", ""),
            object(1, "b", "c"),
            object(1, "d", ""),
            HObject::max(),
        ];
        let expected = sorted.clone();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, expected);
        assert!(HObject::default().is_min());
    }

    #[test]
    fn a_locator_with_a_hash_requires_a_reader_that_knows_it() {
        let plain = ObjectLocator { pool: 1, ..Default::default() };
        let hashed = ObjectLocator { hash: 7, ..plain.clone() };
        assert_eq!(plain.to_bytes()[..2], [6, 3]);
        assert_eq!(hashed.to_bytes()[..2], [6, 6]);
        for locator in [plain, hashed] {
            assert_eq!(ObjectLocator::from_bytes(&locator.to_bytes()), Ok(locator));
        }
    }
}
