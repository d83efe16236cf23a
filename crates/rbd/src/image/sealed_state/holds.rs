//! Range locks of in-flight changes: of two changes that touch the same sector, at least one of them partially, one waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub(in crate::image) type ChangeKey = (u32, u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::image) struct Hold {
    pub(in crate::image) range: Range<u64>,
    /// The change reads bytes that it does not write, so no other may write them meanwhile.
    pub(in crate::image) is_exclusive: bool,
}

impl Hold {
    fn conflicts(&self, other: &Self) -> bool {
        (self.is_exclusive || other.is_exclusive)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

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
    /// Holds a range for a change, or queues the change. Returns whether the range is held.
    pub(in crate::image) fn enter(&mut self, object: u64, key: ChangeKey, hold: Hold) -> bool {
        let object = self.objects.entry(object).or_default();
        // Changes that wait come first, for fairness.
        let others = object.held.iter().chain(&object.waiting);
        let is_free = others.clone().all(|(_, other)| !hold.conflicts(other));
        if is_free {
            object.held.push((key, hold));
        } else {
            object.waiting.push_back((key, hold));
        }
        is_free
    }

    /// Releases the range of a change. Returns the changes that hold theirs from now on.
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
    fn whole_sectors_are_written_concurrently() {
        let mut holds = Holds::default();
        assert!(holds.enter(0, (0, 0), shared(0..4096)));
        assert!(holds.enter(0, (1, 0), shared(0..8192)));
        assert!(holds.leave(0, (0, 0)).is_empty());
        assert!(holds.leave(0, (1, 0)).is_empty());
        assert!(holds.objects.is_empty());
    }

    #[test]
    fn parts_of_a_sector_are_written_sequentially() {
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
    fn waiting_changes_proceed_in_order() {
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
