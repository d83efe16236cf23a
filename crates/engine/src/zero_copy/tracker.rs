use std::collections::VecDeque;

/// Values used by `MSG_ZEROCOPY` sends of one socket, kept until the kernel has released them.
///
/// The kernel numbers a socket's successful sends with a 32-bit counter that wraps around, and reports inclusive ranges
/// of numbers. Ranges arrive in any order: retransmitted data is freed later than the data after it. Source: Linux
/// `Documentation/networking/msg_zerocopy.rst`, "Notification Reception".
#[derive(Debug)]
pub struct Tracker<T> {
    first: u32,
    held: VecDeque<Option<T>>,
}

impl<T> Default for Tracker<T> {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl<T> Tracker<T> {
    fn starting_at(first: u32) -> Self {
        Self { first, held: VecDeque::new() }
    }

    /// Keeps `what` for a successful send until its number is reported.
    pub fn push(&mut self, what: T) {
        self.held.push_back(Some(what));
    }

    /// Releases the numbers from `low` to `high`, passing the value of each to `free`. Ignores numbers that are not
    /// held.
    pub fn release(&mut self, low: u32, high: u32, mut free: impl FnMut(T)) {
        let start = low.wrapping_sub(self.first) as usize;
        let count = high.wrapping_sub(low) as usize + 1;
        let end = start.saturating_add(count).min(self.held.len());
        for entry in self.held.range_mut(start.min(end)..end) {
            entry.take().map(&mut free);
        }
        while let Some(None) = self.held.front() {
            self.held.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Returns how many numbers lie between the oldest held and the newest, inclusive.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn released<T>(tracker: &mut Tracker<T>, low: u32, high: u32) -> Vec<T> {
        let mut freed = Vec::new();
        tracker.release(low, high, |what| freed.push(what));
        freed
    }

    #[test]
    fn ranges_may_come_in_any_order() {
        let mut tracker = Tracker::default();
        "abcdef".chars().for_each(|what| tracker.push(what));
        assert_eq!(released(&mut tracker, 2, 3), ['c', 'd']);
        assert_eq!(tracker.len(), 6, "older ones are held");
        assert_eq!(released(&mut tracker, 0, 1), ['a', 'b']);
        assert_eq!(tracker.len(), 2);
        assert_eq!(released(&mut tracker, 5, 5), ['f']);
        assert_eq!(released(&mut tracker, 4, 4), ['e']);
        assert!(tracker.is_empty());
    }

    #[test]
    fn the_counter_wraps_around() {
        let mut tracker = Tracker::starting_at(u32::MAX - 1);
        "abcd".chars().for_each(|what| tracker.push(what));
        assert_eq!(released(&mut tracker, u32::MAX, 0), ['b', 'c']);
        assert_eq!(released(&mut tracker, u32::MAX - 1, u32::MAX - 1), ['a']);
        assert_eq!(released(&mut tracker, 1, 1), ['d']);
        tracker.push('e');
        assert_eq!(released(&mut tracker, 2, 2), ['e']);
    }

    #[test]
    fn numbers_that_are_not_held_change_nothing() {
        let mut tracker = Tracker::starting_at(10);
        tracker.push('a');
        assert_eq!(released(&mut tracker, 0, 9), []);
        assert_eq!(released(&mut tracker, 11, 500), []);
        assert_eq!(released(&mut tracker, 10, u32::MAX), ['a']);
    }

    proptest! {
        #[test]
        fn each_is_freed_once_whatever_the_order(
            first in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
            cuts in prop::collection::vec(1_u32..6, 1..20),
            order in any::<prop::sample::Index>(),
        ) {
            let total: u32 = cuts.iter().sum();
            let mut tracker = Tracker::starting_at(first);
            (0..total).for_each(|what| tracker.push(what));
            let mut at = 0;
            let mut ranges: Vec<_> = cuts.iter().map(|n| { at += n; (at - n, at - 1) }).collect();
            let middle = order.index(ranges.len());
            ranges.rotate_left(middle);
            let mut freed: Vec<_> = ranges
                .iter()
                .flat_map(|(low, high)| {
                    released(&mut tracker, first.wrapping_add(*low), first.wrapping_add(*high))
                })
                .collect();
            freed.sort_unstable();
            prop_assert_eq!(freed, (0..total).collect::<Vec<_>>());
            prop_assert!(tracker.is_empty());
        }
    }
}
