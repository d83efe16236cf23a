//! The maps that a cluster begins with: of its monitor, its manager, and its OSDs.

use onego_ceph::crush::{CrushMap, Layout};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::monmap::{ElectionStrategy, MonInfo, MonMap};
use onego_ceph::osdmap::{OsdInfo, OsdMap, OsdXInfo, Ratios, WEIGHT_IN, flag, release, state};
use onego_ceph::types::{Epoch, Utime, Uuid};
use onego_msgr::addr::AddrVec;
use onego_msgr::features;
use std::sync::Arc;

/// The monitor's name.
pub(crate) const MON_NAME: &str = "a";

/// The manager's name.
pub(crate) const MGR_NAME: &str = "a";

/// The manager's number among those who have come to the monitor.
pub(crate) const MGR_GLOBAL_ID: u64 = 4099;

/// The first epoch: clients take 0 for "none".
const FIRST_EPOCH: Epoch = 1;

/// What monitors of Pacific agree on, a bit each from Kraken on (ceph `src/mon/mon_types.h`).
pub(crate) const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// The map of a manager that is reached there; without an address there is none.
pub(crate) fn manager(epoch: Epoch, now: Utime, addrs: AddrVec) -> MgrMap {
    if addrs.0.is_empty() {
        return MgrMap { epoch, ..MgrMap::default() };
    }
    MgrMap {
        epoch,
        active_addrs: addrs,
        active_gid: MGR_GLOBAL_ID,
        available: true,
        active_name: MGR_NAME.into(),
        active_change: now,
        active_features: features::ALL,
        ..MgrMap::default()
    }
}

/// The map of the one monitor.
pub(crate) fn monitors(fsid: Uuid, now: Utime, addrs: AddrVec) -> MonMap {
    let mut map = MonMap {
        fsid,
        epoch: FIRST_EPOCH,
        last_changed: now,
        created: now,
        persistent_features: (1 << MON_FEATURES.len()) - 1,
        min_mon_release: release::PACIFIC,
        strategy: ElectionStrategy::Classic,
        ..MonMap::default()
    };
    map.add(MonInfo { name: MON_NAME.into(), public_addrs: addrs, ..MonInfo::default() });
    map
}

/// An OSD that a cluster begins with.
#[derive(Debug, Clone)]
pub(crate) struct FirstOsd {
    pub(crate) uuid: Uuid,
    /// Where clients reach it.
    pub(crate) addrs: AddrVec,
}

/// The map of the OSDs, all up and in, without pools, in the encoding that every client since Nautilus reads.
pub(crate) fn osds(fsid: Uuid, now: Utime, osds: &[FirstOsd]) -> OsdMap {
    let ids: Vec<i32> = (0..).take(osds.len()).collect();
    let mut map = OsdMap::default();
    map.set_max_osd(osds.len());
    map.version = OsdMap::VERSION_NAUTILUS;
    map.fsid = fsid;
    map.epoch = FIRST_EPOCH;
    map.created = now;
    map.modified = now;
    map.last_up_change = now;
    map.last_in_change = now;
    map.flags = flag::SORTBITWISE | flag::RECOVERY_DELETES | flag::PURGED_SNAPDIRS | flag::PGLOG_HARDLIMIT;
    map.pool_max = 0;
    map.crush = Arc::new(CrushMap::flat(&ids, Layout::OneHost));
    map.ratios = Ratios { nearfull: 0.85, full: 0.95, backfillfull: 0.9 };
    map.require_min_compat_client = release::LUMINOUS;
    map.require_osd_release = release::PACIFIC;
    map.osd_state.fill(state::EXISTS | state::UP);
    map.osd_weight.fill(WEIGHT_IN);
    map.osd_info.fill(OsdInfo { up_from: FIRST_EPOCH, up_thru: FIRST_EPOCH, ..OsdInfo::default() });
    map.osd_xinfo.fill(OsdXInfo { features: features::ALL, ..OsdXInfo::default() });
    for (at, FirstOsd { uuid, addrs }) in osds.iter().enumerate() {
        map.client_addrs[at] = addrs.clone();
        map.cluster_addrs[at] = addrs.clone();
        map.heartbeat_front_addrs[at] = addrs.clone();
        map.heartbeat_back_addrs[at] = addrs.clone();
        map.osd_uuid[at] = *uuid;
    }
    map
}
