//! What an object is: its data, attributes and map, and the changes that operations make to them.

use super::clones::Clones;
use super::compare;
use onego_buf::extents::Extents;
use onego_buf::{List, Segment};
use onego_ceph::osdmap::IntervalSet;
use onego_ceph::types::Utime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an object costs beside its data, attributes and map: its place in the store and its name.
const OBJECT_OVERHEAD: u64 = 512;

/// Memory of an attribute or an entry of the map, besides its bytes: its place in the tree, half of which may be empty, and
/// two allocations.
pub(crate) const ENTRY_OVERHEAD: u64 = 136;

/// Memory of the first attribute or the first entry of the map, in addition: a node of the tree has place for eleven.
const MAP_OVERHEAD: u64 = 512;

/// Memory of the first bytes of an object, in addition: a node of the tree of extents, as above, and a table of blocks.
const DATA_OVERHEAD: u64 = 768;

/// Attributes and map of an object. Few objects have any, and hardly any operation changes them.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Meta {
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    omap: BTreeMap<Vec<u8>, Vec<u8>>,
    header: Vec<u8>,
    /// Memory that all of it takes.
    bytes: u64,
}

/// Is it one and the same memory?
fn is_one<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}

/// Nothing.
static NO_META: Meta = Meta { xattrs: BTreeMap::new(), omap: BTreeMap::new(), header: Vec::new(), bytes: 0 };

fn cost(key: usize, value: usize) -> u64 {
    key as u64 + value as u64 + ENTRY_OVERHEAD
}

/// Memory that the first entry of a map takes in addition, if the map is empty.
fn first(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    if map.is_empty() { MAP_OVERHEAD } else { 0 }
}

impl Meta {
    pub(crate) fn xattrs(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.xattrs
    }

    pub(crate) fn omap(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.omap
    }

    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn set_xattr(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.remove_xattr(&name);
        self.bytes += cost(name.len(), value.len()) + first(&self.xattrs);
        self.xattrs.insert(name, value);
    }

    fn remove_xattr(&mut self, name: &[u8]) {
        if let Some(old) = self.xattrs.remove(name) {
            self.bytes -= cost(name.len(), old.len()) + first(&self.xattrs);
        }
    }

    fn omap_set(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.omap_remove(&key);
        self.bytes += cost(key.len(), value.len()) + first(&self.omap);
        self.omap.insert(key, value);
    }

    fn omap_remove(&mut self, key: &[u8]) {
        if let Some(old) = self.omap.remove(key) {
            self.bytes -= cost(key.len(), old.len()) + first(&self.omap);
        }
    }

    fn omap_clear(&mut self) {
        let entries: u64 = self.omap.iter().map(|(key, value)| cost(key.len(), value.len())).sum();
        let tree = if self.omap.is_empty() { 0 } else { MAP_OVERHEAD };
        self.bytes -= entries + tree + self.header.len() as u64;
        self.omap.clear();
        self.header.clear();
    }
}

/// All of an object that a request may change. A copy is cheap: memory is shared, and a write while a copy is held goes
/// elsewhere. So a request is undone by its copy from before, a checkpoint is a copy of all objects, and OSDs with the same
/// object have it in memory once (`replicas`).
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) exists: bool,
    pub(crate) size: u64,
    pub(crate) mtime: Utime,
    /// Version as users count it: it changes with whatever they can see.
    pub(crate) version: u64,
    /// The newest snapshot that writes knew of.
    pub(crate) snap_seq: u64,
    /// Shared by copies, among them those of other OSDs.
    pub(super) data: Option<Arc<Extents>>,
    pub(super) meta: Option<Arc<Meta>>,
    /// What it was at snapshots. An object that has any but does not exist is only there for them.
    pub(super) clones: Option<Arc<Clones>>,
}

/// An object as it was for some snapshots.
#[derive(Clone)]
pub(crate) struct ObjectClone {
    /// `seq` of the snapshot context that it was made by.
    pub(crate) id: u64,
    /// The snapshots that show it, newest first.
    pub(crate) snaps: Vec<u64>,
    /// The bytes that the next newer clone, or the object, has as they are here.
    pub(crate) overlap: IntervalSet,
    /// Number of bytes outside of `overlap`.
    pub(crate) own: u64,
    /// What it shows. It has no clones itself.
    pub(crate) state: State,
}

impl State {
    /// Is there anything of the object, be it for a snapshot?
    pub(crate) fn is_kept(&self) -> bool {
        self.exists || self.clones.is_some()
    }

    /// Memory that the object takes.
    pub(crate) fn footprint(&self) -> u64 {
        if !self.is_kept() {
            return 0;
        }
        self.own_footprint() + self.clone_sums().map_or(0, |sums| sums.footprint)
    }

    /// Memory that the object takes without its clones.
    #[inline]
    pub(super) fn own_footprint(&self) -> u64 {
        OBJECT_OVERHEAD + self.pinned_data() + self.meta().bytes
    }

    /// Memory that the data takes.
    pub(super) fn pinned_data(&self) -> u64 {
        self.data
            .as_ref()
            .map_or(0, |data| if data.pieces() == 0 { 0 } else { data.pinned() + DATA_OVERHEAD })
    }

    /// Memory of the blocks that the data is in.
    pub(super) fn block_bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.block_bytes())
    }

    /// Number of extents of which the data consists, as it lies in memory.
    pub(crate) fn extents(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.pieces() as u64)
    }

    /// A copy of the object without its clones.
    pub(crate) fn alone(&self) -> Self {
        Self { clones: None, ..self.clone() }
    }

    pub(crate) fn meta(&self) -> &Meta {
        self.meta.as_deref().unwrap_or(&NO_META)
    }

    pub(super) fn data_mut(&mut self) -> &mut Extents {
        Arc::make_mut(self.data.get_or_insert_default())
    }

    /// Gives up the memory that is shared with `other`, which can then be changed in place. What is left is not the
    /// object any more, until it is replaced by a copy of what `other` has become.
    pub(crate) fn let_go(&mut self, other: &Self) {
        if is_one(self.data.as_ref(), other.data.as_ref()) {
            self.data = None;
        }
        if is_one(self.meta.as_ref(), other.meta.as_ref()) {
            self.meta = None;
        }
        if is_one(self.clones.as_ref(), other.clones.as_ref()) {
            self.clones = None;
        }
    }

    /// Shares the memory of `other` if both are the same to the last byte. Returns whether they are.
    pub(crate) fn share_if_same(&mut self, other: &Self) -> bool {
        let is_same = self.is_same(other);
        if is_same {
            self.clone_from(other);
        }
        is_same
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let scalars = |state: &Self| (state.exists, state.size, state.mtime, state.version, state.snap_seq);
        let no_holes = Segment::from_static(b"");
        let is_same_run = |(offset, len)| {
            let (ours, theirs) = (self.read(offset, len, &no_holes), other.read(offset, len, &no_holes));
            compare::extents(&ours, &theirs).is_ok()
        };
        let runs = self.runs(0, u64::MAX);
        let (clones, theirs) = (self.clones(), other.clones());
        scalars(self) == scalars(other)
            && self.meta() == other.meta()
            && runs == other.runs(0, u64::MAX)
            && runs.into_iter().all(is_same_run)
            && self.clone_count() == other.clone_count()
            && clones.zip(theirs).all(|(clone, other)| clone.is_same(other))
    }

    fn meta_mut(&mut self) -> &mut Meta {
        Arc::make_mut(self.meta.get_or_insert_default())
    }

    pub(crate) fn create(&mut self) {
        self.exists = true;
    }

    /// The object is gone, with all that belongs to it but its clones; its version goes on if it comes back.
    pub(crate) fn delete(&mut self) {
        self.unlike_clone(0, self.size);
        let (version, snap_seq, clones) = (self.version, self.snap_seq, self.clones.take());
        *self = Self { version, snap_seq, clones, ..Self::default() };
    }

    /// The bytes in `offset..offset + len`, fewer at the end.
    pub(crate) fn read(&self, offset: u64, len: u64, zeros: &Segment) -> List {
        let len = len.min(self.size.saturating_sub(offset));
        match &self.data {
            _ if len == 0 => List::new(),
            Some(data) => data.read(offset, len, zeros),
            None => Extents::default().read(offset, len, zeros),
        }
    }

    /// The runs of bytes that are allocated in `offset..offset + len`.
    pub(crate) fn runs(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let len = len.min(self.size.saturating_sub(offset));
        self.data.as_ref().filter(|_| len > 0).map_or_else(Vec::new, |data| data.runs(offset, len))
    }

    /// At most so much more memory does it take to write `len` bytes at `offset`.
    pub(crate) fn growth(&self, offset: u64, len: u64) -> u64 {
        let growth = match &self.data {
            Some(data) if Arc::strong_count(data) > 1 => data.growth_of_copy(offset, len),
            Some(data) => data.growth(offset, len),
            None => Extents::default().growth(offset, len),
        };
        let first = if self.extents() == 0 { DATA_OVERHEAD } else { 0 };
        growth + first + if self.exists { 0 } else { OBJECT_OVERHEAD }
    }

    /// Writes `data` at `offset`; the object grows as need be.
    pub(crate) fn write(&mut self, offset: u64, data: List) {
        self.unlike_clone(offset, data.len() as u64);
        self.grow_to(offset + data.len() as u64);
        self.data_mut().write(offset, data);
    }

    /// The object has at least `size` bytes.
    pub(crate) fn grow_to(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.unlike_clone(size, self.size - size);
            self.data_mut().truncate(size);
        }
        self.size = size;
    }

    /// Makes a part of the object zeros; it neither grows nor shrinks.
    pub(crate) fn zero(&mut self, offset: u64, len: u64) {
        self.unlike_clone(offset, len);
        self.data_mut().remove(offset, len);
    }

    pub(crate) fn set_xattr(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.meta_mut().set_xattr(name, value);
    }

    pub(crate) fn remove_xattr(&mut self, name: &[u8]) {
        if self.meta().xattrs.contains_key(name) {
            self.meta_mut().remove_xattr(name);
        }
    }

    pub(crate) fn omap_set(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.meta_mut().omap_set(key, value);
    }

    pub(crate) fn omap_remove(&mut self, key: &[u8]) {
        if self.meta().omap.contains_key(key) {
            self.meta_mut().omap_remove(key);
        }
    }

    /// Removes the keys in `from..to`.
    pub(crate) fn omap_remove_range(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let keys = self.meta().omap.range(from.to_vec()..to.to_vec()).map(|(key, _)| key.clone());
        for key in keys.collect::<Vec<_>>() {
            self.omap_remove(&key);
        }
    }

    pub(crate) fn omap_set_header(&mut self, header: Vec<u8>) {
        let meta = self.meta_mut();
        meta.bytes += header.len() as u64;
        meta.bytes -= meta.header.len() as u64;
        meta.header = header;
    }

    /// Removes all keys and the header.
    pub(crate) fn omap_clear(&mut self) {
        if self.meta.is_some() {
            self.meta_mut().omap_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_attributes_and_maps_is_given_back() {
        let mut state = State { exists: true, ..State::default() };
        let empty = state.footprint();
        state.set_xattr("a".into(), vec![1; 100]);
        state.set_xattr("a".into(), vec![1; 10]);
        for key in 0..10u8 {
            state.omap_set(vec![key], vec![key; 50]);
        }
        state.omap_set(vec![3], vec![]);
        state.omap_set_header(vec![1; 30]);
        state.omap_set_header(vec![1; 20]);
        assert!(state.footprint() > empty + 500);
        state.omap_remove_range(&[2], &[5]);
        assert_eq!(state.meta().omap().len(), 7);
        state.omap_remove(&[9]);
        state.remove_xattr(b"a");
        state.omap_clear();
        assert_eq!(state.footprint(), empty);
    }

    #[test]
    fn what_is_the_same_to_the_last_byte_is_shared_and_nothing_else() {
        let no_zeros = Segment::from_static(b"");
        let memory = |state: &State| state.read(100, 1, &no_zeros).segments().next().unwrap().as_ptr();
        let state = |parts: &[(u64, usize)], last: u8| {
            let mut state = State { exists: true, version: 7, ..State::default() };
            parts.iter().for_each(|(offset, len)| state.write(*offset, vec![1; *len].into()));
            state.write(59_999, vec![last].into());
            state.set_xattr("a".into(), vec![1]);
            state
        };
        let one = state(&[(100, 50_000)], 1);
        let mut same = state(&[(40_000, 10_100), (100, 39_900)], 1);
        assert!(memory(&same) != memory(&one) && same.share_if_same(&one));
        assert_eq!(memory(&same), memory(&one));
        let changes: [fn(&mut State); 6] = [
            |state| state.version = 8,
            |state| state.mtime.sec = 1,
            |state| state.grow_to(60_001),
            |state| state.set_xattr("a".into(), vec![2]),
            |state| state.write(7000, vec![2].into()),
            |state| state.zero(7000, 1),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut other = state(&[(100, 50_000)], 1);
            change(&mut other);
            assert!(!other.share_if_same(&one) && memory(&other) != memory(&one), "change {at}");
        }
    }

    #[test]
    fn a_copy_keeps_what_was_while_the_object_changes() {
        let mut state = State { exists: true, ..State::default() };
        state.write(0, vec![1; 100].into());
        state.omap_set(b"k".to_vec(), b"v".to_vec());
        let before = state.clone();
        state.write(50, vec![2; 100].into());
        state.omap_remove(b"k");
        assert_eq!(before.read(0, 200, &Segment::from_static(b"")).to_vec(), [1; 100]);
        assert_eq!(before.meta().omap().len(), 1);
        assert_eq!(state.size, 150);
    }
}
