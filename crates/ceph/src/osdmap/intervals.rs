//! Sets of numbers as intervals, such as snapshot ids (ceph `src/include/interval_set.h`).

use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// Set of numbers as disjoint, non-adjacent intervals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalSet {
    intervals: BTreeMap<u64, u64>,
}

impl IntervalSet {
    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns whether the set contains the number.
    pub fn contains(&self, id: u64) -> bool {
        self.intervals.range(..=id).next_back().is_some_and(|(start, len)| id - start < *len)
    }

    /// Returns the number of intervals.
    pub fn count(&self) -> usize {
        self.intervals.len()
    }

    /// Returns the intervals: start and length.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.intervals.iter().map(|(start, len)| (*start, *len))
    }

    /// Adds `len` numbers from `start` on, up to the largest number.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut first, mut end) = (start, start.saturating_add(len));
        // Overlapping and adjacent intervals are merged.
        while let Some((&at, &n)) = self.intervals.range(..=end).next_back() {
            if at + n < first {
                break;
            }
            self.intervals.remove(&at);
            first = first.min(at);
            end = end.max(at + n);
        }
        self.intervals.insert(first, end - first);
    }

    /// Removes `len` numbers from `start` on. Returns the number of those that were in the set.
    pub fn remove(&mut self, start: u64, len: u64) -> u64 {
        let mut removed = 0;
        if len == 0 {
            return removed;
        }
        let end = start.saturating_add(len);
        while let Some((&at, &n)) = self.intervals.range(..end).next_back() {
            if at + n <= start {
                break;
            }
            self.intervals.remove(&at);
            if at + n > end {
                self.intervals.insert(end, at + n - end);
            }
            if at < start {
                self.intervals.insert(at, start - at);
            }
            removed += end.min(at + n) - start.max(at);
        }
        removed
    }

    /// Adds all numbers of `other`.
    pub fn union(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.insert(start, len);
        }
    }

    /// Removes all numbers of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.remove(start, len);
        }
    }

    /// Removes all numbers that are not in `other`.
    pub fn intersect(&mut self, other: &Self) {
        let mut outside = self.clone();
        outside.subtract(other);
        self.subtract(&outside);
    }

    /// Returns whether the set contains any of the `len` numbers from `start` on.
    pub fn overlaps(&self, start: u64, len: u64) -> bool {
        let before_end = self.intervals.range(..start.saturating_add(len)).next_back();
        len > 0 && before_end.is_some_and(|(at, n)| at + n > start)
    }
}

impl Decode for IntervalSet {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "snapshot interval";
        let intervals: BTreeMap<u64, u64> = BTreeMap::decode(r)?;
        // The arithmetic above relies on valid intervals.
        let mut past = None;
        for (&start, &len) in &intervals {
            let end = start.checked_add(len).filter(|_| len > 0 && past.is_none_or(|past| start > past));
            past = Some(end.ok_or(DecodeError::Invalid { what: WHAT, value: start })?);
        }
        Ok(Self { intervals })
    }
}

impl Encode for IntervalSet {
    fn encode(&self, w: &mut Writer) {
        self.intervals.encode(w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(intervals: &[(u64, u64)]) -> IntervalSet {
        IntervalSet { intervals: intervals.iter().copied().collect() }
    }

    #[test]
    fn inserting_merges_adjacent_and_overlapping_intervals() {
        let mut s = set(&[(1, 2), (5, 1), (9, 3)]);
        s.insert(3, 2);
        assert_eq!(s, set(&[(1, 5), (9, 3)]));
        s.insert(7, 2);
        assert_eq!(s, set(&[(1, 5), (7, 5)]));
        s.insert(0, 100);
        assert_eq!(s, set(&[(0, 100)]));
        s.insert(20, 5);
        assert_eq!(s, set(&[(0, 100)]));
    }

    #[test]
    fn removing_splits_intervals() {
        let mut s = set(&[(0, 10), (20, 10)]);
        assert_eq!(s.remove(3, 2), 2);
        assert_eq!(s, set(&[(0, 3), (5, 5), (20, 10)]));
        s.remove(8, 15);
        assert_eq!(s, set(&[(0, 3), (5, 3), (23, 7)]));
        s.subtract(&set(&[(0, 100)]));
        assert!(s.is_empty());
    }

    #[test]
    fn intervals_agree_with_a_set_of_numbers() {
        let (mut s, mut model) = (IntervalSet::default(), std::collections::BTreeSet::new());
        let mut x = 1_u64;
        for _ in 0..2000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, len) = ((x >> 33) % 50, (x >> 50) % 6);
            if x >> 63 == 0 {
                s.insert(start, len);
                model.extend(start..start + len);
            } else {
                s.remove(start, len);
                model.retain(|id| !(start..start + len).contains(id));
            }
            assert!((0..60).all(|id| s.contains(id) == model.contains(&id)));
            assert_eq!(s.overlaps(start, len), (start..start + len).any(|id| model.contains(&id)));
            let (mut both, odd) = (s.clone(), set(&[(start, 3), (start + 5, len + 1)]));
            both.intersect(&odd);
            assert!((0..70).all(|id| both.contains(id) == (model.contains(&id) && odd.contains(id))));
            assert_eq!(IntervalSet::from_bytes(&s.to_bytes()).as_ref(), Ok(&s));
        }
    }

    #[test]
    fn overlapping_and_overflowing_intervals_are_rejected() {
        for bad in [set(&[(1, 2), (2, 2)]), set(&[(5, 0)]), set(&[(u64::MAX, 2)])] {
            assert!(IntervalSet::from_bytes(&bad.to_bytes()).is_err());
        }
    }
}
