//! Removed snapshots are trimmed: the OSDs forget what they keep for them, a few objects at a time, so that clients are
//! served meanwhile. Then the map says that they are purged.
//!
//! The primary of each group finds the objects, and the others follow as they do with writes. An OSD that is away finds
//! these changes in the log of its group when it is back, as it finds those of clients.

use super::osd_daemon::OsdDaemon;
use crate::groups::Groups;
use crate::journal::Entry;
use crate::osd::{Next, Replicas, ToTrim};
use onego_ceph::osdmap::{IntervalSet, OsdMap, flag};
use onego_ceph::types::PgId;
use onego_wire::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Objects with clones that are looked at, and changed if need be, in one turn.
const PER_TURN: usize = 64;

/// Time between turns.
const PAUSE: Duration = Duration::from_millis(1);

/// A round through a pool. What is removed while it lasts waits for the next one.
#[derive(Debug)]
struct Round {
    snaps: IntervalSet,
    pg_num: u32,
    /// The groups that are not done.
    left: Vec<(PgId, Progress)>,
}

/// Progress of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    next: Next,
    /// OSD whose object `next` names.
    primary: i32,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Trimming {
    rounds: BTreeMap<i64, Round>,
    /// When the next turn is.
    due: Option<Time>,
}

impl Trimming {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Goes by a new map: pools may have removed snapshots, groups may serve again.
    pub(super) fn follow(&mut self, now: Time, map: &OsdMap) {
        self.rounds.retain(|pool, round| map.pools.get(pool).is_some_and(|pool| pool.pg_num == round.pg_num));
        for (id, snaps) in &map.removed_snaps_queue {
            let Some(pool) = map.pools.get(id) else { continue };
            self.rounds.entry(*id).or_insert_with(|| Round {
                snaps: snaps.clone(),
                pg_num: pool.pg_num,
                left: (0..pool.pg_num).map(|seed| (PgId { pool: *id, seed }, Progress::default())).collect(),
            });
        }
        let goes_on = !self.rounds.is_empty() && !map.has_flag(flag::NOSNAPTRIM);
        self.due = goes_on.then(|| self.due.unwrap_or(now + PAUSE));
    }

    /// Goes on, if it is time, and notes what was done for the journal. Returns the snapshots, by pool, that nothing is left
    /// of.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        map: &OsdMap,
        groups: &Groups,
        osds: &mut [OsdDaemon],
        note: &mut impl FnMut(Entry),
    ) -> BTreeMap<i64, IntervalSet> {
        let mut purged = BTreeMap::new();
        if self.due.is_none_or(|due| now < due) {
            return purged;
        }
        let mut left = PER_TURN;
        let mut waits = true;
        for (id, round) in &mut self.rounds {
            round.go_on(&mut left, map, groups, osds, note);
            let is_active = |(pg, _): &(PgId, Progress)| groups.get(*pg).is_some_and(|group| group.active);
            waits &= !round.left.iter().any(is_active);
            if round.left.is_empty() {
                purged.insert(*id, round.snaps.clone());
            }
        }
        self.rounds.retain(|pool, _| !purged.contains_key(pool));
        // Groups that serve nobody are looked at again with the map in which they do.
        self.due = (!waits).then_some(now + PAUSE);
        purged
    }
}

impl Round {
    fn go_on(
        &mut self,
        left: &mut usize,
        map: &OsdMap,
        groups: &Groups,
        osds: &mut [OsdDaemon],
        note: &mut impl FnMut(Entry),
    ) {
        let snaps = &self.snaps;
        self.left.retain_mut(|(pg, progress)| {
            let group = groups.get(*pg).filter(|group| group.active && *left > 0);
            let (Some(group), Some(pool)) = (group, map.pools.get(&pg.pool)) else { return true };
            let Some(primary) = usize::try_from(group.primary).ok().and_then(|id| osds.get(id)) else {
                return true;
            };
            if progress.primary != group.primary {
                let (place, _) = progress.next;
                *progress = Progress { next: (place, Default::default()), primary: group.primary };
            }
            let found = primary.osd.find_to_trim(*pg, pool, snaps, progress.next, *left);
            *left = left.saturating_sub(found.looked_at);
            let next = found.next;
            let others = group.others(group.primary);
            trim(*pg, (group.primary, &others), found, snaps, map, osds, note);
            progress.next = next.unwrap_or_default();
            next.is_some()
        });
    }
}

/// Has the OSDs of a group forget snapshots in these objects.
fn trim(
    pg: PgId,
    (primary, others): (i32, &[i32]),
    found: ToTrim,
    removed: &IntervalSet,
    map: &OsdMap,
    osds: &mut [OsdDaemon],
    note: &mut impl FnMut(Entry),
) {
    for name in found.names {
        let replicas = Replicas::let_go(osds, primary, others, pg, &name.in_pool(pg.pool));
        let daemon = &mut osds[primary as usize];
        let transaction = daemon.osd.trim(pg, &name, removed, map.epoch);
        if let Some(replicas) = replicas {
            // Nobody waits for it to be durable.
            replicas.follow(osds, transaction.as_deref(), 0);
        }
        if let Some(transaction) = transaction {
            let osds = std::iter::once(primary).chain(others.iter().copied()).collect();
            note(Entry::Write { osds, transaction });
        }
    }
}
