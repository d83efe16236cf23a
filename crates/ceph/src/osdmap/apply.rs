//! Application of incremental maps (ceph `src/osd/OSDMap.cc`, OSDMap::apply_incremental).

use super::codec::checked_max_osd;
use super::flags::{flag, release};
use super::incremental::{CrimsonChange, Incremental};
use super::map::OsdMap;
use super::osd::{OsdInfo, OsdXInfo, PRIMARY_AFFINITY_MAX, state};
use super::pool::Pool;
use crate::crush::{CrushMap, MsrTunables};
use crate::types::{Epoch, Utime, Uuid};
use onego_msgr::addr::AddrVec;
use onego_msgr::encoding::Decode;
use onego_msgr::features::{self, CRUSH_MSR, SERVER_TENTACLE};
use onego_wire::DecodeError;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Error of applying an incremental map. The map is unusable afterwards: a full one is needed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapError {
    /// It belongs to another cluster.
    #[error("the incremental osdmap belongs to cluster {theirs}, the map to cluster {ours}")]
    OtherCluster {
        /// Cluster of the map.
        ours: Uuid,
        /// Cluster of the incremental map.
        theirs: Uuid,
    },
    /// It does not follow the map.
    #[error("the incremental osdmap leads to epoch {to}, but the map has epoch {from}")]
    OtherEpoch {
        /// Epoch of the map.
        from: Epoch,
        /// Epoch that the incremental map leads to.
        to: Epoch,
    },
    /// It changes an OSD beyond the map's size.
    #[error("the incremental osdmap changes osd.{osd}, which exceeds the map's max_osd of {max_osd}")]
    NoSuchOsd {
        /// Id of the OSD.
        osd: i32,
        /// Size of the map.
        max_osd: usize,
    },
    /// It cannot be decoded, or the resulting map has another checksum.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl OsdMap {
    /// Applies the changes of the next epoch.
    ///
    /// The encoding of the result must have the checksum that the monitors computed. This is checked only if the decoded
    /// map was [reproducible](Self::reproducible): it is unless its writer was newer than this library or
    /// older than Pacific.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), MapError> {
        if inc.epoch == 1 {
            self.fsid = inc.fsid;
        } else if inc.fsid != self.fsid {
            return Err(MapError::OtherCluster { ours: self.fsid, theirs: inc.fsid });
        }
        if self.epoch.checked_add(1) != Some(inc.epoch) {
            return Err(MapError::OtherEpoch { from: self.epoch, to: inc.epoch });
        }
        if !inc.full_map.is_empty() {
            return self.replace(inc);
        }
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        self.version = inc.version + 1;
        self.apply_flags(inc);
        if let Some(max_osd) = inc.new_max_osd {
            self.set_max_osd(checked_max_osd(max_osd)?);
        }
        self.apply_pools(inc);
        self.apply_snaps(inc);
        self.apply_osds(inc)?;
        self.apply_placement(inc);
        self.apply_settings(inc);
        self.apply_crush(inc)?;
        self.apply_features(inc.features);
        self.verify(inc.full_crc)
    }

    fn replace(&mut self, inc: &Incremental) -> Result<(), MapError> {
        let map = OsdMap::from_bytes(&inc.full_map)?;
        if map.fsid != inc.fsid {
            return Err(MapError::OtherCluster { ours: inc.fsid, theirs: map.fsid });
        }
        if map.epoch != inc.epoch {
            return Err(MapError::OtherEpoch { from: self.epoch, to: map.epoch });
        }
        *self = map;
        Ok(())
    }

    fn verify(&self, expected: u32) -> Result<(), MapError> {
        if !self.reproducible || expected == 0 {
            return Ok(());
        }
        let actual = self.crc();
        if actual != expected {
            return Err(
                DecodeError::Checksum { what: "osdmap after an incremental one", expected, actual }.into()
            );
        }
        Ok(())
    }

    fn apply_flags(&mut self, inc: &Incremental) {
        let Some(flags) = inc.new_flags else { return };
        self.flags = flags;
        if flags & flag::REQUIRE_KRAKEN != 0 {
            self.require_osd_release = self.require_osd_release.max(release::KRAKEN);
        } else if flags & flag::REQUIRE_JEWEL != 0 {
            self.require_osd_release = self.require_osd_release.max(release::JEWEL);
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        if let Some(max) = inc.new_pool_max {
            self.pool_max = max;
        }
        for (&id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = inc.epoch;
            self.pools.insert(id, pool);
        }
        // A monitor writes all pools in one version, including unchanged ones.
        if let Some(version) = inc.new_pools.values().map(|pool| pool.version).max() {
            self.pools.values_mut().for_each(|pool| pool.version = version);
        }
        for (&id, name) in &inc.new_pool_names {
            self.pool_names.insert(id, name.clone());
        }
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_names.remove(id);
        }
    }

    fn apply_snaps(&mut self, inc: &Incremental) {
        self.new_removed_snaps.clone_from(&inc.new_removed_snaps);
        self.new_purged_snaps.clone_from(&inc.new_purged_snaps);
        for (&pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(pool).or_default().union(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            if let Some(queue) = self.removed_snaps_queue.get_mut(pool) {
                queue.subtract(snaps);
                if queue.is_empty() {
                    self.removed_snaps_queue.remove(pool);
                }
            }
        }
    }

    fn index(&self, osd: i32) -> Result<usize, MapError> {
        let index = usize::try_from(osd).ok().filter(|index| *index < self.max_osd);
        index.ok_or(MapError::NoSuchOsd { osd, max_osd: self.max_osd })
    }

    fn apply_osds(&mut self, inc: &Incremental) -> Result<(), MapError> {
        for (&osd, &weight) in &inc.new_weight {
            let osd = self.index(osd)?;
            self.osd_weight[osd] = weight;
            if weight != 0 {
                self.osd_state[osd] |= state::EXISTS;
                self.osd_state[osd] &= !(state::AUTOOUT | state::NEW);
                self.osd_xinfo[osd].old_weight = 0;
            }
        }
        for (&osd, &affinity) in &inc.new_primary_affinity {
            let osd = self.index(osd)?;
            self.set_primary_affinity(osd, affinity);
        }
        for (&osd, &bits) in &inc.new_state {
            let osd = self.index(osd)?;
            self.flip_state(osd, if bits == 0 { state::UP } else { bits });
        }
        for (&osd, addrs) in &inc.new_up_client {
            let index = self.index(osd)?;
            let addrs_of = |map: &BTreeMap<i32, AddrVec>| map.get(&osd).cloned().unwrap_or_default();
            self.osd_state[index] |= state::EXISTS | state::UP;
            self.osd_state[index] &= !state::STOP;
            self.client_addrs[index] = addrs.clone();
            self.heartbeat_back_addrs[index] = addrs_of(&inc.new_heartbeat_back_up);
            self.heartbeat_front_addrs[index] = addrs_of(&inc.new_heartbeat_front_up);
            self.osd_info[index].up_from = self.epoch;
        }
        for (&osd, addrs) in &inc.new_up_cluster {
            let osd = self.index(osd)?;
            self.cluster_addrs[osd] = addrs.clone();
        }
        self.apply_osd_info(inc)
    }

    /// Flips bits of an OSD's state. Clears an OSD that ceases to exist.
    fn flip_state(&mut self, osd: usize, bits: u32) {
        let both = self.osd_state[osd] & bits;
        if both & state::UP != 0 {
            self.osd_info[osd].down_at = self.epoch;
            self.osd_xinfo[osd].down_stamp = self.modified;
        }
        if both & state::EXISTS == 0 {
            self.osd_state[osd] ^= bits;
            return;
        }
        self.osd_state[osd] = 0;
        self.osd_uuid[osd] = Uuid::default();
        self.osd_info[osd] = OsdInfo::default();
        self.osd_xinfo[osd] = OsdXInfo::default();
        self.set_primary_affinity(osd, PRIMARY_AFFINITY_MAX);
        self.client_addrs[osd] = AddrVec::default();
        self.cluster_addrs[osd] = AddrVec::default();
        self.heartbeat_back_addrs[osd] = AddrVec::default();
        self.heartbeat_front_addrs[osd] = AddrVec::default();
    }

    fn apply_osd_info(&mut self, inc: &Incremental) -> Result<(), MapError> {
        for (&osd, &epoch) in &inc.new_up_thru {
            let osd = self.index(osd)?;
            self.osd_info[osd].up_thru = epoch;
        }
        for (&osd, &(begin, end)) in &inc.new_last_clean_interval {
            let osd = self.index(osd)?;
            self.osd_info[osd].last_clean_begin = begin;
            self.osd_info[osd].last_clean_end = end;
        }
        for (&osd, &epoch) in &inc.new_lost {
            let osd = self.index(osd)?;
            self.osd_info[osd].lost_at = epoch;
        }
        for (&osd, &info) in &inc.new_xinfo {
            let osd = self.index(osd)?;
            self.osd_xinfo[osd] = info;
        }
        for (&osd, &uuid) in &inc.new_uuid {
            let osd = self.index(osd)?;
            self.osd_uuid[osd] = uuid;
        }
        Ok(())
    }

    fn apply_placement(&mut self, inc: &Incremental) {
        for (&pg, osds) in &inc.new_pg_temp {
            if osds.is_empty() {
                self.pg_temp.remove(&pg);
            } else {
                self.pg_temp.insert(pg, osds.clone());
            }
        }
        for (&pg, &osd) in &inc.new_primary_temp {
            if osd == -1 {
                self.primary_temp.remove(&pg);
            } else {
                self.primary_temp.insert(pg, osd);
            }
        }
        update(&mut self.pg_upmap, &inc.new_pg_upmap, &inc.old_pg_upmap);
        update(&mut self.pg_upmap_items, &inc.new_pg_upmap_items, &inc.old_pg_upmap_items);
        update(&mut self.pg_upmap_primaries, &inc.new_pg_upmap_primaries, &inc.old_pg_upmap_primaries);
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        for (time, new) in [
            (&mut self.last_up_change, inc.new_last_up_change),
            (&mut self.last_in_change, inc.new_last_in_change),
        ] {
            if new != Utime::default() {
                *time = new;
            }
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        self.erasure_code_profiles.extend(inc.new_erasure_code_profiles.clone());
        for (list, new, old) in [
            (&mut self.blocklist, &inc.new_blocklist, &inc.old_blocklist),
            (&mut self.range_blocklist, &inc.new_range_blocklist, &inc.old_range_blocklist),
        ] {
            for (&addr, &until) in new {
                // An existing entry keeps its time.
                list.entry(addr).or_insert(until);
            }
            for addr in old {
                list.remove(addr);
            }
        }
        update_flags(&mut self.crush_node_flags, &inc.new_crush_node_flags);
        update_flags(&mut self.device_class_flags, &inc.new_device_class_flags);
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { 0 } else { inc.epoch };
        for (ratio, new) in [
            (&mut self.ratios.nearfull, inc.new_ratios.nearfull),
            (&mut self.ratios.full, inc.new_ratios.full),
            (&mut self.ratios.backfillfull, inc.new_ratios.backfillfull),
        ] {
            if new >= 0.0 {
                *ratio = new;
            }
        }
        if let Some(release) = inc.new_require_min_compat_client.filter(|release| *release != 0) {
            self.require_min_compat_client = release;
        }
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            self.normalize_flags();
        }
        if let Some(mode) = inc.new_stretch_mode {
            self.stretch_mode = mode;
        }
        match inc.crimson {
            CrimsonChange::Keep => {}
            CrimsonChange::Allow => self.allow_crimson = true,
            CrimsonChange::Forbid => self.allow_crimson = false,
        }
    }

    fn apply_crush(&mut self, inc: &Incremental) -> Result<(), MapError> {
        if inc.crush.is_empty() {
            return Ok(());
        }
        let mut crush = CrushMap::from_bytes(&inc.crush)?;
        // The monitors' next full map contains it in this form, not as sent.
        crush.finalize();
        self.crush = Arc::new(crush);
        if self.require_osd_release >= release::LUMINOUS {
            self.crush_version = self.crush_version.wrapping_add(1);
        }
        let classes = &self.crush.class_names;
        self.device_class_flags.retain(|class, _| classes.contains_key(class));
        Ok(())
    }

    /// Converts the map to the form in which the monitors encode full maps for these features. OSDs do the same
    /// (ceph `src/osd/OSD.cc`, OSD::handle_osd_map).
    fn apply_features(&mut self, features: u64) {
        // The CRUSH map in an incremental map is encoded for all features that the monitors know. Of releases up to 20.2, none
        // includes this one in the features of a full map's encoding (OSDMap.h, SIGNIFICANT_FEATURES): a decoder of full maps, such as
        // an OSD before each increment, has the default values again.
        let msr = features::has(features, CRUSH_MSR);
        let msr = msr.then(|| self.crush.tunables.msr.unwrap_or(MsrTunables::DEFAULT));
        if self.crush.tunables.msr != msr {
            Arc::make_mut(&mut self.crush).tunables.msr = msr;
        }
        // Once Tentacle is required, this also holds for unchanged pools.
        if features::has(features, SERVER_TENTACLE) {
            self.pools.values_mut().for_each(|pool| pool.version = Pool::NEWEST);
        }
    }
}

fn update<'a, K: Ord + Copy + 'a, V: Clone>(
    map: &mut BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
    old: impl IntoIterator<Item = &'a K>,
) {
    map.extend(new.iter().map(|(key, value)| (*key, value.clone())));
    for key in old {
        map.remove(key);
    }
}

fn update_flags(map: &mut BTreeMap<i32, u32>, new: &BTreeMap<i32, u32>) {
    for (&id, &flags) in new {
        if flags == 0 {
            map.remove(&id);
        } else {
            map.insert(id, flags);
        }
    }
}
