//! How full the cluster is and how its placement groups are, as its OSDs tell it.

use crate::osd::{Contents, PoolUsage};
use onego_ceph::types::PgId;
use std::collections::BTreeMap;

/// How full the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes there is room for.
    pub total: u64,
    /// Bytes taken.
    pub used: u64,
    /// The pools that hold something or were used. An object counts once, however many copies of it there are.
    pub pools: BTreeMap<i64, PoolUsage>,
    /// How full each OSD is.
    pub osds: BTreeMap<i32, OsdUsage>,
    /// How the placement groups are.
    pub(crate) groups: BTreeMap<PgId, GroupReport>,
}

/// How full an OSD is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdUsage {
    /// Bytes there is room for.
    pub total: u64,
    /// Bytes taken.
    pub used: u64,
}

impl OsdUsage {
    /// Bytes that are free.
    pub fn available(&self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The share of the room that is taken.
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }
}

/// How a placement group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupReport {
    pub(crate) state: GroupState,
    pub(crate) contents: Contents,
    /// Copies of objects that there should be and are not.
    pub(crate) degraded: u64,
}

/// What is true of a placement group (ceph `src/osd/osd_types.h`, `PG_STATE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupState {
    /// None of its OSDs is up.
    pub(crate) stale: bool,
    /// It serves requests.
    pub(crate) active: bool,
    /// Everything is where it belongs.
    pub(crate) clean: bool,
    /// Its newest data are on OSDs that are down.
    pub(crate) down: bool,
    /// It has fewer OSDs than copies.
    pub(crate) undersized: bool,
    /// Objects have fewer copies than they should.
    pub(crate) degraded: bool,
    /// It is served by other OSDs than those where it belongs.
    pub(crate) remapped: bool,
    /// An OSD is given what it missed.
    pub(crate) recovering: bool,
    /// An OSD is given everything.
    pub(crate) backfilling: bool,
    /// Its newest data are lost.
    pub(crate) incomplete: bool,
}

impl GroupState {
    /// The state's name: `active+clean` (ceph `src/osd/osd_types.cc`, `pg_state_string`).
    pub(crate) fn name(&self) -> String {
        let known = !self.stale && !self.down && !self.incomplete;
        let names = [
            (self.stale, "stale"),
            (self.active, "active"),
            (self.clean, "clean"),
            (self.down, "down"),
            (self.undersized, "undersized"),
            (self.degraded, "degraded"),
            (self.remapped, "remapped"),
            (self.recovering, "recovering"),
            (self.backfilling, "backfilling"),
            (self.incomplete, "incomplete"),
            (known && !self.active, "peered"),
        ];
        let names: Vec<&str> = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        names.join("+")
    }
}

impl Usage {
    /// Bytes that are free.
    pub fn available(&self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The share of the room that is taken.
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }

    /// Use of one pool.
    pub fn pool(&self, id: i64) -> PoolUsage {
        self.pools.get(&id).copied().unwrap_or_default()
    }

    /// Objects in all pools.
    pub fn objects(&self) -> u64 {
        self.pools.values().map(|pool| pool.objects).sum()
    }

    /// Bytes of the data of all objects.
    pub fn bytes(&self) -> u64 {
        self.pools.values().map(|pool| pool.bytes).sum()
    }
}
