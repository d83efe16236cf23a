//! What an object was at snapshots: a clone for each of its states that a snapshot shows.
//!
//! The first change after a snapshot makes a clone of the object as it was, which shares the object's memory. So a clone
//! costs what has changed since. All clones stand beside their object, in one state with it: whatever is done with the
//! object (undone, replicated, recovered, kept) is done with them too.
//!
//! Sources: ceph `src/osd/osd_types.h` (`SnapSet`), `src/osd/PrimaryLogPG.cc` (`make_writeable`, `find_object_context`,
//! `_rollback_to`, `trim_object`).

use super::object::{ObjectClone, State};
use onego_ceph::osdmap::IntervalSet;
use onego_ceph::types::NOSNAP;
use onego_wire::{DecodeError, Decoded};
use std::sync::Arc;

/// What a clone costs beside its data, attributes, map and snapshots.
const CLONE_OVERHEAD: u64 = 256;

impl ObjectClone {
    pub(crate) fn new(id: u64, snaps: Vec<u64>, overlap: IntervalSet, state: State) -> Self {
        let mut clone = Self { id, snaps, overlap, own: 0, state };
        clone.changed();
        clone
    }

    /// The runs of bytes that are there and that the next newer one does not have: pairs of offset and length.
    pub(crate) fn own_runs(&self) -> Vec<(u64, u64)> {
        let mut own = IntervalSet::default();
        self.state.runs(0, u64::MAX).into_iter().for_each(|(offset, len)| own.insert(offset, len));
        own.subtract(&self.overlap);
        own.iter().collect()
    }

    /// Are both the same to the last byte?
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
            && self.snaps == other.snaps
            && self.overlap == other.overlap
            && self.state.is_same(&other.state)
    }

    fn changed(&mut self) {
        self.own = self.state.size.saturating_sub(self.overlap.iter().map(|(_, len)| len).sum());
    }

    /// Memory that it takes beside what it shares with the next newer one. Parts of blocks are shared: what is not needed of
    /// one may be as much again as what is.
    fn footprint(&self) -> u64 {
        let data = self.state.pinned_data().min(self.own.saturating_mul(2));
        CLONE_OVERHEAD + data + self.state.meta().bytes() + 8 * self.snaps.len() as u64
    }
}

/// What an object is at a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// What it is now.
    Head,
    /// What the clone of this place is.
    Clone(usize),
    /// It does not exist.
    Nothing,
}

impl State {
    /// Does the object know of snapshots?
    pub(crate) fn knows_snapshots(&self) -> bool {
        self.snap_seq > 0 || self.clones.is_some()
    }

    /// The clones, oldest first.
    pub(crate) fn clones(&self) -> &[ObjectClone] {
        self.clones.as_ref().map_or(&[], |clones| &clones.0)
    }

    fn clones_mut(&mut self) -> &mut Vec<ObjectClone> {
        &mut Arc::make_mut(self.clones.get_or_insert_default()).0
    }

    /// The newest snapshot that writes to the object knew of; `None`: it does not exist and has no clones.
    pub(crate) fn snapset_seq(&self) -> Option<u64> {
        (self.exists || !self.clones().is_empty()).then_some(self.snap_seq)
    }

    /// What the object is at a snapshot.
    pub(crate) fn at_snapshot(&self, snap: u64) -> Shown {
        if snap > self.snap_seq {
            return if self.exists { Shown::Head } else { Shown::Nothing };
        }
        let clones = self.clones();
        let at = clones.partition_point(|clone| clone.id < snap);
        match clones.get(at) {
            Some(clone) if clone.snaps.contains(&snap) => Shown::Clone(at),
            _ => Shown::Nothing,
        }
    }

    /// Does the object exist at a snapshot, or now?
    pub(crate) fn exists_at(&self, snap: u64) -> bool {
        if snap == NOSNAP { self.exists } else { self.at_snapshot(snap) != Shown::Nothing }
    }

    /// Keeps what the object is now for these snapshots, newest first, all of which are newer than its clones.
    pub(crate) fn make_clone(&mut self, id: u64, snaps: Vec<u64>) {
        let mut overlap = IntervalSet::default();
        overlap.insert(0, self.size);
        let state = Self { clones: None, snap_seq: 0, ..self.clone() };
        self.clones_mut().push(ObjectClone::new(id, snaps, overlap, state));
    }

    /// Gives a clone, of which nothing is there yet and which is older than all others, the bytes that it has in common with
    /// the oldest of those, or with the object.
    pub(crate) fn share_overlap(&self, clone: &mut ObjectClone) -> Decoded<()> {
        let newer = self.clones().first().map_or(self, |oldest| &oldest.state);
        let (size, state) = (clone.state.size, &mut clone.state);
        let mut own = IntervalSet::default();
        own.insert(0, size);
        own.subtract(&clone.overlap);
        if let Some((start, len)) = clone.overlap.iter().last()
            && start + len > size.min(newer.size)
        {
            return Err(DecodeError::OverBound {
                what: "overlap of a clone",
                value: start + len,
                bound: size,
            });
        }
        state.data.clone_from(&newer.data);
        if newer.size > size {
            state.data_mut().truncate(size);
        }
        own.iter().for_each(|(offset, len)| state.data_mut().remove(offset, len));
        Ok(())
    }

    /// A clone that is older than all others was there before.
    pub(crate) fn restore_clone(&mut self, clone: ObjectClone) {
        self.clones_mut().insert(0, clone);
    }

    /// A part of the data is no longer what it was when the newest clone was made.
    #[inline]
    pub(super) fn unlike_clone(&mut self, offset: u64, len: u64) {
        if self.clones().last().is_some_and(|newest| newest.overlap.overlaps(offset, len)) {
            self.shrink_overlap(|overlap| overlap.remove(offset, len));
        }
    }

    fn shrink_overlap(&mut self, shrink: impl FnOnce(&mut IntervalSet)) {
        if let Some(newest) = self.clones_mut().last_mut() {
            shrink(&mut newest.overlap);
            newest.changed();
        }
    }

    /// Makes the object what the clone with this id is.
    pub(crate) fn roll_back(&mut self, id: u64) {
        let Ok(at) = self.clones().binary_search_by_key(&id, |clone| clone.id) else { return };
        let newer = &self.clones()[at..];
        let mut kept = newer[0].overlap.clone();
        newer[1..].iter().for_each(|clone| kept.intersect(&clone.overlap));
        let state = newer[0].state.clone();
        self.shrink_overlap(|overlap| overlap.intersect(&kept));
        *self = Self { snap_seq: self.snap_seq, clones: self.clones.take(), version: self.version, ..state };
    }

    /// Those of these snapshots that clones are there for.
    pub(crate) fn shown_for(&self, snaps: &IntervalSet) -> Vec<u64> {
        let shown = self.clones().iter().flat_map(|clone| &clone.snaps);
        shown.copied().filter(|snap| snaps.contains(*snap)).collect()
    }

    /// These snapshots are gone, and with them the clones that no other shows.
    pub(crate) fn trim(&mut self, removed: &[u64]) {
        let clones = self.clones_mut();
        for clone in clones.iter_mut() {
            clone.snaps.retain(|snap| !removed.contains(snap));
        }
        while let Some(at) = clones.iter().position(|clone| clone.snaps.is_empty()) {
            let gone = clones.remove(at);
            if let Some(older) = at.checked_sub(1).and_then(|at| clones.get_mut(at)) {
                older.overlap.intersect(&gone.overlap);
                older.changed();
            }
        }
        if clones.is_empty() {
            self.clones = None;
        }
    }

    /// Bytes of all clones that the next newer one, or the object, does not have.
    pub(super) fn clone_bytes(&self) -> u64 {
        self.clones().iter().map(|clone| clone.own).sum()
    }

    /// Memory that the clones take beside the object.
    pub(super) fn clone_footprint(&self) -> u64 {
        self.clones().iter().map(ObjectClone::footprint).sum()
    }
}
