//! Selects the OSD of a request, without running CRUSH for each.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::_calc_target; linux `net/ceph/osd_client.c`, calc_target.

use super::table::NOBODY;
use crate::client::random::Random;
use crate::crush::Workspace;
use crate::messages::ObjectName;
use crate::ops::{flag, respects_full};
use crate::osdmap::{OsdMap, PoolKind, flag as map_flag, pool_flag};
use crate::types::{Epoch, ObjectLocator, PgId, SpgId};
use onego_msgr::addr::{EntityAddr, Versions};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of a pool's groups that are cached: the default limit of a pool (`mon_max_pool_pg_num`). For further groups of a
/// larger pool, CRUSH runs each time.
const MAX_KEPT: u32 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpTarget {
    pub(super) pg: SpgId,
    pub(super) pg_num: u32,
    pub(super) osd: i32,
    pub(super) replica: bool,
    pub(super) paused: bool,
    /// OSDs drop requests that were sent with maps before this epoch.
    pub(super) resend_before: Epoch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTarget {
    NoMap,
    NoPool,
    BadPool,
}

#[derive(Debug, Clone)]
struct Group {
    primary: i32,
    shard: i8,
    acting: SmallVec<[i32; 4]>,
}

#[derive(Debug)]
struct PoolTargets {
    pg_num: u32,
    mask: u32,
    read_tier: i64,
    write_tier: i64,
    tiered: bool,
    full: bool,
    bad: bool,
    replicated: bool,
    resend_before: Epoch,
    /// By seed; `None`: not computed yet for this map.
    groups: Vec<Option<Group>>,
    beyond: Option<Group>,
}

#[derive(Debug, Default)]
pub(super) struct Targets {
    versions: Versions,
    as_osd: bool,
    map: Option<Arc<OsdMap>>,
    pools: FxHashMap<i64, PoolTargets>,
    reads_paused: bool,
    writes_paused: bool,
    workspace: Workspace,
}

impl Targets {
    pub(super) fn new(versions: Versions, as_osd: bool) -> Self {
        Self { versions, as_osd, ..Self::default() }
    }

    pub(super) fn addr(&self, osd: i32) -> Option<EntityAddr> {
        let map = self.map.as_ref()?;
        if self.as_osd {
            return map.cluster_addr(osd)?.reached_by(self.versions).copied();
        }
        osd_addr(map, osd, self.versions)
    }

    pub(super) fn map(&self) -> Option<&Arc<OsdMap>> {
        self.map.as_ref()
    }

    /// Takes the map in order to change it. All targets are unknown until [`set`](Self::set).
    pub(super) fn take(&mut self) -> Option<Arc<OsdMap>> {
        self.pools.clear();
        self.map.take()
    }

    pub(super) fn set(&mut self, map: Arc<OsdMap>) {
        self.reads_paused = map.has_flag(map_flag::PAUSERD);
        self.writes_paused = map.has_flag(map_flag::PAUSEWR);
        self.pools = map
            .pools
            .iter()
            .map(|(id, pool)| {
                let targets = PoolTargets {
                    pg_num: pool.pg_num,
                    mask: mask(pool.pg_num),
                    read_tier: pool.read_tier,
                    write_tier: pool.write_tier,
                    tiered: pool.read_tier >= 0 || pool.write_tier >= 0,
                    full: map.is_pool_full(*id),
                    bad: pool.has_flag(pool_flag::EIO),
                    replicated: pool.kind == PoolKind::Replicated,
                    resend_before: pool.last_force_op_resend,
                    groups: Vec::new(),
                    beyond: None,
                };
                (*id, targets)
            })
            .collect();
        self.map = Some(map);
    }

    /// Returns whether the map pauses anything, so that a newer map is needed to end that.
    pub(super) fn restricts(&self) -> bool {
        self.reads_paused || self.writes_paused || self.pools.values().any(|pool| pool.full)
    }

    pub(super) fn is_full(&self, pool: i64) -> bool {
        self.pools.get(&pool).is_some_and(|pool| pool.full)
    }

    pub(super) fn reads_paused(&self) -> bool {
        self.reads_paused
    }

    /// Returns the hash of a pool's object. `None`: there is no such pool.
    #[inline]
    pub(super) fn hash(&self, pool: i64, name: &ObjectName, locator: &ObjectLocator) -> Option<u32> {
        let known = self.map.as_ref()?.pools.get(&pool)?;
        Some(known.object_pg(pool, name, &locator.key, &locator.namespace, locator.hash).seed)
    }

    /// Returns the target of a request with these flags. A read that may go to a replica stays at the OSD `at` if
    /// possible.
    #[inline]
    pub(super) fn find(
        &mut self,
        pool: i64,
        hash: u32,
        flags: u32,
        at: i32,
        random: &mut Random,
    ) -> Result<OpTarget, NoTarget> {
        let Some(map) = &self.map else { return Err(NoTarget::NoMap) };
        let mut pool = pool;
        let mut targets = self.pools.get_mut(&pool).ok_or(NoTarget::NoPool)?;
        if targets.tiered && flags & flag::IGNORE_OVERLAY == 0 {
            pool = targets.tier(pool, flags);
            targets = self.pools.get_mut(&pool).ok_or(NoTarget::NoPool)?;
        }
        if targets.bad {
            return Err(NoTarget::BadPool);
        }
        let replicas = wants_replica(flags) && targets.replicated;
        let pg = PgId { pool, seed: stable_mod(hash, targets.pg_num, targets.mask) };
        let group = targets.group(map, self.versions, &mut self.workspace, pg);
        let (primary, shard) = (group.primary, group.shard);
        let osd = if replicas && primary >= 0 && !group.acting.is_empty() {
            let kept = group.acting.iter().find(|osd| **osd == at);
            kept.copied().unwrap_or_else(|| group.acting[random.below(group.acting.len())])
        } else {
            primary
        };
        let writes_stop = self.writes_paused || (respects_full(flags) && targets.full);
        let paused = flags & flag::READ != 0 && self.reads_paused || flags & flag::WRITE != 0 && writes_stop;
        Ok(OpTarget {
            pg: SpgId { pg, shard },
            pg_num: targets.pg_num,
            osd,
            replica: osd != primary,
            paused,
            resend_before: targets.resend_before,
        })
    }
}

impl PoolTargets {
    /// Returns the pool that serves requests to this one, whose id is `pool`: the cache tier if there is one.
    fn tier(&self, pool: i64, flags: u32) -> i64 {
        if flags & flag::WRITE != 0 && self.write_tier >= 0 {
            self.write_tier
        } else if flags & flag::READ != 0 && self.read_tier >= 0 {
            self.read_tier
        } else {
            pool
        }
    }

    /// Returns the OSDs of a group, computed at most once per map.
    #[inline]
    fn group(&mut self, map: &OsdMap, versions: Versions, workspace: &mut Workspace, pg: PgId) -> &Group {
        if self.groups.is_empty() {
            self.groups.resize(self.pg_num.min(MAX_KEPT) as usize, None);
        }
        match self.groups.get_mut(pg.seed as usize) {
            Some(group) => group.get_or_insert_with(|| Group::place(map, versions, workspace, pg)),
            None => self.beyond.insert(Group::place(map, versions, workspace, pg)),
        }
    }
}

impl Group {
    fn place(map: &OsdMap, versions: Versions, workspace: &mut Workspace, pg: PgId) -> Self {
        let placement = map.place_with(workspace, pg);
        let reachable = |osd: i32| osd_addr(map, osd, versions).is_some();
        let primary = placement.acting_primary;
        Self {
            primary: if reachable(primary) { primary } else { NOBODY },
            shard: placement.primary_shard,
            acting: placement.acting.into_iter().filter(|osd| reachable(*osd)).collect(),
        }
    }
}

fn osd_addr(map: &OsdMap, osd: i32, versions: Versions) -> Option<EntityAddr> {
    map.client_addr(osd)?.reached_by(versions).copied()
}

fn wants_replica(flags: u32) -> bool {
    flags & (flag::BALANCE_READS | flag::LOCALIZE_READS) != 0 && flags & flag::WRITE == 0
}

/// Returns `x` modulo `n` such that few results change when `n` grows (rados.h, ceph_stable_mod). `mask` is that of
/// [`mask`].
#[inline]
fn stable_mod(x: u32, n: u32, mask: u32) -> u32 {
    if x & mask < n { x & mask } else { x & (mask >> 1) }
}

/// Returns the smallest 2^k - 1 that is at least `n - 1`.
fn mask(n: u32) -> u32 {
    n.checked_next_power_of_two().map_or(u32::MAX, |power| power - 1)
}

/// Returns whether the growth of the number of groups from `old` to `new` splits the group `seed` (osd_types.cc,
/// pg_t::is_split).
pub(super) fn is_split(seed: u32, old: u32, new: u32) -> bool {
    let mask = mask(old);
    // Growth beyond the maximum size of a pool counts as a split of all groups.
    new.saturating_sub(old) > MAX_KEPT || (old..new).any(|child| stable_mod(child, old, mask) == seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_split_if_it_is_the_parent_of_a_new_one() {
        // From 4 to 6 groups: 0 is the parent of 4, 1 of 5.
        assert_eq!([0, 1, 2, 3].map(|seed| is_split(seed, 4, 6)), [true, true, false, false]);
        assert!(!is_split(0, 4, 4));
        assert!(!is_split(0, 6, 4));
        // From 6 to 8: 2 is the parent of 6, 3 of 7.
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|seed| is_split(seed, 6, 8)),
            [false, false, true, true, false, false]
        );
    }
}
