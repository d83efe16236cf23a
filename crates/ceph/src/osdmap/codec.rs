//! Encoding of full maps (ceph `src/osd/OSDMap.cc`, OSDMap::encode and OSDMap::decode).
//!
//! A wrapper contains two envelopes, for clients and for OSDs only, and a checksum of everything but itself.

use super::flags::{flag, release};
use super::map::{MAX_OSDS, OsdMap, Ratios, StretchMode};
use crate::crush::CrushMap;
use crate::types::{Utime, Uuid};
use onego_buf::crc32c;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the wrapper, for full and incremental maps.
pub(super) const WRAPPER_VERSION: u8 = 8;
/// Oldest reader that understands the wrapper.
const WRAPPER_COMPAT: u8 = 7;
const WRAPPER_HEADER: usize = 6;

/// Decodes a wrapper: `body` decodes the two parts, `tail` the bytes after the checksum. Returns the
/// checksum with the result.
pub(super) fn decode_wrapper<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    body: impl FnOnce(&mut Reader<'_>) -> Decoded<T>,
    tail: impl FnOnce(&mut T, &mut Reader<'_>) -> Decoded<()>,
) -> Decoded<(T, u32)> {
    let whole = r.rest();
    envelope(r, WRAPPER_VERSION, what, |version, r| {
        if version < WRAPPER_VERSION {
            return Err(DecodeError::TooOld { what, version, oldest: WRAPPER_VERSION });
        }
        let whole = &whole[..WRAPPER_HEADER + r.left()];
        let mut value = body(r)?;
        let front = &whole[..whole.len() - r.left()];
        let expected = r.u32(what)?;
        let actual = crc32c(crc32c(u32::MAX, front), r.rest());
        if actual != expected {
            return Err(DecodeError::Checksum { what, expected, actual });
        }
        tail(&mut value, r)?;
        Ok((value, expected))
    })
}

/// Encodes a wrapper around the output of `body`, with the checksum and, after it, `tail`. Returns the checksum.
pub(super) fn encode_wrapper(w: &mut Writer, body: impl FnOnce(&mut Writer), tail: &[u8]) -> u32 {
    let start = w.len();
    let at = write_envelope(w, WRAPPER_VERSION, WRAPPER_COMPAT, |w| {
        body(w);
        let at = w.len();
        w.u32(0);
        w.put(tail);
        at
    });
    let crc = crc32c(crc32c(u32::MAX, &w.as_slice()[start..at]), &w.as_slice()[at + 4..]);
    w.as_mut_slice()[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

pub(super) fn decode_f32(r: &mut Reader<'_>, what: &'static str) -> Decoded<f32> {
    r.u32(what).map(f32::from_bits)
}

/// Checks that a number of OSDs does not exceed the limit of memory.
pub(super) fn checked_max_osd(value: i32) -> Decoded<usize> {
    usize::try_from(value).ok().filter(|n| *n <= MAX_OSDS).ok_or(DecodeError::OverBound {
        what: "max_osd",
        value: value as u64,
        bound: MAX_OSDS as u64,
    })
}

impl Decode for OsdMap {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "osdmap";
        let (mut map, crc) = decode_wrapper(
            r,
            WHAT,
            |r| {
                let mut map = envelope(r, OsdMap::VERSION, "osdmap for clients", decode_client)?;
                envelope(r, 12, "osdmap for osds", |version, r| decode_osd(&mut map, version, r))?;
                Ok(map)
            },
            |_, _| Ok(()),
        )?;
        map.check_lengths()?;
        map.normalize_flags();
        map.reproducible = map.crc() == crc;
        Ok(map)
    }
}

fn decode_client(version: u8, r: &mut Reader<'_>) -> Decoded<OsdMap> {
    const WHAT: &str = "osdmap";
    if version < OsdMap::VERSION_NAUTILUS {
        return Err(DecodeError::TooOld { what: WHAT, version, oldest: OsdMap::VERSION_NAUTILUS });
    }
    let mut map = OsdMap { version: version.min(OsdMap::VERSION), ..OsdMap::default() };
    map.fsid = Uuid::decode(r)?;
    map.epoch = r.u32(WHAT)?;
    map.created = Utime::decode(r)?;
    map.modified = Utime::decode(r)?;
    map.pools = BTreeMap::decode(r)?;
    map.pool_names = BTreeMap::decode(r)?;
    map.pool_max = r.i32(WHAT)?.into();
    map.flags = r.u32(WHAT)?;
    map.max_osd = checked_max_osd(r.i32(WHAT)?)?;
    map.osd_state = Vec::decode(r)?;
    map.osd_weight = Vec::decode(r)?;
    map.client_addrs = Vec::decode(r)?;
    map.pg_temp = BTreeMap::decode(r)?;
    map.primary_temp = BTreeMap::decode(r)?;
    map.osd_primary_affinity = Vec::decode(r)?;
    map.crush = Arc::new(CrushMap::from_bytes(r.blob("crush map")?)?);
    map.erasure_code_profiles = BTreeMap::decode(r)?;
    map.pg_upmap = BTreeMap::decode(r)?;
    map.pg_upmap_items = BTreeMap::decode(r)?;
    map.crush_version = r.u32(WHAT)?;
    map.new_removed_snaps = BTreeMap::decode(r)?;
    map.new_purged_snaps = BTreeMap::decode(r)?;
    map.last_up_change = Utime::decode(r)?;
    map.last_in_change = Utime::decode(r)?;
    if version >= 10 {
        map.pg_upmap_primaries = BTreeMap::decode(r)?;
    }
    Ok(map)
}

fn decode_osd(map: &mut OsdMap, version: u8, r: &mut Reader<'_>) -> Decoded<()> {
    const WHAT: &str = "osdmap for osds";
    if version < 9 {
        return Err(DecodeError::TooOld { what: WHAT, version, oldest: 9 });
    }
    map.heartbeat_back_addrs = Vec::decode(r)?;
    map.osd_info = Vec::decode(r)?;
    map.blocklist = BTreeMap::decode(r)?;
    map.cluster_addrs = Vec::decode(r)?;
    map.cluster_snapshot_epoch = r.u32(WHAT)?;
    map.cluster_snapshot = String::decode(r)?;
    map.osd_uuid = Vec::decode(r)?;
    map.osd_xinfo = Vec::decode(r)?;
    map.heartbeat_front_addrs = Vec::decode(r)?;
    map.ratios = Ratios {
        nearfull: decode_f32(r, WHAT)?,
        full: decode_f32(r, WHAT)?,
        backfillfull: decode_f32(r, WHAT)?,
    };
    map.require_min_compat_client = r.u8(WHAT)?;
    map.require_osd_release = r.u8(WHAT)?;
    map.removed_snaps_queue = BTreeMap::decode(r)?;
    map.crush_node_flags = BTreeMap::decode(r)?;
    map.device_class_flags = BTreeMap::decode(r)?;
    if version >= 10 {
        map.stretch_mode = StretchMode {
            enabled: r.bool(WHAT)?,
            bucket_count: r.u32(WHAT)?,
            degraded: r.u32(WHAT)?,
            recovering: r.u32(WHAT)?,
            bucket: r.i32(WHAT)?,
        };
    }
    if version >= 11 {
        map.range_blocklist = BTreeMap::decode(r)?;
    }
    if version >= 12 {
        map.allow_crimson = r.bool(WHAT)?;
    }
    Ok(())
}

impl OsdMap {
    /// Checks that each list has an entry for each OSD, or none if that stands for the default.
    fn check_lengths(&self) -> Decoded<()> {
        let affinities = self.osd_primary_affinity.len();
        let lengths = [
            self.osd_state.len(),
            self.osd_weight.len(),
            self.client_addrs.len(),
            self.cluster_addrs.len(),
            self.heartbeat_back_addrs.len(),
            self.heartbeat_front_addrs.len(),
            self.osd_uuid.len(),
            self.osd_info.len(),
            self.osd_xinfo.len(),
            if affinities == 0 { self.max_osd } else { affinities },
        ];
        match lengths.iter().find(|len| **len != self.max_osd) {
            Some(len) => Err(DecodeError::Invalid { what: "length of a list of osds", value: *len as u64 }),
            None => Ok(()),
        }
    }

    pub(super) fn normalize_flags(&mut self) {
        if self.require_osd_release >= release::NAUTILUS {
            self.flags |= flag::PGLOG_HARDLIMIT;
        }
        if self.require_osd_release >= release::LUMINOUS {
            self.flags &= !(flag::REQUIRE_JEWEL | flag::REQUIRE_KRAKEN | flag::REQUIRE_LUMINOUS);
            self.flags |= flag::RECOVERY_DELETES;
        }
    }

    /// Returns the checksum of the map's encoding, which is a part of it.
    pub fn crc(&self) -> u32 {
        self.encode_with_crc(&mut Writer::new())
    }

    fn encode_with_crc(&self, w: &mut Writer) -> u32 {
        encode_wrapper(
            w,
            |w| {
                write_envelope(w, self.version, 1, |w| self.encode_client(w));
                write_envelope(w, self.osd_version(), 1, |w| self.encode_osd(w));
            },
            &[],
        )
    }

    /// Returns the version of the OSDs' part: the lowest that has the map's fields.
    fn osd_version(&self) -> u8 {
        if self.allow_crimson {
            12
        } else if !self.range_blocklist.is_empty() {
            11
        } else if self.stretch_mode.enabled {
            10
        } else {
            9
        }
    }

    fn encode_client(&self, w: &mut Writer) {
        self.fsid.encode(w);
        w.u32(self.epoch);
        self.created.encode(w);
        self.modified.encode(w);
        self.pools.encode(w);
        self.pool_names.encode(w);
        // 32 bits here, 64 in incremental maps.
        w.i32(self.pool_max as i32);
        w.u32(self.flags);
        w.i32(self.max_osd as i32);
        self.osd_state.encode(w);
        self.osd_weight.encode(w);
        self.client_addrs.encode(w);
        self.pg_temp.encode(w);
        self.primary_temp.encode(w);
        self.osd_primary_affinity.encode(w);
        w.sized(|w| self.crush.encode(w));
        self.erasure_code_profiles.encode(w);
        self.pg_upmap.encode(w);
        self.pg_upmap_items.encode(w);
        w.u32(self.crush_version);
        self.new_removed_snaps.encode(w);
        self.new_purged_snaps.encode(w);
        self.last_up_change.encode(w);
        self.last_in_change.encode(w);
        if self.version >= 10 {
            self.pg_upmap_primaries.encode(w);
        }
    }

    fn encode_osd(&self, w: &mut Writer) {
        self.heartbeat_back_addrs.encode(w);
        self.osd_info.encode(w);
        self.blocklist.encode(w);
        self.cluster_addrs.encode(w);
        w.u32(self.cluster_snapshot_epoch);
        w.string(&self.cluster_snapshot);
        self.osd_uuid.encode(w);
        self.osd_xinfo.encode(w);
        self.heartbeat_front_addrs.encode(w);
        w.u32(self.ratios.nearfull.to_bits());
        w.u32(self.ratios.full.to_bits());
        w.u32(self.ratios.backfillfull.to_bits());
        w.u8(self.require_min_compat_client);
        w.u8(self.require_osd_release);
        self.removed_snaps_queue.encode(w);
        self.crush_node_flags.encode(w);
        self.device_class_flags.encode(w);
        let version = self.osd_version();
        if version >= 10 {
            let stretch = &self.stretch_mode;
            w.bool(stretch.enabled);
            w.u32(stretch.bucket_count);
            w.u32(stretch.degraded);
            w.u32(stretch.recovering);
            w.i32(stretch.bucket);
        }
        if version >= 11 {
            self.range_blocklist.encode(w);
        }
        if version >= 12 {
            w.bool(self.allow_crimson);
        }
    }
}

impl Encode for OsdMap {
    fn encode(&self, w: &mut Writer) {
        self.encode_with_crc(w);
    }
}
