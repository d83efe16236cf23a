//! Basic types of Ceph messages.
//!
//! Sources: ceph `src/include/utime.h`, `src/include/uuid.h`, `src/msg/msg_types.h`, `src/osd/osd_types.{h,cc}`,
//! `src/common/snap_types.{h,cc}`.

mod object;

pub use object::{HObject, ObjectLocator};

pub use onego_msgr::types::{EntityName, ParseError, Utime};

use onego_msgr::types::addr::EntityAddr;
use onego_msgr::types::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Version number of a map.
pub type Epoch = u32;

/// Snapshot id of an object's head, also for requests without a snapshot.
pub const NOSNAP: u64 = u64::MAX - 1;

/// Snapshot id that stands for an object with all its clones.
pub const SNAPDIR: u64 = u64::MAX;

/// UUID of a cluster or an OSD.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(
    /// Bytes in the order in which they are printed.
    pub [u8; 16],
);

impl Uuid {
    /// Creates a UUID of random bytes (RFC 9562, section 5.4).
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        // Version 4, and the variant.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Returns whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "a UUID");
        let parts: Vec<&str> = text.split('-').collect();
        if parts.iter().map(|part| part.len()).ne([8, 4, 4, 4, 12]) {
            return Err(error());
        }
        let digits: Vec<u8> = parts
            .concat()
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8).ok_or_else(error))
            .collect::<Result<_, _>>()?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

impl Decode for Uuid {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        r.array("uuid").map(Self)
    }
}

impl Encode for Uuid {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

/// Entity at an address (`entity_inst_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntityInst {
    /// Name.
    pub name: EntityName,
    /// Address.
    pub addr: EntityAddr,
}

impl Decode for EntityInst {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { name: EntityName::decode(r)?, addr: EntityAddr::decode(r)? })
    }
}

impl Encode for EntityInst {
    fn encode(&self, w: &mut Writer) {
        self.name.encode(w);
        self.addr.encode(w);
    }
}

/// Version of an object or of a placement group's log (`eversion_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EVersion {
    /// Version, increasing across epochs.
    pub version: u64,
    /// Epoch of the map at the time of the change.
    pub epoch: Epoch,
}

impl Ord for EVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.epoch, self.version).cmp(&(other.epoch, other.version))
    }
}

impl PartialOrd for EVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

impl Decode for EVersion {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { version: r.u64("eversion version")?, epoch: r.u32("eversion epoch")? })
    }
}

impl Encode for EVersion {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.version);
        w.u32(self.epoch);
    }
}

/// Placement group (`pg_t`). The seed of a *raw* one is an object's full hash; the pool's stable mod reduces it to
/// that of an actual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgId {
    /// Pool.
    pub pool: i64,
    /// Number of the group within the pool.
    pub seed: u32,
}

impl PgId {
    /// Length on the wire.
    pub const WIRE_LEN: usize = 17;
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

impl FromStr for PgId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "a placement group like 1.2f");
        let (pool, seed) = text.split_once('.').ok_or_else(error)?;
        Ok(Self {
            pool: pool.parse().map_err(|_| error())?,
            seed: u32::from_str_radix(seed, 16).map_err(|_| error())?,
        })
    }
}

impl Decode for PgId {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let version = r.u8("pg version")?;
        if version != 1 {
            return Err(DecodeError::Invalid { what: "pg version", value: version.into() });
        }
        let pg = Self { pool: r.i64("pg pool")?, seed: r.u32("pg seed")? };
        r.i32("pg preferred OSD")?; // obsolete, always -1
        Ok(pg)
    }
}

impl Encode for PgId {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.i64(self.pool);
        w.u32(self.seed);
        w.i32(-1);
    }
}

/// Placement group and, in an erasure-coded pool, one of its shards (`spg_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpgId {
    /// Group.
    pub pg: PgId,
    /// Shard, or [`SpgId::NO_SHARD`].
    pub shard: i8,
}

impl SpgId {
    /// Shard of groups in replicated pools.
    pub const NO_SHARD: i8 = -1;

    /// Returns a group of a replicated pool.
    pub fn whole(pg: PgId) -> Self {
        Self { pg, shard: Self::NO_SHARD }
    }
}

impl Default for SpgId {
    fn default() -> Self {
        Self::whole(PgId::default())
    }
}

impl fmt::Display for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shard == Self::NO_SHARD { self.pg.fmt(f) } else { write!(f, "{}s{}", self.pg, self.shard) }
    }
}

impl Decode for SpgId {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "spg", |_, r| Ok(Self { pg: PgId::decode(r)?, shard: r.i8("spg shard")? }))
    }
}

impl Encode for SpgId {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            self.pg.encode(w);
            w.i8(self.shard);
        });
    }
}

/// Unique id of a client's request, by which OSDs recognize resends (`osd_reqid_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReqId {
    /// Client.
    pub name: EntityName,
    /// Number that the client gave the request.
    pub tid: u64,
    /// Incarnation of the client.
    pub inc: i32,
}

impl Decode for ReqId {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "osd_reqid", |_, r| {
            Ok(Self {
                name: EntityName::decode(r)?,
                tid: r.u64("osd_reqid tid")?,
                inc: r.i32("osd_reqid incarnation")?,
            })
        })
    }
}

impl Encode for ReqId {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 2, 2, |w| {
            self.name.encode(w);
            w.u64(self.tid);
            w.i32(self.inc);
        });
    }
}

/// Snapshots that exist when an object is written (`SnapContext`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SnapContext {
    /// Newest snapshot id ever allocated.
    pub seq: u64,
    /// Existing snapshots, newest first.
    pub snaps: Vec<u64>,
}

impl SnapContext {
    /// Largest snapshot id (`CEPH_MAXSNAP`): those above are special.
    const MAX: u64 = u64::MAX - 2;

    /// Returns whether the snapshots are in order, and none is newer than `seq`.
    pub fn is_valid(&self) -> bool {
        let in_order = || self.snaps.is_sorted_by(|newer, older| newer > older);
        self.snaps.first().is_none_or(|newest| *newest <= self.seq && in_order()) && self.seq <= Self::MAX
    }
}

impl Decode for SnapContext {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { seq: r.u64("snapc seq")?, snaps: Vec::decode(r)? })
    }
}

impl Encode for SnapContext {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.seq);
        self.snaps.encode(w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_print_and_parse() {
        let text = "c0ffee00-1234-5678-9abc-def012345678";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!(uuid.to_string(), text);
        assert_eq!(uuid.0[..4], [0xc0, 0xff, 0xee, 0]);
        for wrong in
            ["", "c0ffee00", "c0ffee00-1234-5678-9abc-def01234567g", "c0ffee0012345678-9abc-def012345678-"]
        {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_random_uuid_has_its_version_and_variant() {
        let of = |byte| Uuid::from_random([byte; 16]).to_string();
        assert_eq!(of(0xff), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(of(0), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn groups_print_and_parse() {
        assert_eq!("12.ff".parse(), Ok(PgId { pool: 12, seed: 255 }));
        assert_eq!(PgId { pool: 12, seed: 255 }.to_string(), "12.ff");
        assert_eq!(SpgId { pg: PgId { pool: 1, seed: 16 }, shard: 2 }.to_string(), "1.10s2");
    }

    #[test]
    fn versions_order_by_epoch_first() {
        let (a, b) = (EVersion { version: 9, epoch: 1 }, EVersion { version: 2, epoch: 2 });
        assert!(a < b);
        assert_eq!(b.to_string(), "2'2");
    }
}
