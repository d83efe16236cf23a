//! OSDs catch up with their peers, a few objects at a time, so that clients are served meanwhile.

use super::osd_daemon::OsdDaemon;
use crate::groups::{Group as MapGroup, Groups, Step};
use crate::journal::Entry;
use crate::osd::Group;
use onego_ceph::osdmap::{OsdMap, flag};
use onego_ceph::types::PgId;
use onego_wire::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Objects that are copied, or cleared away, in one turn. Their memory is shared, so that it is their number that
/// counts.
const PER_TURN: usize = 64;

/// Time between turns.
const PAUSE: Duration = Duration::from_millis(1);

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Groups with the OSDs that catch up.
    targets: VecDeque<(PgId, i32)>,
    /// Groups that OSDs have and should not.
    strays: VecDeque<(PgId, i32)>,
    /// When the next turn is.
    due: Option<Time>,
}

/// Does a flag of the map hold back that an OSD catches up with a group? `norecover` holds all of it, `nobackfill` what
/// goes object by object, and `norebalance` that only where no copy is missing (ceph `src/osd/PeeringState.cc`,
/// `NotBackfilling`; `src/osd/OSD.cc`, `pause_recovery`).
fn is_held(map: &OsdMap, groups: &Groups, osds: &[OsdDaemon], pg: PgId, target: i32) -> bool {
    if map.flags & (flag::NORECOVER | flag::NOBACKFILL | flag::NOREBALANCE) == 0 {
        return false;
    }
    let is_backfilled = || {
        let daemon = usize::try_from(target).ok().and_then(|target| osds.get(target));
        daemon.and_then(|daemon| daemon.osd.group(pg)).is_some_and(Group::is_backfilled)
    };
    let has_all_copies = || groups.get(pg).is_some_and(MapGroup::has_all_copies);
    map.flags & flag::NORECOVER != 0
        || map.flags & flag::NOBACKFILL != 0 && is_backfilled()
        || map.flags & flag::NOREBALANCE != 0 && has_all_copies() && is_backfilled()
}

impl Recovery {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// OSDs have to catch up with the primaries of groups.
    pub(super) fn add(&mut self, now: Time, targets: Vec<(PgId, i32)>) {
        for target in targets {
            if !self.targets.contains(&target) {
                self.targets.push_back(target);
            }
        }
        self.schedule(now);
    }

    fn schedule(&mut self, now: Time) {
        let idle = self.targets.is_empty() && self.strays.is_empty();
        self.due = if idle { None } else { self.due.or(Some(now + PAUSE)) };
    }

    /// Looks for groups that OSDs have and should not.
    pub(super) fn find_strays(&mut self, now: Time, groups: &Groups, osds: &[OsdDaemon]) {
        for (id, daemon) in (0..).zip(osds).filter(|(_, daemon)| daemon.running) {
            let stray = |pg: &PgId| {
                groups.is_clean(*pg) && groups.get(*pg).is_some_and(|group| !group.acting.contains(&id))
            };
            for pg in daemon.osd.groups().filter(stray) {
                if !self.strays.contains(&(pg, id)) {
                    self.strays.push_back((pg, id));
                }
            }
        }
        self.schedule(now);
    }

    /// Goes on, if it is time, and notes what was done for the journal. Returns whether the map has to be looked at
    /// again because OSDs have caught up.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        map: &OsdMap,
        groups: &mut Groups,
        osds: &mut [OsdDaemon],
        note: &mut impl FnMut(Entry),
    ) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = None;
        let mut left = PER_TURN;
        let caught_up = self.catch_up(&mut left, map, groups, osds, note);
        self.clear_away(left, map, groups, osds, note);
        let mut targets = self.targets.iter();
        // What is held goes on with the map in which it is not.
        let goes_on =
            !self.strays.is_empty() || targets.any(|&(pg, target)| !is_held(map, groups, osds, pg, target));
        self.due = goes_on.then_some(now + PAUSE);
        caught_up
    }

    /// Copies objects. Returns whether an OSD has caught up.
    fn catch_up(
        &mut self,
        left: &mut usize,
        map: &OsdMap,
        groups: &mut Groups,
        osds: &mut [OsdDaemon],
        note: &mut impl FnMut(Entry),
    ) -> bool {
        let mut caught_up = false;
        while *left > 0
            && let Some(next) =
                self.targets.iter().position(|&(pg, target)| !is_held(map, groups, osds, pg, target))
        {
            let (pg, target) = self.targets[next];
            let group = groups.get(pg).filter(|group| group.targets.contains(&target));
            let (Some(group), Some(pool)) = (group, map.pools.get(&pg.pool)) else {
                self.targets.remove(next);
                continue;
            };
            let step = Step { pg, source: group.primary, target, budget: *left };
            let Some((done, is_whole)) = step.take(pool, groups, osds) else {
                self.targets.remove(next);
                continue;
            };
            note(Entry::Recover { pg, source: step.source, target, budget: step.budget as u32 });
            if is_whole {
                caught_up = true;
                self.targets.remove(next);
            }
            *left = left.saturating_sub(done.max(1));
        }
        caught_up
    }

    /// Clears groups away that OSDs have and should not.
    fn clear_away(
        &mut self,
        mut left: usize,
        map: &OsdMap,
        groups: &Groups,
        osds: &mut [OsdDaemon],
        note: &mut impl FnMut(Entry),
    ) {
        while left > 0
            && let Some(&(pg, stray)) = self.strays.front()
        {
            left -= 1;
            let pool = map.pools.get(&pg.pool).filter(|_| groups.is_clean(pg));
            let is_stray = groups.get(pg).is_some_and(|group| !group.acting.contains(&stray));
            let gone = match pool {
                Some(pool) if is_stray => {
                    note(Entry::Purge { pg, osd: stray, budget: left as u32 });
                    osds[stray as usize].osd.purge(pg, pool, left)
                }
                _ => true,
            };
            if gone {
                self.strays.pop_front();
            } else {
                break;
            }
        }
    }
}
