//! Changed objects, from the object maps of the snapshots ("fast diff").

use onego_ceph::cls::rbd::{ObjectMap, state};

/// Change of an object between the two ends of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// It exists at neither end.
    Absent,
    /// It exists at both ends and was not written.
    Unchanged,
    /// It existed at the start only.
    Removed,
    /// It was written.
    Written,
}

/// Accumulates the changes of all objects: from the map at the start, over those of the snapshots in between, to that at the end.
///
/// Uses two bits per object.
#[derive(Debug)]
pub struct FastDiff {
    /// Changes by object, in the two bits that a map has for the state.
    changes: ObjectMap,
}

impl ObjectChange {
    const ALL: [Self; 4] = [Self::Absent, Self::Unchanged, Self::Removed, Self::Written];

    fn bits(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Unchanged => 1,
            Self::Removed => 2,
            Self::Written => 3,
        }
    }

    fn then(self, next: u8, is_last: bool) -> Self {
        match (self, next) {
            (Self::Absent, state::NONEXISTENT) => Self::Absent,
            // An object that existed only in between does not matter: only the last map counts.
            (Self::Absent, _) => {
                if is_last {
                    Self::Written
                } else {
                    Self::Absent
                }
            }
            (_, state::NONEXISTENT) => Self::Removed,
            (Self::Unchanged, state::EXISTS_CLEAN) => Self::Unchanged,
            _ => Self::Written,
        }
    }
}

impl FastDiff {
    /// Computes a diff from nothing to the map at the end, of an image of `objects` objects.
    pub fn from_nothing(end: &ObjectMap, objects: u64) -> Self {
        Self { changes: ObjectMap::new(0) }.next(end, objects, true)
    }

    /// Starts a diff at a snapshot with this map, of an image of `objects` objects.
    pub fn from_snapshot(start: &ObjectMap, objects: u64) -> Self {
        let mut changes = ObjectMap::new(objects);
        for object in 0..objects {
            let change = match state_of(start, object) {
                state::NONEXISTENT => ObjectChange::Absent,
                // Its removal was under way.
                state::PENDING => ObjectChange::Written,
                _ => ObjectChange::Unchanged,
            };
            changes.set(object, change.bits());
        }
        Self { changes }
    }

    /// Applies the map of the next snapshot, of an image of `objects` objects. `is_last` marks the map at the end of the diff.
    pub fn next(mut self, map: &ObjectMap, objects: u64, is_last: bool) -> Self {
        self.changes.resize(objects, ObjectChange::Absent.bits());
        for object in 0..objects {
            let next = self.change(object).then(state_of(map, object), is_last);
            self.changes.set(object, next.bits());
        }
        self
    }

    /// Returns the change of an object; `Absent` past the end of the image.
    pub fn change(&self, object: u64) -> ObjectChange {
        if object >= self.changes.len() {
            return ObjectChange::Absent;
        }
        ObjectChange::ALL[usize::from(self.changes.get(object))]
    }
}

/// Returns an object's state; objects past the end of the map do not exist.
fn state_of(map: &ObjectMap, object: u64) -> u8 {
    if object < map.len() { map.get(object) } else { state::NONEXISTENT }
}
