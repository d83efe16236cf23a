//! Which objects changed, by the object maps of the snapshots ("fast diff").

use onego_ceph::cls::rbd::{ObjectMap, state};

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// It is not there, and was not there at the begin.
    Absent,
    /// It is as it was.
    Unchanged,
    /// It was there, and is no more.
    Removed,
    /// It was written.
    Written,
}

/// The changes of all objects, from the map at the begin over those of the snapshots in between to that at the end.
///
/// It holds two bits an object.
#[derive(Debug)]
pub struct FastDiff {
    /// The change of each object, in the two bits that a map has for its state.
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

    /// The change once the object's state in the next map is known.
    fn then(self, next: u8, is_last: bool) -> Self {
        match (self, next) {
            (Self::Absent, state::NONEXISTENT) => Self::Absent,
            // What came and went in between does not matter: the last map alone does.
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
    /// Begins with nothing: with the map at the end, of an image of `objects` objects, all is known.
    pub fn from_nothing(end: &ObjectMap, objects: u64) -> Self {
        Self { changes: ObjectMap::new(0) }.next(end, objects, true)
    }

    /// Begins at a snapshot, with its map, of an image of `objects` objects.
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

    /// Goes on to the map of the next snapshot, of an image of `objects` objects; `is_last`: it is the one at the end.
    pub fn next(mut self, map: &ObjectMap, objects: u64, is_last: bool) -> Self {
        self.changes.resize(objects, ObjectChange::Absent.bits());
        for object in 0..objects {
            let next = self.change(object).then(state_of(map, object), is_last);
            self.changes.set(object, next.bits());
        }
        self
    }

    /// What became of an object; nothing is known, and nothing is there, behind the image's end.
    pub fn change(&self, object: u64) -> ObjectChange {
        if object >= self.changes.len() {
            return ObjectChange::Absent;
        }
        ObjectChange::ALL[usize::from(self.changes.get(object))]
    }
}

/// The state of an object; none is there behind the end of the map.
fn state_of(map: &ObjectMap, object: u64) -> u8 {
    if object < map.len() { map.get(object) } else { state::NONEXISTENT }
}
