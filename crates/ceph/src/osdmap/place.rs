//! Placement of objects on OSDs.
//!
//! Source: ceph `src/osd/OSDMap.cc`, OSDMap::_pg_to_up_acting_osds and its callees. An object's hash is its raw
//! placement group; CRUSH maps the group to OSDs. Then follow, in this order: explicit placement (upmap), removal of
//! OSDs that are down, primary affinity, and temporary placement (pg_temp, primary_temp).

use super::map::OsdMap;
use super::osd::PRIMARY_AFFINITY_MAX;
use super::pool::{Pool, PoolKind, flag as pool_flag};
use crate::crush::{ITEM_NONE, Workspace};
use crate::hash::crush_hash32_2;
use crate::types::{PgId, SpgId};

/// Placement of a group. In an erasure-coded pool the lists have one place per shard, with [`ITEM_NONE`] for a missing
/// OSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// OSDs to which the group belongs.
    pub up: Vec<i32>,
    /// Primary of `up`, or -1.
    pub up_primary: i32,
    /// OSDs that currently serve the group.
    pub acting: Vec<i32>,
    /// Primary of `acting`, to which requests go, or -1.
    pub acting_primary: i32,
    /// Shard of the primary, or [`SpgId::NO_SHARD`] in a replicated pool.
    pub primary_shard: i8,
}

impl Placement {
    /// No placement.
    pub const NOWHERE: Self = Self {
        up: Vec::new(),
        up_primary: -1,
        acting: Vec::new(),
        acting_primary: -1,
        primary_shard: SpgId::NO_SHARD,
    };
}

fn first_osd(osds: &[i32]) -> i32 {
    osds.iter().copied().find(|osd| *osd != ITEM_NONE).unwrap_or(-1)
}

impl OsdMap {
    /// Returns the actual placement group of a raw one, if its pool exists.
    pub fn pool_pg(&self, raw: PgId) -> Option<PgId> {
        self.pools.get(&raw.pool).map(|pool| pool.pg(raw))
    }

    /// Returns the placement of a group, raw or actual.
    pub fn place(&self, pg: PgId) -> Placement {
        self.place_with(&mut Workspace::default(), pg)
    }

    /// Like [`OsdMap::place`], with reusable memory for CRUSH.
    pub fn place_with(&self, workspace: &mut Workspace, pg: PgId) -> Placement {
        self.place_chosen(pg, &self.crush_osds(workspace, pg))
    }

    /// Returns the OSDs that CRUSH chooses for a placement group, raw or actual. This takes nearly all the time of [`OsdMap::place`],
    /// and depends only on the CRUSH map, the weights of the OSDs and the group's pool.
    pub fn crush_osds(&self, workspace: &mut Workspace, pg: PgId) -> Vec<i32> {
        let Some(pool) = self.pools.get(&pg.pool) else { return Vec::new() };
        let mut osds = Vec::with_capacity(pool.size.into());
        self.crush.do_rule_with(
            workspace,
            pool.crush_rule.into(),
            pool.placement_seed(pg),
            pool.size.into(),
            &self.osd_weight,
            Some(pg.pool),
            &mut osds,
        );
        osds
    }

    /// Like [`OsdMap::place`], for a group with OSDs from [`OsdMap::crush_osds`].
    pub fn place_chosen(&self, pg: PgId, chosen: &[i32]) -> Placement {
        let Some(pool) = self.pools.get(&pg.pool) else { return Placement::NOWHERE };
        let actual = pool.pg(pg);
        let seed = pool.placement_seed(pg);
        let mut up = chosen.to_vec();
        self.keep_if(pool, &mut up, Self::exists);
        self.apply_upmap(actual, &mut up);
        self.remove_down(pool, &mut up);
        let up_primary = self.apply_primary_affinity(pool, seed, &mut up);

        let temporary = self.temporary(pool, actual);
        let temporary_primary = match self.primary_temp.get(&actual) {
            Some(primary) => *primary,
            None => first_osd(&temporary),
        };
        let has_temporary = !temporary.is_empty();
        let acting = if has_temporary { undo_primary_first(pool, &temporary) } else { up.clone() };
        let acting_primary = match temporary_primary {
            -1 if !has_temporary => up_primary,
            primary => primary,
        };
        let primary_shard = if pool.kind == PoolKind::Erasure {
            primary_shard(pool, &acting, acting_primary, self.pg_temp.contains_key(&actual))
        } else {
            SpgId::NO_SHARD
        };
        Placement { up, up_primary, acting, acting_primary, primary_shard }
    }

    /// Keeps the OSDs for which `keep` is true. Where places do not matter, later OSDs move up; otherwise the places of the
    /// others become empty.
    fn keep_if(&self, pool: &Pool, osds: &mut Vec<i32>, keep: impl Fn(&Self, i32) -> bool) {
        if pool.can_shift_osds() {
            osds.retain(|osd| keep(self, *osd));
        } else {
            osds.iter_mut().filter(|osd| !keep(self, **osd)).for_each(|osd| *osd = ITEM_NONE);
        }
    }

    fn remove_down(&self, pool: &Pool, osds: &mut Vec<i32>) {
        self.keep_if(pool, osds, Self::is_up);
    }

    fn is_out(&self, osd: i32) -> bool {
        usize::try_from(osd).ok().and_then(|osd| self.osd_weight.get(osd)) == Some(&0)
    }

    fn apply_upmap(&self, pg: PgId, osds: &mut Vec<i32>) {
        if let Some(chosen) = self.pg_upmap.get(&pg) {
            if chosen.iter().any(|osd| self.is_out(*osd)) {
                return;
            }
            osds.clone_from(chosen);
        }
        for &(from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if osds.contains(&to) || self.is_out(to) {
                continue;
            }
            if let Some(osd) = osds.iter_mut().find(|osd| **osd == from) {
                *osd = to;
            }
        }
        if let Some(&primary) = self.pg_upmap_primaries.get(&pg) {
            let has_weight = usize::try_from(primary).ok().and_then(|osd| self.osd_weight.get(osd));
            if has_weight.is_some_and(|weight| *weight != 0)
                && let Some(at) = osds.iter().skip(1).position(|osd| *osd == primary)
            {
                osds.swap(0, at + 1);
            }
        }
    }

    /// Chooses the primary among the OSDs that are up: the first, unless its affinity passes it over. Where places do
    /// not matter, the primary is moved to the front.
    fn apply_primary_affinity(&self, pool: &Pool, seed: u32, osds: &mut [i32]) -> i32 {
        let affinity = |osd: i32| {
            usize::try_from(osd)
                .ok()
                .and_then(|osd| self.osd_primary_affinity.get(osd))
                .copied()
                .unwrap_or(PRIMARY_AFFINITY_MAX)
        };
        if osds.iter().all(|osd| affinity(*osd) == PRIMARY_AFFINITY_MAX) {
            return first_osd(osds);
        }
        let takes = |osd: i32| {
            let affinity = affinity(osd);
            affinity >= PRIMARY_AFFINITY_MAX || crush_hash32_2(seed, osd as u32) >> 16 < affinity
        };
        let candidate = |osd: &i32| *osd != ITEM_NONE;
        let Some(at) = osds
            .iter()
            .position(|osd| candidate(osd) && takes(*osd))
            .or_else(|| osds.iter().position(candidate))
        else {
            return -1;
        };
        let primary = osds[at];
        if pool.can_shift_osds() {
            osds[..=at].rotate_right(1);
        }
        primary
    }

    fn temporary(&self, pool: &Pool, pg: PgId) -> Vec<i32> {
        let mut osds = self.pg_temp.get(&pg).cloned().unwrap_or_default();
        self.remove_down(pool, &mut osds);
        osds
    }
}

/// Returns the order of an optimized erasure-coded pool's shards in `pg_temp`: those that may become primary come
/// first, so that clients without support for it choose a suitable primary.
fn primary_first(pool: &Pool, shards: usize) -> impl Iterator<Item = usize> + '_ {
    let may = move |shard: &usize| !pool.is_nonprimary_shard(*shard);
    (0..shards).filter(may).chain((0..shards).filter(move |shard| !may(shard)))
}

fn undo_primary_first(pool: &Pool, osds: &[i32]) -> Vec<i32> {
    let mut sorted = osds.to_vec();
    if pool.has_flag(pool_flag::EC_OPTIMIZATIONS) && osds.len() == usize::from(pool.size) {
        for (osd, shard) in osds.iter().zip(primary_first(pool, osds.len())) {
            sorted[shard] = *osd;
        }
    }
    sorted
}

/// Returns the shard of the primary. If an OSD has several shards, the first in the order of `pg_temp` counts.
fn primary_shard(pool: &Pool, acting: &[i32], primary: i32, has_temporary: bool) -> i8 {
    let is_primary = |shard: &usize| acting[*shard] == primary;
    let shard = if has_temporary && pool.has_flag(pool_flag::EC_OPTIMIZATIONS) {
        primary_first(pool, acting.len()).find(is_primary)
    } else {
        (0..acting.len()).find(is_primary)
    };
    shard.and_then(|shard| i8::try_from(shard).ok()).unwrap_or(SpgId::NO_SHARD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crush::{CrushMap, Layout};
    use crate::osdmap::{WEIGHT_IN, state};
    use std::sync::Arc;

    const PG: PgId = PgId { pool: 1, seed: 0 };

    fn map(kind: PoolKind) -> OsdMap {
        let crush = Arc::new(CrushMap::flat(&[0, 1, 2, 3, 4], Layout::OneHost));
        let mut map = OsdMap { crush, ..OsdMap::default() };
        map.set_max_osd(5);
        map.osd_state.fill(state::EXISTS | state::UP);
        map.osd_weight.fill(WEIGHT_IN);
        map.pools.insert(1, Pool { kind, size: 4, ..Pool::default() });
        map.pg_upmap.insert(PG, vec![0, 1, 2, 3]);
        map
    }

    #[test]
    fn an_explicit_primary_swaps_places_with_the_first() {
        let mut map = map(PoolKind::Replicated);
        map.pg_upmap_primaries.insert(PG, 2);
        let place = map.place(PG);
        assert_eq!((place.up, place.up_primary), (vec![2, 1, 0, 3], 2));
        map.pg_upmap_primaries.insert(PG, 4);
        assert_eq!(map.place(PG).up, [0, 1, 2, 3], "the group is not on osd.4");
    }

    #[test]
    fn shards_keep_their_places_while_copies_move_up() {
        for (kind, expected) in
            [(PoolKind::Replicated, vec![0, 2, 3]), (PoolKind::Erasure, vec![0, ITEM_NONE, 2, 3])]
        {
            let mut map = map(kind);
            map.osd_state[1] = state::EXISTS;
            assert_eq!(map.place(PG).up, expected);
        }
    }

    #[test]
    fn a_placement_includes_the_shard_of_the_primary() {
        let mut map = map(PoolKind::Erasure);
        map.osd_state[0] = 0;
        let place = map.place(PG);
        assert_eq!((place.acting_primary, place.primary_shard), (1, 1));
        assert_eq!(self::map(PoolKind::Replicated).place(PG).primary_shard, SpgId::NO_SHARD);
    }

    #[test]
    fn an_optimized_pool_lists_shards_that_may_be_primary_first() {
        let mut map = map(PoolKind::Erasure);
        let pool = map.pools.get_mut(&1).unwrap();
        pool.flags |= pool_flag::EC_OPTIMIZATIONS;
        pool.nonprimary_shards = 0b0110;
        // Shards 0 and 3 come first, then 1 and 2.
        map.pg_temp.insert(PG, vec![4, 3, 2, 1]);
        let place = map.place(PG);
        assert_eq!(place.acting, [4, 2, 1, 3]);
        assert_eq!((place.acting_primary, place.primary_shard), (4, 0));
        map.osd_state[4] = state::EXISTS;
        let place = map.place(PG);
        assert_eq!(place.acting, [ITEM_NONE, 2, 1, 3]);
        assert_eq!((place.acting_primary, place.primary_shard), (3, 3));
    }

    #[test]
    fn a_group_without_a_pool_has_no_placement() {
        let mut map = map(PoolKind::Replicated);
        assert_eq!(map.place(PgId { pool: 2, seed: 0 }), Placement::NOWHERE);
        map.osd_state.fill(0);
        assert_eq!(map.place(PG), Placement::NOWHERE);
    }
}
