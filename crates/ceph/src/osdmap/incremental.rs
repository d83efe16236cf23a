//! Incremental maps (ceph `src/osd/OSDMap.{h,cc}`, OSDMap::Incremental).

use super::codec::{decode_f32, decode_wrapper, encode_wrapper};
use super::intervals::IntervalSet;
use super::map::{Ratios, StretchMode};
use super::osd::OsdXInfo;
use super::pool::Pool;
use crate::types::{Epoch, PgId, Utime, Uuid};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// Change of whether Crimson OSDs are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrimsonChange {
    /// No change.
    #[default]
    Keep,
    /// Allow them.
    Allow,
    /// Forbid them.
    Forbid,
}

/// Changes from one epoch of the map to the next.
///
/// `None` and empty collections stand for no change.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are named after those of the map that they change")]
pub struct Incremental {
    /// Version of the client's part of the encoding: 8 (Nautilus to Quincy) or 9 (since Reef).
    pub version: u8,
    pub fsid: Uuid,
    /// Epoch of the map afterwards.
    pub epoch: Epoch,
    pub modified: Utime,
    /// Encoded full map that replaces the old one. All other fields are ignored then.
    pub full_map: Vec<u8>,
    /// Encoded CRUSH map that replaces the old one.
    pub crush: Vec<u8>,
    pub new_flags: Option<u32>,
    pub new_pool_max: Option<i64>,
    pub new_max_osd: Option<i32>,
    pub new_pools: BTreeMap<i64, Pool>,
    pub new_pool_names: BTreeMap<i64, String>,
    pub old_pools: BTreeSet<i64>,
    /// OSDs that came up, with their addresses for clients.
    pub new_up_client: BTreeMap<i32, AddrVec>,
    /// Bits of the OSDs' states to flip; 0 stands for `UP`.
    pub new_state: BTreeMap<i32, u32>,
    pub new_weight: BTreeMap<i32, u32>,
    /// An empty list removes the entry.
    pub new_pg_temp: BTreeMap<PgId, Vec<i32>>,
    /// -1 removes the entry.
    pub new_primary_temp: BTreeMap<PgId, i32>,
    pub new_primary_affinity: BTreeMap<i32, u32>,
    pub new_erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,
    pub old_erasure_code_profiles: Vec<String>,
    pub new_pg_upmap: BTreeMap<PgId, Vec<i32>>,
    pub old_pg_upmap: BTreeSet<PgId>,
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(i32, i32)>>,
    pub old_pg_upmap_items: BTreeSet<PgId>,
    pub new_removed_snaps: BTreeMap<i64, IntervalSet>,
    pub new_purged_snaps: BTreeMap<i64, IntervalSet>,
    /// Zero: no change.
    pub new_last_up_change: Utime,
    /// Zero: no change.
    pub new_last_in_change: Utime,
    pub new_pg_upmap_primaries: BTreeMap<PgId, i32>,
    pub old_pg_upmap_primaries: BTreeSet<PgId>,

    pub new_heartbeat_back_up: BTreeMap<i32, AddrVec>,
    pub new_heartbeat_front_up: BTreeMap<i32, AddrVec>,
    pub new_up_cluster: BTreeMap<i32, AddrVec>,
    pub new_up_thru: BTreeMap<i32, Epoch>,
    /// First and last epoch.
    pub new_last_clean_interval: BTreeMap<i32, (Epoch, Epoch)>,
    pub new_lost: BTreeMap<i32, Epoch>,
    pub new_blocklist: BTreeMap<EntityAddr, Utime>,
    pub old_blocklist: Vec<EntityAddr>,
    /// Always replaces the old value, even if empty.
    pub cluster_snapshot: String,
    pub new_uuid: BTreeMap<i32, Uuid>,
    pub new_xinfo: BTreeMap<i32, OsdXInfo>,
    /// Features for which the monitor encoded the map.
    pub features: u64,
    /// A negative ratio stands for no change.
    pub new_ratios: Ratios,
    pub new_require_min_compat_client: Option<u8>,
    pub new_require_osd_release: Option<u8>,
    /// 0 removes the entry.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// 0 removes the entry.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    pub new_stretch_mode: Option<StretchMode>,
    pub new_range_blocklist: BTreeMap<EntityAddr, Utime>,
    pub old_range_blocklist: Vec<EntityAddr>,
    pub crimson: CrimsonChange,

    /// Checksum of the resulting map's encoding; 0 if unknown to the writer.
    pub full_crc: u32,
}

impl Default for Incremental {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            fsid: Uuid::default(),
            epoch: 0,
            modified: Utime::default(),
            full_map: Vec::new(),
            crush: Vec::new(),
            new_flags: None,
            new_pool_max: None,
            new_max_osd: None,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: Utime::default(),
            new_last_in_change: Utime::default(),
            new_pg_upmap_primaries: BTreeMap::new(),
            old_pg_upmap_primaries: BTreeSet::new(),
            new_heartbeat_back_up: BTreeMap::new(),
            new_heartbeat_front_up: BTreeMap::new(),
            new_up_cluster: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: BTreeMap::new(),
            old_blocklist: Vec::new(),
            cluster_snapshot: String::new(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            features: 0,
            new_ratios: Ratios { nearfull: -1.0, full: -1.0, backfillfull: -1.0 },
            new_require_min_compat_client: None,
            new_require_osd_release: None,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch_mode: None,
            new_range_blocklist: BTreeMap::new(),
            old_range_blocklist: Vec::new(),
            crimson: CrimsonChange::Keep,
            full_crc: 0,
        }
    }
}

impl Incremental {
    /// Version of the clients' part in new maps: that of Reef and later.
    pub const VERSION: u8 = 9;
    /// Version of the clients' part from Nautilus to Quincy.
    pub const VERSION_NAUTILUS: u8 = 8;
}

impl Decode for Incremental {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let (incremental, _) = decode_wrapper(
            r,
            "incremental osdmap",
            |r| {
                let mut inc = envelope(r, Self::VERSION, "incremental osdmap for clients", decode_client)?;
                envelope(r, 12, "incremental osdmap for osds", |version, r| {
                    decode_osd(&mut inc, version, r)
                })?;
                Ok(inc)
            },
            |inc, r| {
                inc.full_crc = r.u32("checksum of the osdmap")?;
                Ok(())
            },
        )?;
        Ok(incremental)
    }
}

/// Decodes a release; negative values stand for none (ceph `src/common/ceph_releases.h`).
fn decode_release(r: &mut Reader<'_>) -> Decoded<Option<u8>> {
    Ok(u8::try_from(r.i8("release")?).ok())
}

fn decode_client(version: u8, r: &mut Reader<'_>) -> Decoded<Incremental> {
    const WHAT: &str = "incremental osdmap";
    if version < Incremental::VERSION_NAUTILUS {
        return Err(DecodeError::TooOld { what: WHAT, version, oldest: Incremental::VERSION_NAUTILUS });
    }
    let mut inc = Incremental { version: version.min(Incremental::VERSION), ..Incremental::default() };
    inc.fsid = Uuid::decode(r)?;
    inc.epoch = r.u32(WHAT)?;
    inc.modified = Utime::decode(r)?;
    inc.new_pool_max = Some(r.i64(WHAT)?).filter(|max| *max != -1);
    inc.new_flags = u32::try_from(r.i32(WHAT)?).ok();
    inc.full_map = r.blob(WHAT)?.to_vec();
    inc.crush = r.blob(WHAT)?.to_vec();
    inc.new_max_osd = Some(r.i32(WHAT)?).filter(|max| *max >= 0);
    inc.new_pools = BTreeMap::decode(r)?;
    inc.new_pool_names = BTreeMap::decode(r)?;
    inc.old_pools = BTreeSet::decode(r)?;
    inc.new_up_client = BTreeMap::decode(r)?;
    inc.new_state = BTreeMap::decode(r)?;
    inc.new_weight = BTreeMap::decode(r)?;
    inc.new_pg_temp = BTreeMap::decode(r)?;
    inc.new_primary_temp = BTreeMap::decode(r)?;
    inc.new_primary_affinity = BTreeMap::decode(r)?;
    inc.new_erasure_code_profiles = BTreeMap::decode(r)?;
    inc.old_erasure_code_profiles = Vec::decode(r)?;
    inc.new_pg_upmap = BTreeMap::decode(r)?;
    inc.old_pg_upmap = BTreeSet::decode(r)?;
    inc.new_pg_upmap_items = BTreeMap::decode(r)?;
    inc.old_pg_upmap_items = BTreeSet::decode(r)?;
    inc.new_removed_snaps = BTreeMap::decode(r)?;
    inc.new_purged_snaps = BTreeMap::decode(r)?;
    inc.new_last_up_change = Utime::decode(r)?;
    inc.new_last_in_change = Utime::decode(r)?;
    if version >= 9 {
        inc.new_pg_upmap_primaries = BTreeMap::decode(r)?;
        inc.old_pg_upmap_primaries = BTreeSet::decode(r)?;
    }
    Ok(inc)
}

fn decode_osd(inc: &mut Incremental, version: u8, r: &mut Reader<'_>) -> Decoded<()> {
    const WHAT: &str = "incremental osdmap for osds";
    if version < 9 {
        return Err(DecodeError::TooOld { what: WHAT, version, oldest: 9 });
    }
    inc.new_heartbeat_back_up = BTreeMap::decode(r)?;
    inc.new_up_thru = BTreeMap::decode(r)?;
    inc.new_last_clean_interval = BTreeMap::decode(r)?;
    inc.new_lost = BTreeMap::decode(r)?;
    inc.new_blocklist = BTreeMap::decode(r)?;
    inc.old_blocklist = Vec::decode(r)?;
    inc.new_up_cluster = BTreeMap::decode(r)?;
    inc.cluster_snapshot = String::decode(r)?;
    inc.new_uuid = BTreeMap::decode(r)?;
    inc.new_xinfo = BTreeMap::decode(r)?;
    inc.new_heartbeat_front_up = BTreeMap::decode(r)?;
    inc.features = r.u64(WHAT)?;
    inc.new_ratios = Ratios {
        nearfull: decode_f32(r, WHAT)?,
        full: decode_f32(r, WHAT)?,
        backfillfull: decode_f32(r, WHAT)?,
    };
    inc.new_require_min_compat_client = decode_release(r)?;
    inc.new_require_osd_release = decode_release(r)?;
    inc.new_crush_node_flags = BTreeMap::decode(r)?;
    inc.new_device_class_flags = BTreeMap::decode(r)?;
    if version >= 10 {
        decode_stretch_mode(inc, r)?;
    }
    if version >= 11 {
        inc.new_range_blocklist = BTreeMap::decode(r)?;
        inc.old_range_blocklist = Vec::decode(r)?;
    }
    if version >= 12 {
        inc.crimson = match r.u8(WHAT)? {
            0 => CrimsonChange::Keep,
            1 => CrimsonChange::Allow,
            2 => CrimsonChange::Forbid,
            value => {
                return Err(DecodeError::Invalid { what: "change of allow_crimson", value: value.into() });
            }
        };
    }
    Ok(())
}

fn decode_stretch_mode(inc: &mut Incremental, r: &mut Reader<'_>) -> Decoded<()> {
    const WHAT: &str = "change of stretch mode";
    let changes = r.bool(WHAT)?;
    let mut mode = StretchMode {
        bucket_count: r.u32(WHAT)?,
        degraded: r.u32(WHAT)?,
        recovering: r.u32(WHAT)?,
        bucket: r.i32(WHAT)?,
        enabled: false,
    };
    mode.enabled = r.bool(WHAT)?;
    inc.new_stretch_mode = changes.then_some(mode);
    Ok(())
}

impl Incremental {
    /// Returns the version of the OSDs' part: the lowest that has the fields that change.
    fn osd_version(&self) -> u8 {
        if self.crimson != CrimsonChange::Keep {
            12
        } else if !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty() {
            11
        } else if self.new_stretch_mode.is_some() {
            10
        } else {
            9
        }
    }

    fn encode_client(&self, w: &mut Writer) {
        self.fsid.encode(w);
        w.u32(self.epoch);
        self.modified.encode(w);
        w.i64(self.new_pool_max.unwrap_or(-1));
        w.i32(self.new_flags.map_or(-1, |flags| flags as i32));
        w.blob(&self.full_map);
        w.blob(&self.crush);
        w.i32(self.new_max_osd.unwrap_or(-1));
        self.new_pools.encode(w);
        self.new_pool_names.encode(w);
        self.old_pools.encode(w);
        self.new_up_client.encode(w);
        self.new_state.encode(w);
        self.new_weight.encode(w);
        self.new_pg_temp.encode(w);
        self.new_primary_temp.encode(w);
        self.new_primary_affinity.encode(w);
        self.new_erasure_code_profiles.encode(w);
        self.old_erasure_code_profiles.encode(w);
        self.new_pg_upmap.encode(w);
        self.old_pg_upmap.encode(w);
        self.new_pg_upmap_items.encode(w);
        self.old_pg_upmap_items.encode(w);
        self.new_removed_snaps.encode(w);
        self.new_purged_snaps.encode(w);
        self.new_last_up_change.encode(w);
        self.new_last_in_change.encode(w);
        if self.version >= 9 {
            self.new_pg_upmap_primaries.encode(w);
            self.old_pg_upmap_primaries.encode(w);
        }
    }

    fn encode_osd(&self, w: &mut Writer) {
        const NO_RELEASE: u8 = u8::MAX;
        self.new_heartbeat_back_up.encode(w);
        self.new_up_thru.encode(w);
        self.new_last_clean_interval.encode(w);
        self.new_lost.encode(w);
        self.new_blocklist.encode(w);
        self.old_blocklist.encode(w);
        self.new_up_cluster.encode(w);
        w.string(&self.cluster_snapshot);
        self.new_uuid.encode(w);
        self.new_xinfo.encode(w);
        self.new_heartbeat_front_up.encode(w);
        w.u64(self.features);
        w.u32(self.new_ratios.nearfull.to_bits());
        w.u32(self.new_ratios.full.to_bits());
        w.u32(self.new_ratios.backfillfull.to_bits());
        w.u8(self.new_require_min_compat_client.unwrap_or(NO_RELEASE));
        w.u8(self.new_require_osd_release.unwrap_or(NO_RELEASE));
        self.new_crush_node_flags.encode(w);
        self.new_device_class_flags.encode(w);
        let version = self.osd_version();
        if version >= 10 {
            let mode = self.new_stretch_mode.unwrap_or_default();
            w.bool(self.new_stretch_mode.is_some());
            w.u32(mode.bucket_count);
            w.u32(mode.degraded);
            w.u32(mode.recovering);
            w.i32(mode.bucket);
            w.bool(mode.enabled);
        }
        if version >= 11 {
            self.new_range_blocklist.encode(w);
            self.old_range_blocklist.encode(w);
        }
        if version >= 12 {
            w.u8(self.crimson as u8);
        }
    }
}

impl Encode for Incremental {
    fn encode(&self, w: &mut Writer) {
        encode_wrapper(
            w,
            |w| {
                write_envelope(w, self.version, 1, |w| self.encode_client(w));
                write_envelope(w, self.osd_version(), 1, |w| self.encode_osd(w));
            },
            &self.full_crc.to_le_bytes(),
        );
    }
}
