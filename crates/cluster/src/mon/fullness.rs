//! How full OSDs and pools are, as far as the map says it, and what follows for their clients.
//!
//! OSDs report that they are nearly full, too full for backfill, or full; if one is that stores a pool's objects, the
//! pool is too. A pool is full as well when it has used up its quota. Clients keep back writes to a full pool.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` (`prepare_full`, `update_pools_status`, `encode_pending`), `src/osd/OSD.cc`
//! (`OSDService::recalc_full_state`), `src/osd/OSDMap.cc` (`get_full_pools`).

use super::osds::is_in;
use super::usage::Usage;
use onego_ceph::osdmap::{Incremental, OsdMap, Pool, Ratios, pool_flag, state};

/// How full an OSD is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fullness {
    Roomy,
    Near,
    /// It takes no more backfill.
    Backfill,
    /// It takes no more writes.
    Full,
}

/// The bits of an OSD's state that say how full it is.
pub(crate) const OSD_BITS: u32 = state::NEARFULL | state::BACKFILLFULL | state::FULL;

/// The flags of a pool that say how full it is.
pub(crate) const POOL_FLAGS: u64 =
    pool_flag::NEARFULL | pool_flag::BACKFILLFULL | pool_flag::FULL | pool_flag::FULL_QUOTA;

impl Fullness {
    /// What the map says of an OSD.
    pub(crate) fn of(map: &OsdMap, osd: i32) -> Self {
        let state = usize::try_from(osd).ok().and_then(|osd| map.osd_state.get(osd)).copied().unwrap_or(0);
        let levels = [Self::Full, Self::Backfill, Self::Near];
        levels.into_iter().find(|level| state & level.bits() != 0).unwrap_or(Self::Roomy)
    }

    pub(in crate::mon) fn bits(self) -> u32 {
        match self {
            Self::Roomy => 0,
            Self::Near => state::NEARFULL,
            Self::Backfill => state::BACKFILLFULL,
            Self::Full => state::FULL,
        }
    }

    pub(in crate::mon) fn pool_flag(self) -> u64 {
        match self {
            Self::Roomy => 0,
            Self::Near => pool_flag::NEARFULL,
            Self::Backfill => pool_flag::BACKFILLFULL,
            Self::Full => pool_flag::FULL,
        }
    }
}

/// The bytes beyond which an OSD is nearly full, too full for backfill, and full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    near: u64,
    backfill: u64,
    full: u64,
}

impl Marks {
    /// The marks of an OSD that has room for `total` bytes. No mark is below the one before.
    pub(crate) fn of(ratios: &Ratios, total: u64) -> Self {
        let share = |ratio: f32| (f64::from(ratio) * total as f64) as u64;
        let near = share(ratios.nearfull);
        let backfill = share(ratios.backfillfull).max(near);
        Self { near, backfill, full: share(ratios.full).max(backfill) }
    }

    /// How full an OSD with `used` bytes is.
    pub(crate) fn fullness(&self, used: u64) -> Fullness {
        match used {
            used if used > self.full => Fullness::Full,
            used if used > self.backfill => Fullness::Backfill,
            used if used > self.near => Fullness::Near,
            _ => Fullness::Roomy,
        }
    }

    /// The bytes beyond which an OSD is fuller than that.
    pub(crate) fn above(&self, fullness: Fullness) -> u64 {
        match fullness {
            Fullness::Roomy => self.near,
            Fullness::Near => self.backfill,
            Fullness::Backfill => self.full,
            Fullness::Full => u64::MAX,
        }
    }
}

/// Has a pool used up its quota?
pub(in crate::mon) fn is_over_quota(pool: &Pool, usage: &Usage, id: i64) -> bool {
    let used = usage.pool(id);
    (pool.quota_max_bytes > 0 && used.bytes >= pool.quota_max_bytes)
        || (pool.quota_max_objects > 0 && used.objects >= pool.quota_max_objects)
}

/// Does the map say anything of OSDs or pools that are full or nearly so?
pub(in crate::mon) fn says_full(map: &OsdMap) -> bool {
    map.osd_state.iter().any(|state| state & OSD_BITS != 0)
        || map.pools.values().any(|pool| pool.flags & POOL_FLAGS != 0)
}

/// Adds to a change what it means for the flags of pools. All pools store objects on all OSDs that are up and in, since
/// the rules of this cluster choose from all of them.
pub(super) fn flag_pools(map: &OsdMap, change: &mut Incremental) {
    let concerned = says_full(map)
        || change.new_state.values().any(|bits| bits & OSD_BITS != 0)
        || change.new_pools.values().any(|pool| pool.flags & POOL_FLAGS != 0);
    if !concerned {
        return;
    }
    let mut after = map.clone();
    if after.apply(change).is_err() {
        return; // the commit of the change reports it
    }
    let storing = (0..).take(after.osd_state.len()).filter(|osd| after.is_up(*osd) && is_in(&after, *osd));
    let worst = storing.map(|osd| Fullness::of(&after, osd)).max().unwrap_or(Fullness::Roomy);
    for (id, pool) in &after.pools {
        let flags = match pool.flags & pool_flag::FULL_QUOTA {
            0 => worst.pool_flag(),
            quota => quota | pool_flag::FULL,
        };
        if pool.flags & POOL_FLAGS != flags {
            let flags = pool.flags & !POOL_FLAGS | flags;
            change.new_pools.insert(*id, Pool { flags, last_change: change.epoch, ..pool.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATIOS: Ratios = Ratios { nearfull: 0.5, backfillfull: 0.75, full: 0.875 };

    #[test]
    fn an_osd_is_as_full_as_the_last_mark_that_it_is_beyond() {
        let marks = Marks::of(&RATIOS, 1000);
        let full = |used| marks.fullness(used);
        assert_eq!(
            [0, 500, 501, 750].map(full),
            [Fullness::Roomy, Fullness::Roomy, Fullness::Near, Fullness::Near]
        );
        assert_eq!([751, 875, 876].map(full), [Fullness::Backfill, Fullness::Backfill, Fullness::Full]);
        for used in [0, 600, 800] {
            let above = marks.above(full(used));
            assert!(full(above) == full(used) && full(above + 1) > full(used));
        }
        assert_eq!(marks.above(Fullness::Full), u64::MAX);
    }

    #[test]
    fn marks_out_of_order_are_raised_to_the_one_before() {
        let marks = Marks::of(&Ratios { nearfull: 0.875, backfillfull: 0.5, full: 0.25 }, 1000);
        assert_eq!(marks.fullness(875), Fullness::Roomy);
        assert_eq!(marks.fullness(876), Fullness::Full);
    }

    fn map() -> OsdMap {
        let mut map = OsdMap { epoch: 1, ..OsdMap::default() };
        map.set_max_osd(3);
        map.osd_state.fill(state::EXISTS | state::UP);
        map.osd_weight.fill(0x1_0000);
        map.pools = [(1, Pool::default()), (2, Pool::default())].into();
        map.pool_names = [(1, "a".to_owned()), (2, "b".to_owned())].into();
        map
    }

    fn apply(map: &mut OsdMap, fill: impl FnOnce(&mut Incremental)) {
        let mut change = Incremental { epoch: map.epoch + 1, ..Incremental::default() };
        fill(&mut change);
        flag_pools(map, &mut change);
        map.apply(&change).unwrap();
    }

    fn flags(map: &OsdMap) -> [u64; 2] {
        [1, 2].map(|pool| map.pools[&pool].flags & POOL_FLAGS)
    }

    #[test]
    fn pools_are_as_full_as_the_fullest_osd_that_is_up_and_in() {
        let mut map = map();
        apply(&mut map, |change| {
            change.new_state.insert(0, state::NEARFULL);
        });
        assert_eq!(flags(&map), [pool_flag::NEARFULL; 2]);
        apply(&mut map, |change| {
            change.new_state.insert(1, state::FULL);
        });
        assert_eq!(flags(&map), [pool_flag::FULL; 2]);
        // It is out: nothing more is written to it.
        apply(&mut map, |change| {
            change.new_weight.insert(1, 0);
        });
        assert_eq!(flags(&map), [pool_flag::NEARFULL; 2]);
        // A pool that is made now is, too.
        apply(&mut map, |change| drop(change.new_pools.insert(2, Pool::default())));
        assert_eq!(flags(&map), [pool_flag::NEARFULL; 2]);
        apply(&mut map, |change| {
            change.new_state.insert(0, state::NEARFULL);
        });
        assert_eq!(flags(&map), [0; 2]);
    }

    #[test]
    fn a_quota_that_is_used_up_makes_its_pool_full_and_no_other() {
        let mut map = map();
        let with = |flags| Pool { flags, ..Pool::default() };
        apply(&mut map, |change| drop(change.new_pools.insert(1, with(pool_flag::FULL_QUOTA))));
        assert_eq!(flags(&map), [pool_flag::FULL_QUOTA | pool_flag::FULL, 0]);
        // The pool stays full if an OSD is, when the quota is lifted.
        apply(&mut map, |change| {
            change.new_state.insert(2, state::FULL);
        });
        apply(&mut map, |change| drop(change.new_pools.insert(1, with(pool_flag::FULL))));
        assert_eq!(flags(&map), [pool_flag::FULL; 2]);
        apply(&mut map, |change| {
            change.new_state.insert(2, state::FULL);
        });
        assert_eq!(flags(&map), [0; 2]);
    }
}
