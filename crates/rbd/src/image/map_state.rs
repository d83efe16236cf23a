//! State of the object map while its image's lock is held.

use crate::host::Ticket;
use onego_ceph::client::Request;
use onego_ceph::cls::rbd::{ObjectMap, state};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct MapInUse {
    map: ObjectMap,
    /// Number of the map; results of updates of an earlier one are ignored.
    pub(super) era: u32,
    pub(super) updates: BTreeMap<u64, ObjectUpdate>,
    /// The map is invalid, and the header is being updated.
    pub(super) is_failing: bool,
}

#[derive(Debug)]
pub(super) struct ObjectUpdate {
    pub(super) target: u8,
    pub(super) queue: VecDeque<Parked>,
}

#[derive(Debug)]
pub(super) enum Parked {
    Send {
        need: u8,
        request: Box<Request>,
        ticket: Ticket,
    },
    /// Record the object's removal, unless it was written since.
    Forget,
}

impl MapInUse {
    pub(super) fn new(map: ObjectMap, era: u32) -> Self {
        Self { map, era, updates: BTreeMap::new(), is_failing: false }
    }

    pub(super) fn len(&self) -> u64 {
        self.map.len()
    }

    /// Returns the state of an object. Objects past the map's end count as existing.
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
