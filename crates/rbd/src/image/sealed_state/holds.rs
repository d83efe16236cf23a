//! Which bytes of objects are being changed: of two changes that touch the same sector, one of which in part, one waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Names a change.
pub(in crate::image) type ChangeKey = (u32, u32);

/// Bytes of an object that a change holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::image) struct Hold {
    pub(in crate::image) range: Range<u64>,
    /// The change reads what it does not write, so no other may write it meanwhile.
    pub(in crate::image) is_exclusive: bool,
}

impl Hold {
    fn conflicts(&self, other: &Self) -> bool {
        (self.is_exclusive || other.is_exclusive)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// The holds of an image's changes, by object.
#[derive(Debug, Default)]
pub(in crate::image) struct Holds {
    objects: BTreeMap<u64, OfObject>,
}

#[derive(Debug, Default)]
struct OfObject {
    held: Vec<(ChangeKey, Hold)>,
    waiting: VecDeque<(ChangeKey, Hold)>,
}

impl Holds {
    /// Has a change hold some bytes, or wait for them. Does it hold them?
    pub(in crate::image) fn enter(&mut self, object: u64, key: ChangeKey, hold: Hold) -> bool {
        let object = self.objects.entry(object).or_default();
        // Behind those that wait, so that each has its turn.
        let others = object.held.iter().chain(&object.waiting);
        let is_free = others.clone().all(|(_, other)| !hold.conflicts(other));
        if is_free {
            object.held.push((key, hold));
        } else {
            object.waiting.push_back((key, hold));
        }
        is_free
    }

    /// A change has ended. Gives those that hold their bytes from now on.
    pub(in crate::image) fn leave(&mut self, object: u64, key: ChangeKey) -> Vec<ChangeKey> {
        let Some(of_object) = self.objects.get_mut(&object) else { return Vec::new() };
        of_object.held.retain(|(other, _)| *other != key);
        let mut entered = Vec::new();
        for (key, hold) in std::mem::take(&mut of_object.waiting) {
            let mut others = of_object.held.iter().chain(&of_object.waiting);
            if others.all(|(_, other)| !hold.conflicts(other)) {
                of_object.held.push((key, hold));
                entered.push(key);
            } else {
                of_object.waiting.push_back((key, hold));
            }
        }
        if of_object.held.is_empty() {
            self.objects.remove(&object);
        }
        entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(range: Range<u64>) -> Hold {
        Hold { range, is_exclusive: false }
    }

    fn exclusive(range: Range<u64>) -> Hold {
        Hold { range, is_exclusive: true }
    }

    #[test]
    fn whole_sectors_are_written_side_by_side() {
        let mut holds = Holds::default();
        assert!(holds.enter(0, (0, 0), shared(0..4096)));
        assert!(holds.enter(0, (1, 0), shared(0..8192)));
        assert!(holds.leave(0, (0, 0)).is_empty());
        assert!(holds.leave(0, (1, 0)).is_empty());
        assert!(holds.objects.is_empty());
    }

    #[test]
    fn parts_of_a_sector_are_written_one_after_the_other() {
        let mut holds = Holds::default();
        assert!(holds.enter(0, (0, 0), shared(0..4096)));
        assert!(!holds.enter(0, (1, 0), exclusive(0..4096)));
        assert!(holds.enter(1, (2, 0), exclusive(0..4096)), "another object");
        assert!(holds.enter(0, (3, 0), exclusive(4096..8192)), "another sector");
        assert!(!holds.enter(0, (4, 0), shared(0..4096)), "not before the one that waits");
        assert_eq!(holds.leave(0, (0, 0)), [(1, 0)]);
        assert_eq!(holds.leave(0, (1, 0)), [(4, 0)]);
    }

    #[test]
    fn those_that_wait_for_one_another_go_in_turn() {
        let mut holds = Holds::default();
        assert!(holds.enter(0, (0, 0), exclusive(0..10)));
        assert!(!holds.enter(0, (1, 0), exclusive(5..20)));
        assert!(!holds.enter(0, (2, 0), exclusive(15..30)), "it touches one that waits");
        assert!(!holds.enter(0, (3, 0), shared(0..30)));
        assert_eq!(holds.leave(0, (0, 0)), [(1, 0)]);
        assert_eq!(holds.leave(0, (1, 0)), [(2, 0)]);
        assert_eq!(holds.leave(0, (2, 0)), [(3, 0)]);
    }
}
