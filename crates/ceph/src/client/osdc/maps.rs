//! New maps, and their effect on requests in flight.

use super::objects::Objecter;
use super::target::NoTarget;
use crate::client::error::Error;
use crate::client::hub::Hub;
use crate::client::request::Event;
use crate::messages::MapUpdate;
use crate::osdmap::{Incremental, MapError, OsdMap, pool_flag};
use crate::types::Epoch;
use onego_msgr::encoding::Decode;
use onego_wire::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<T> Objecter<T> {
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Applies the maps that follow the current one, epoch by epoch: a request whose placement group
    /// moved away and back must be resent, because its OSD has dropped it.
    pub(crate) fn take_maps(&mut self, now: Time, hub: &mut Hub<T>, update: &MapUpdate) {
        if let Some(map) = self.targets.map()
            && map.fsid != update.fsid
        {
            let error = MapError::OtherCluster { ours: map.fsid, theirs: update.fsid };
            return hub.tell(Event::BadMap(Error::BadMap { epoch: update.newest, error }));
        }
        let before = self.epoch;
        let whole = self.targets.map().is_none();
        while let Some((epoch, step)) = self.next_step(update) {
            if let Err(error) = self.take_step(hub, epoch, step) {
                self.bad_map(hub, epoch, &step, error);
                break;
            }
        }
        if self.epoch > before || (whole && self.targets.map().is_some()) {
            self.after_maps(now, hub);
            hub.tell(Event::Map(self.epoch));
        } else if update.full.keys().chain(update.incrementals.keys()).any(|epoch| *epoch > self.epoch) {
            // Neither map follows the current one: request first the missing ones, then a full one.
            let again = std::mem::replace(&mut self.gap_after, self.epoch) == self.epoch;
            self.wishes.map.get_or_insert(if again { 0 } else { self.epoch + 1 });
        }
    }

    /// Returns the next map of an update to apply: the increment to the next epoch, or else the newest full map.
    fn next_step<'a>(&self, update: &'a MapUpdate) -> Option<(Epoch, Step<'a>)> {
        let have = self.targets.map().is_some();
        let next = self.epoch.checked_add(1)?;
        if have && let Some(change) = update.incrementals.get(&next) {
            return Some((next, Step::Change(change)));
        }
        let (&epoch, whole) = update.full.last_key_value()?;
        let newer = epoch > self.epoch || (!have && epoch == self.epoch);
        newer.then_some((epoch, Step::Whole(whole)))
    }

    fn take_step(&mut self, hub: &mut Hub<T>, epoch: Epoch, step: Step<'_>) -> Result<(), MapError> {
        let mut skipped = false;
        let map = match step {
            Step::Change(bytes) => {
                let change = Incremental::from_bytes(bytes)?;
                let mut map = self.targets.take().unwrap_or_default();
                Arc::make_mut(&mut map).apply(&change)?;
                map
            }
            Step::Whole(bytes) => {
                let map = OsdMap::from_bytes(bytes)?;
                // Requests may have been dropped in the skipped epochs.
                skipped = self.epoch != 0 && map.epoch != self.epoch + 1;
                Arc::new(map)
            }
        };
        if map.epoch != epoch {
            return Err(MapError::OtherEpoch { from: map.epoch, to: epoch });
        }
        self.epoch = epoch;
        self.meter.map(&map);
        self.targets.set(map);
        self.resolve_all_targets(hub, skipped);
        Ok(())
    }

    /// Handles an invalid map. Requests a full map after an invalid increment. If a full map is invalid, the requests that
    /// wait for a map fail rather than hang; those in flight may still get a reply.
    fn bad_map(&mut self, hub: &mut Hub<T>, epoch: Epoch, step: &Step<'_>, error: MapError) {
        let error = Error::BadMap { epoch, error };
        tracing::error!(%error, "rejected an invalid OSD map");
        hub.tell(Event::BadMap(error.clone()));
        if matches!(step, Step::Change(_)) {
            self.wishes.map = Some(0);
            return;
        }
        self.wishes.map = epoch.checked_add(1);
        for tid in self.table.ordered(|op| op.sent_on.is_none()) {
            self.fail(hub, tid, error.clone());
        }
    }

    /// Recomputes the targets of all requests, and marks those that must be resent as not sent.
    fn resolve_all_targets(&mut self, hub: &mut Hub<T>, skipped: bool) {
        for tid in self.table.ordered(|op| op.failed.is_none()) {
            match self.resolve_target(tid) {
                Ok(target) => {
                    let void = self.apply_target(tid, target) || skipped;
                    if void && let Some(op) = self.table.get_mut(tid) {
                        op.sent_on = None;
                    }
                }
                Err(NoTarget::NoMap) => {}
                Err(no_target) => self.handle_no_target(hub, tid, no_target),
            }
        }
        self.update_linger_intervals(skipped);
    }

    /// Logs, once each time a pool becomes full, that writes to it wait. There is no other sign of it.
    pub(super) fn tell_of_full_pool(&mut self, pool: i64) {
        if !self.targets.is_full(pool) || !self.waited_for.insert(pool) {
            return;
        }
        let known =
            self.targets.map().and_then(|map| Some((map.pool_names.get(&pool)?, map.pools.get(&pool)?)));
        let Some((name, flags)) = known.map(|(name, pool)| (name.as_str(), pool.flags)) else { return };
        let advice = if flags & pool_flag::FULL_QUOTA != 0 {
            "its quota is used up: writes wait until it is raised (`ceph osd pool set-quota`) or objects are removed"
        } else {
            "the cluster has no room for it: writes wait until OSDs are added or objects are removed (`ceph health detail`)"
        };
        tracing::warn!(pool = name, "the pool is full; {advice}");
    }

    /// Logs which full pools writes wait for, and which have room again.
    fn tell_of_room(&mut self) {
        let waiting: BTreeSet<i64> =
            self.table.iter().filter(|op| op.paused).map(|op| op.message.pg.pg.pool).collect();
        waiting.into_iter().for_each(|pool| self.tell_of_full_pool(pool));
        let targets = &self.targets;
        self.waited_for.retain(|pool| {
            let full = targets.is_full(*pool);
            if !full {
                let name = targets.map().and_then(|map| map.pool_names.get(pool));
                tracing::info!(
                    pool = name.map(String::as_str),
                    "the pool has room again, and writes continue"
                );
            }
            full
        });
    }

    /// Drops sessions with OSDs that are gone or have another address, and sends pending requests.
    fn after_maps(&mut self, now: Time, hub: &mut Hub<T>) {
        for osd in 0..self.sessions.len() {
            let (id, Some(session)) = (osd as i32, &self.sessions[osd]) else { continue };
            if self.targets.addr(id) != Some(session.addr) {
                self.drop_session(now, hub, id);
                self.lingers.moved(id);
            }
        }
        if self.targets.restricts() || !self.waited_for.is_empty() {
            self.tell_of_room();
        }
        for tid in self.table.ordered(|op| op.sent_on.is_none()) {
            self.send(now, hub, tid);
        }
        self.recheck_tells(now, hub);
        self.renew_moved(now, hub);
        let waiting = self.targets.restricts()
            || self.table.iter().any(|op| op.osd == super::table::NOBODY && !op.no_pool);
        if waiting {
            self.wish_newer();
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Change(&'a [u8]),
    Whole(&'a [u8]),
}
