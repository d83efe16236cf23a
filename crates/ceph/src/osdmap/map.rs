//! The OSD map.

use super::flags::flag;
use super::intervals::IntervalSet;
use super::osd::{OsdInfo, OsdXInfo, PRIMARY_AFFINITY_MAX, state};
use super::pool::{Pool, flag as pool_flag};
use crate::crush::{CrushMap, Layout};
use crate::types::{Epoch, PgId, Utime, Uuid};
use onego_msgr::addr::{AddrVec, EntityAddr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of OSDs of a map: bounds the memory that a small encoded `max_osd` can demand. The default of Ceph's
/// `mon_max_osd` is 10,000.
pub const MAX_OSDS: usize = 1 << 17;

/// Fill levels of OSDs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ratios {
    /// Level of a warning.
    pub nearfull: f32,
    /// Level at which writes stop.
    pub full: f32,
    /// Level at which backfill stops.
    pub backfillfull: f32,
}

/// Stretch mode of a cluster over two sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StretchMode {
    /// Whether the mode is enabled.
    pub enabled: bool,
    /// Number of sites.
    pub bucket_count: u32,
    /// Number of remaining sites, if some are lost.
    pub degraded: u32,
    /// Whether the cluster is recovering from a loss.
    pub recovering: u32,
    /// Bucket type of a site.
    pub bucket: i32,
}

/// Map of a cluster's OSDs.
///
/// The lists by OSD (`osd_state` to `osd_xinfo`) have `max_osd` entries.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields for OSDs and monitors have Ceph's names")]
pub struct OsdMap {
    /// Version of the clients' part of the encoding, which is preserved: 9 (Nautilus to
    /// Quincy) or 10 (since Reef).
    pub version: u8,
    pub fsid: Uuid,
    pub epoch: Epoch,
    pub created: Utime,
    pub modified: Utime,
    pub last_up_change: Utime,
    pub last_in_change: Utime,
    /// See [`flag`].
    pub flags: u32,

    pub pools: BTreeMap<i64, Pool>,
    pub pool_names: BTreeMap<i64, String>,
    /// Highest pool id ever allocated.
    pub pool_max: i64,

    pub max_osd: usize,
    /// See [`state`].
    pub osd_state: Vec<u32>,
    /// Share of its data that an OSD takes, in units of 1/[`WEIGHT_IN`](super::WEIGHT_IN).
    pub osd_weight: Vec<u32>,
    /// See [`PRIMARY_AFFINITY_MAX`]. Empty: all have the default.
    pub osd_primary_affinity: Vec<u32>,
    /// Addresses for clients.
    pub client_addrs: Vec<AddrVec>,
    /// Addresses for other OSDs.
    pub cluster_addrs: Vec<AddrVec>,
    pub heartbeat_back_addrs: Vec<AddrVec>,
    pub heartbeat_front_addrs: Vec<AddrVec>,
    pub osd_uuid: Vec<Uuid>,
    pub osd_info: Vec<OsdInfo>,
    pub osd_xinfo: Vec<OsdXInfo>,

    /// Groups that other OSDs serve temporarily.
    pub pg_temp: BTreeMap<PgId, Vec<i32>>,
    /// Groups with another primary temporarily.
    pub primary_temp: BTreeMap<PgId, i32>,
    /// Groups with an explicit placement.
    pub pg_upmap: BTreeMap<PgId, Vec<i32>>,
    /// Groups in which single OSDs are explicitly replaced: from, to.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(i32, i32)>>,
    /// Groups with an explicit primary.
    pub pg_upmap_primaries: BTreeMap<PgId, i32>,
    pub crush: Arc<CrushMap>,
    pub crush_version: u32,
    pub erasure_code_profiles: BTreeMap<String, BTreeMap<String, String>>,

    /// Blocklisted clients, with the end of the block.
    pub blocklist: BTreeMap<EntityAddr, Utime>,
    /// Blocklisted networks, with the end of the block.
    pub range_blocklist: BTreeMap<EntityAddr, Utime>,
    pub cluster_snapshot_epoch: Epoch,
    pub cluster_snapshot: String,
    pub ratios: Ratios,
    /// See [`release`](super::release).
    pub require_min_compat_client: u8,
    /// See [`release`](super::release).
    pub require_osd_release: u8,
    pub new_removed_snaps: BTreeMap<i64, IntervalSet>,
    pub new_purged_snaps: BTreeMap<i64, IntervalSet>,
    pub removed_snaps_queue: BTreeMap<i64, IntervalSet>,
    pub crush_node_flags: BTreeMap<i32, u32>,
    pub device_class_flags: BTreeMap<i32, u32>,
    pub stretch_mode: StretchMode,
    pub allow_crimson: bool,

    /// Whether the decoded map encoded to the same bytes again. Only then can its checksum be compared with that in the
    /// monitors' next incremental map.
    pub reproducible: bool,
}

impl Default for OsdMap {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            fsid: Uuid::default(),
            epoch: 0,
            created: Utime::default(),
            modified: Utime::default(),
            last_up_change: Utime::default(),
            last_in_change: Utime::default(),
            flags: 0,
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: -1,
            max_osd: 0,
            osd_state: Vec::new(),
            osd_weight: Vec::new(),
            osd_primary_affinity: Vec::new(),
            client_addrs: Vec::new(),
            cluster_addrs: Vec::new(),
            heartbeat_back_addrs: Vec::new(),
            heartbeat_front_addrs: Vec::new(),
            osd_uuid: Vec::new(),
            osd_info: Vec::new(),
            osd_xinfo: Vec::new(),
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            pg_upmap_primaries: BTreeMap::new(),
            crush: Arc::new(CrushMap::flat(&[], Layout::HostPerDevice)),
            crush_version: 1,
            erasure_code_profiles: BTreeMap::new(),
            blocklist: BTreeMap::new(),
            range_blocklist: BTreeMap::new(),
            cluster_snapshot_epoch: 0,
            cluster_snapshot: String::new(),
            ratios: Ratios::default(),
            require_min_compat_client: 0,
            require_osd_release: 0,
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            removed_snaps_queue: BTreeMap::new(),
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
            stretch_mode: StretchMode::default(),
            allow_crimson: false,
            reproducible: true,
        }
    }
}

impl OsdMap {
    /// Version of the clients' part in new maps: that of Reef and later.
    pub const VERSION: u8 = 10;
    /// Version of the clients' part from Nautilus to Quincy.
    pub const VERSION_NAUTILUS: u8 = 9;

    /// Returns the id of the pool with this name.
    pub fn pool_id(&self, name: &str) -> Option<i64> {
        self.pool_names.iter().find(|(_, other)| *other == name).map(|(id, _)| *id)
    }

    /// Returns the state bits (see [`state`]) of an OSD; 0 if it does not exist.
    pub fn state(&self, osd: i32) -> u32 {
        usize::try_from(osd).ok().and_then(|osd| self.osd_state.get(osd)).copied().unwrap_or(0)
    }

    /// Returns whether the OSD exists.
    pub fn exists(&self, osd: i32) -> bool {
        self.state(osd) & state::EXISTS != 0
    }

    /// Returns whether the OSD exists and is up.
    pub fn is_up(&self, osd: i32) -> bool {
        const BOTH: u32 = state::EXISTS | state::UP;
        self.state(osd) & BOTH == BOTH
    }

    /// Returns the addresses of an OSD for clients, if it is up.
    pub fn client_addr(&self, osd: i32) -> Option<&AddrVec> {
        if self.is_up(osd) { self.client_addrs.get(osd as usize) } else { None }
    }

    /// Returns the addresses of an OSD for other OSDs, if it is up.
    pub fn cluster_addr(&self, osd: i32) -> Option<&AddrVec> {
        if self.is_up(osd) { self.cluster_addrs.get(osd as usize) } else { None }
    }

    /// Returns whether the flag (see [`flag`]) is set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether a pool is full (`Objecter::_osdmap_pool_full`, and the older flag for all pools).
    pub fn is_pool_full(&self, pool: i64) -> bool {
        self.has_flag(flag::FULL) || self.pools.get(&pool).is_some_and(|pool| pool.has_flag(pool_flag::FULL))
    }

    /// Resizes the map to OSDs with ids below `max_osd`, dropping those above.
    ///
    /// # Panics
    /// If `max_osd` exceeds [`MAX_OSDS`].
    pub fn set_max_osd(&mut self, max_osd: usize) {
        assert!(max_osd <= MAX_OSDS, "a map has at most {MAX_OSDS} OSDs");
        self.max_osd = max_osd;
        self.osd_state.resize(max_osd, 0);
        self.osd_weight.resize(max_osd, 0);
        if !self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity.resize(max_osd, PRIMARY_AFFINITY_MAX);
        }
        for addrs in [
            &mut self.client_addrs,
            &mut self.cluster_addrs,
            &mut self.heartbeat_back_addrs,
            &mut self.heartbeat_front_addrs,
        ] {
            addrs.resize_with(max_osd, AddrVec::default);
        }
        self.osd_uuid.resize(max_osd, Uuid::default());
        self.osd_info.resize(max_osd, OsdInfo::default());
        self.osd_xinfo.resize(max_osd, OsdXInfo::default());
    }

    /// Sets the primary affinity of an OSD below `max_osd`.
    pub fn set_primary_affinity(&mut self, osd: usize, affinity: u32) {
        if self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity.resize(self.max_osd, PRIMARY_AFFINITY_MAX);
        }
        self.osd_primary_affinity[osd] = affinity;
    }
}
