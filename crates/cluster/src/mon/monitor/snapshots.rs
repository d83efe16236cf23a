//! Snapshots of pools, and ids of snapshots that clients manage. A pool has either or neither, never both.
//!
//! A snapshot that is removed is in the map's queue until the OSDs keep nothing for it any more.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` (`preprocess_pool_op`, `prepare_pool_op`), `src/osd/osd_types.cc`
//! (`pg_pool_t::add_snap`, `add_unmanaged_snap`, `remove_snap`, `remove_unmanaged_snap`).

use super::state::Mon;
use crate::mon::refusal::Refusal;
use onego_ceph::osdmap::{IntervalSet, PoolSnap, pool_flag};
use onego_ceph::types::{Epoch, Utime};
use onego_wire::Time;
use std::collections::BTreeMap;

/// Snapshots that a pool may have. Every map has their names.
const MAX_POOL_SNAPS: usize = 1024;

/// Bytes of a snapshot's name.
const MAX_NAME: usize = 256;

impl Mon {
    /// EINVAL: the pool has snapshots of the other kind, which goes by `flag`.
    fn check_snap_mode(&self, pool: i64, flag: u64) -> Result<(), Refusal> {
        let other = self.osdmap().pools.get(&pool).is_some_and(|pool| pool.has_flag(flag));
        let name = self.osdmap().pool_names.get(&pool).map_or("", String::as_str);
        match flag {
            _ if !other => Ok(()),
            pool_flag::POOL_SNAPS => {
                Err(Refusal::invalid(format!("pool '{name}' has snapshots of the pool")))
            }
            _ => Err(Refusal::invalid(format!("pool '{name}' is in selfmanaged snaps mode"))),
        }
    }

    /// The id of a pool's snapshot of that name.
    pub(in crate::mon) fn find_pool_snap(&self, pool: i64, name: &str) -> Option<u64> {
        let snaps = &self.osdmap().pools.get(&pool)?.snaps;
        snaps.values().find(|snap| snap.name == name).map(|snap| snap.id)
    }

    /// Makes a snapshot of a pool. One of that name that is there already is not touched.
    pub(in crate::mon) fn create_pool_snap(
        &mut self,
        now: Time,
        pool: i64,
        name: &str,
    ) -> Result<Epoch, Refusal> {
        self.check_snap_mode(pool, pool_flag::SELFMANAGED_SNAPS)?;
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(Refusal::invalid(format!("a snapshot's name has 1 to {MAX_NAME} bytes")));
        }
        if self.find_pool_snap(pool, name).is_some() {
            return Ok(self.osdmap().epoch);
        }
        if self.osdmap().pools.get(&pool).is_some_and(|pool| pool.snaps.len() >= MAX_POOL_SNAPS) {
            return Err(Refusal::invalid(format!("a pool has at most {MAX_POOL_SNAPS} snapshots")));
        }
        Ok(self.edit_pool(now, pool, |pool, epoch| {
            pool.flags |= pool_flag::POOL_SNAPS;
            pool.snap_seq += 1;
            pool.snap_epoch = epoch;
            let snap = PoolSnap { id: pool.snap_seq, stamp: Utime::from(now), name: name.to_owned() };
            pool.snaps.insert(snap.id, snap);
        }))
    }

    /// Removes a snapshot of a pool, if there is one of that name.
    pub(in crate::mon) fn delete_pool_snap(
        &mut self,
        now: Time,
        pool: i64,
        name: &str,
    ) -> Result<Epoch, Refusal> {
        self.check_snap_mode(pool, pool_flag::SELFMANAGED_SNAPS)?;
        match self.find_pool_snap(pool, name) {
            Some(snap) => Ok(self.remove_snap(now, pool, snap)),
            None => Ok(self.osdmap().epoch),
        }
    }

    /// Gives out the id of a new snapshot, which the client manages.
    pub(super) fn create_snap(&mut self, now: Time, pool: i64) -> Result<u64, Refusal> {
        self.check_snap_mode(pool, pool_flag::POOL_SNAPS)?;
        let mut snap = 0;
        self.edit_pool(now, pool, |pool, epoch| {
            // The first id is never given out: once it said that the pool's snapshots are the clients'.
            snap = pool.snap_seq.max(1) + 1;
            pool.snap_seq = snap;
            pool.snap_epoch = epoch;
            pool.flags |= pool_flag::SELFMANAGED_SNAPS;
        });
        Ok(snap)
    }

    /// Takes a snapshot out of use: OSDs drop what they keep for it.
    pub(super) fn delete_snap(&mut self, now: Time, id: i64, snap: u64) -> Result<(), Refusal> {
        self.check_snap_mode(id, pool_flag::POOL_SNAPS)?;
        let pool = self.osdmap().pools.get(&id);
        if pool.is_none_or(|pool| !(1..=pool.snap_seq).contains(&snap)) {
            return Err(Refusal::missing(format!("there is no snapshot {snap}")));
        }
        let removed = self.osdmap().removed_snaps_queue.get(&id);
        if removed.is_none_or(|removed| !removed.contains(snap)) {
            self.remove_snap(now, id, snap);
        }
        Ok(())
    }

    fn remove_snap(&mut self, now: Time, id: i64, snap: u64) -> Epoch {
        let Some(mut pool) = self.osdmap().pools.get(&id).cloned() else { return self.osdmap().epoch };
        let mut change = self.maps.change(now);
        pool.snaps.remove(&snap);
        pool.snap_seq += 1;
        pool.snap_epoch = change.epoch;
        change.new_pools.insert(id, pool);
        change.new_removed_snaps.entry(id).or_default().insert(snap, 1);
        self.commit(change)
    }

    /// The OSDs keep nothing for these snapshots any more.
    pub(crate) fn snaps_purged(&mut self, now: Time, purged: BTreeMap<i64, IntervalSet>) -> Epoch {
        let mut change = self.maps.change(now);
        change.new_purged_snaps = purged;
        self.commit(change)
    }
}
