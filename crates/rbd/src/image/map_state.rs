//! The object map of an image whose lock is held here.

use crate::host::Ticket;
use onego_ceph::client::Request;
use onego_ceph::cls::rbd::{ObjectMap, state};
use std::collections::{BTreeMap, VecDeque};

/// The object map, and what waits for its changes.
#[derive(Debug)]
pub(super) struct MapInUse {
    map: ObjectMap,
    /// What comes of changes of a map that was closed since has another number.
    pub(super) era: u32,
    /// Objects whose state is being changed.
    pub(super) updates: BTreeMap<u64, ObjectUpdate>,
    /// The map cannot be relied on, and the header is about to say so.
    pub(super) is_failing: bool,
}

/// A change of an object's state, under way.
#[derive(Debug)]
pub(super) struct ObjectUpdate {
    /// The state that it gets.
    pub(super) target: u8,
    pub(super) queue: VecDeque<Parked>,
}

/// What waits for an object's state.
#[derive(Debug)]
pub(super) enum Parked {
    /// A request that may go out once the object has the state `need`.
    Send { need: u8, request: Box<Request>, ticket: Ticket },
    /// The object was removed: unless it was written since, the map says so.
    Forget,
}

impl MapInUse {
    pub(super) fn new(map: ObjectMap, era: u32) -> Self {
        Self { map, era, updates: BTreeMap::new(), is_failing: false }
    }

    pub(super) fn len(&self) -> u64 {
        self.map.len()
    }

    /// The state of an object. Behind the map nothing is known, so what is there counts as existing.
    #[inline]
    pub(super) fn state(&self, object: u64) -> u8 {
        if object < self.map.len() { self.map.get(object) } else { state::EXISTS }
    }

    pub(super) fn set(&mut self, object: u64, state: u8) {
        if object < self.map.len() {
            self.map.set(object, state);
        }
    }

    pub(super) fn resize(&mut self, objects: u64) {
        self.map.resize(objects, state::NONEXISTENT);
    }
}
