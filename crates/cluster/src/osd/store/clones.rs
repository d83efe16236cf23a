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
use rustc_hash::FxHashSet;
use std::iter::FusedIterator;
use std::sync::Arc;

/// What a clone costs beside its data, attributes, map and snapshots.
const CLONE_OVERHEAD: u64 = 256;

/// Memory of an interval of an overlap: half of a tree's places may be empty.
const INTERVAL: u64 = 32;

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

    fn shows(&self, snap: u64) -> bool {
        self.snaps.binary_search_by(|shown| snap.cmp(shown)).is_ok()
    }

    fn changed(&mut self) {
        self.own = self.state.size.saturating_sub(self.overlap.iter().map(|(_, len)| len).sum());
    }

    /// Memory that it takes beside what it shares with the next newer one. Parts of blocks are shared: what is not needed of
    /// one may be as much again as what is. The tree of extents is its own as soon as a byte is.
    fn footprint(&self) -> u64 {
        let data = self.state.block_bytes().min(self.own.saturating_mul(2));
        let tree = if self.own > 0 { self.state.pinned_data() - self.state.block_bytes() } else { 0 };
        let bookkeeping = tree + 8 * self.snaps.len() as u64 + INTERVAL * self.overlap.count() as u64;
        CLONE_OVERHEAD + data + self.state.meta().bytes() + bookkeeping
    }
}

/// What an object is at a snapshot.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// What it is now.
    Head,
    /// A clone.
    Clone(&'a ObjectClone),
    /// It does not exist.
    Nothing,
}

/// The clones of an object, linked from the newest to the oldest. Copies of the object share them, so that what it costs to
/// add a clone or to change the newest does not depend on their number. No two have the same id.
#[derive(Clone)]
pub(super) struct Clones {
    newest: ObjectClone,
    older: Option<Arc<Self>>,
    /// An older one, by which each is found in a logarithmic number of steps (Myers, "An applicative random-access stack",
    /// 1983).
    jump: Option<Arc<Self>>,
    /// Of all older ones.
    sums: Sums,
}

/// Sums of a number of clones.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) count: u64,
    /// Bytes that the next newer ones do not have.
    pub(super) bytes: u64,
    /// Memory, without what they share with newer ones.
    pub(super) footprint: u64,
}

impl Clones {
    fn push(older: Option<Arc<Self>>, newest: ObjectClone) -> Arc<Self> {
        let depth = |clones: Option<&Arc<Self>>| clones.map_or(0, |clones| clones.sums.count + 1);
        let first = older.as_ref().and_then(|older| older.jump.as_ref());
        let second = first.and_then(|first| first.jump.as_ref());
        let (below, first_depth, second_depth) = (depth(older.as_ref()), depth(first), depth(second));
        let jump = if below - first_depth == first_depth - second_depth { second } else { older.as_ref() };
        let sums = older.as_ref().map_or_else(Sums::default, |older| older.all());
        Arc::new(Self { newest, jump: jump.cloned(), older, sums })
    }

    /// Returns the sums of all clones.
    fn all(&self) -> Sums {
        Sums {
            count: self.sums.count + 1,
            bytes: self.sums.bytes + self.newest.own,
            footprint: self.sums.footprint + self.newest.footprint(),
        }
    }

    /// Returns the oldest clone whose id is at least `id`, with all that are older.
    fn starting_at(&self, id: u64) -> Option<&Self> {
        let reaches = |clones: &&Arc<Self>| clones.newest.id >= id;
        let mut at = Some(self).filter(|clones| clones.newest.id >= id)?;
        while let Some(next) = at.jump.as_ref().filter(reaches).or(at.older.as_ref().filter(reaches)) {
            at = next;
        }
        Some(at)
    }
}

impl Drop for Clones {
    /// Drops the clones one after the other: a recursion could be deeper than the stack.
    fn drop(&mut self) {
        let mut next = self.older.take();
        while let Some(mut clones) = next.and_then(Arc::into_inner) {
            next = clones.older.take();
        }
    }
}

fn newest_first(clones: Option<&Clones>) -> impl FusedIterator<Item = &ObjectClone> {
    std::iter::successors(clones, |clones| clones.older.as_deref()).map(|clones| &clones.newest)
}

impl State {
    /// Does the object know of snapshots?
    pub(crate) fn knows_snapshots(&self) -> bool {
        self.snap_seq > 0 || self.clones.is_some()
    }

    /// The clones, newest first.
    pub(crate) fn clones(&self) -> impl FusedIterator<Item = &ObjectClone> {
        newest_first(self.clones.as_deref())
    }

    #[inline]
    pub(super) fn clone_sums(&self) -> Option<Sums> {
        self.clones.as_ref().map(|clones| clones.all())
    }

    /// Number of clones.
    pub(crate) fn clone_count(&self) -> u64 {
        self.clone_sums().map_or(0, |sums| sums.count)
    }

    /// The clone with this id.
    pub(crate) fn clone_with_id(&self, id: u64) -> Option<&ObjectClone> {
        let clones = self.clones.as_ref()?.starting_at(id)?;
        Some(&clones.newest).filter(|clone| clone.id == id)
    }

    /// The newest snapshot that writes to the object knew of; `None`: it does not exist and has no clones.
    pub(crate) fn snapset_seq(&self) -> Option<u64> {
        self.is_kept().then_some(self.snap_seq)
    }

    /// What the object is at a snapshot.
    pub(crate) fn at_snapshot(&self, snap: u64) -> Shown<'_> {
        if snap > self.snap_seq {
            return if self.exists { Shown::Head } else { Shown::Nothing };
        }
        let clones = self.clones.as_ref().and_then(|clones| clones.starting_at(snap));
        match clones.map(|clones| &clones.newest) {
            Some(clone) if clone.shows(snap) => Shown::Clone(clone),
            _ => Shown::Nothing,
        }
    }

    /// Does the object exist at a snapshot, or now?
    pub(crate) fn exists_at(&self, snap: u64) -> bool {
        if snap == NOSNAP { self.exists } else { !matches!(self.at_snapshot(snap), Shown::Nothing) }
    }

    /// Keeps what the object is now for these snapshots, newest first, all of which are newer than its clones.
    pub(crate) fn make_clone(&mut self, id: u64, snaps: Vec<u64>) {
        let mut overlap = IntervalSet::default();
        overlap.insert(0, self.size);
        let state = Self { clones: None, snap_seq: 0, ..self.clone() };
        self.push_clone(ObjectClone::new(id, snaps, overlap, state));
    }

    /// Adds a clone that is newer than all others.
    pub(crate) fn push_clone(&mut self, clone: ObjectClone) {
        self.clones = Some(Clones::push(self.clones.take(), clone));
    }

    /// Gives a clone, of which nothing is there yet, the bytes that it has in common with this, the next newer state.
    pub(crate) fn share_overlap(&self, clone: &mut ObjectClone) -> Decoded<()> {
        let newer = self;
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

    /// A part of the data is no longer what it was when the newest clone was made.
    #[inline]
    pub(super) fn unlike_clone(&mut self, offset: u64, len: u64) {
        if let Some(clones) = &mut self.clones
            && clones.newest.overlap.overlaps(offset, len)
        {
            let newest = &mut Arc::make_mut(clones).newest;
            // What is past the clone's size is in no overlap.
            newest.own += newest.overlap.remove(offset, len);
        }
    }

    /// Makes the object what the clone with this id is.
    pub(crate) fn roll_back(&mut self, id: u64) {
        let Some(clone) = self.clone_with_id(id) else { return };
        let mut kept = clone.overlap.clone();
        let newer = self.clones().take_while(|clone| clone.id > id);
        newer.for_each(|newer| kept.intersect(&newer.overlap));
        let state = clone.state.clone();
        if let Some(clones) = &mut self.clones {
            let newest = &mut Arc::make_mut(clones).newest;
            newest.overlap.intersect(&kept);
            newest.changed();
        }
        *self = Self { snap_seq: self.snap_seq, clones: self.clones.take(), version: self.version, ..state };
    }

    /// Returns those of these snapshots that have clones, oldest first.
    pub(crate) fn shown_for(&self, snaps: &IntervalSet) -> Vec<u64> {
        let (Some((first, _)), Some((start, len))) = (snaps.iter().next(), snaps.iter().next_back()) else {
            return Vec::new();
        };
        // A clone shows snapshots up to its id, and none up to that of the next older one.
        let clones = self.clones.as_ref();
        let clones = clones.map(|clones| clones.starting_at(start + len - 1).unwrap_or(clones));
        let clones = newest_first(clones).take_while(|clone| clone.id >= first);
        let shown = clones.flat_map(|clone| &clone.snaps).copied().filter(|snap| snaps.contains(*snap));
        let mut shown: Vec<u64> = shown.collect();
        shown.reverse();
        shown
    }

    /// These snapshots are gone, and with them the clones that no other shows.
    pub(crate) fn trim(&mut self, removed: &[u64]) {
        let Some(oldest) = removed.iter().min() else { return };
        let removed: FxHashSet<u64> = removed.iter().copied().collect();
        let mut left = self.clones.take();
        let mut kept = Vec::new();
        // What a clone that is gone had in common with the next newer one.
        let mut gone: Option<IntervalSet> = None;
        while let Some(clones) = left.take_if(|clones| gone.is_some() || clones.newest.id >= *oldest) {
            let mut clone = clones.newest.clone();
            left.clone_from(&clones.older);
            if let Some(gone) = gone.take() {
                clone.overlap.intersect(&gone);
            }
            clone.snaps.retain(|snap| !removed.contains(snap));
            if clone.snaps.is_empty() {
                gone = Some(clone.overlap);
            } else {
                clone.changed();
                kept.push(clone);
            }
        }
        self.clones = left;
        kept.into_iter().rev().for_each(|clone| self.push_clone(clone));
    }
}
