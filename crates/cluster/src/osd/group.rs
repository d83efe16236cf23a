//! What an OSD knows of a placement group beside its objects: how far it has come, what changed last, what became of
//! requests, and what it still lacks.
//!
//! Source of the ideas: ceph `doc/dev/placement-group.rst`, `src/osd/PGLog.h`. Objects are named by their hashes here:
//! to bring all objects of one hash up to date is to bring one up to date, nearly always, and needs no name to be kept
//! for each write.

use super::duplicates::Duplicates;
use super::store::Contents;
use onego_ceph::types::EVersion;
use std::collections::{BTreeSet, VecDeque};

/// Changes that are kept (`osd_max_pg_log_entries` is 10,000 in Ceph): an OSD that missed more is given everything.
const LOG_MAX: usize = 3000;

/// Where a hash stands in the order of listings: the hash read from its low end.
pub(crate) type Place = u32;

/// Behind all places.
pub(crate) const END: u64 = 1 << 32;

/// What an OSD lacks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Places before `from` whose objects are not what they should be.
    pub(crate) places: BTreeSet<Place>,
    /// All from here on: backfill has come that far.
    pub(crate) from: u64,
}

impl Missing {
    const NOTHING: Self = Self { places: BTreeSet::new(), from: END };

    fn has(&self, place: Place) -> bool {
        u64::from(place) >= self.from || self.places.contains(&place)
    }
}

/// A placement group, as an OSD knows it.
#[derive(Clone)]
pub(crate) struct Group {
    /// The version of the last change.
    pub(crate) version: EVersion,
    /// The last changes, oldest first, and the version before them.
    pub(super) log: VecDeque<(EVersion, Place)>,
    pub(super) tail: EVersion,
    pub(crate) outcomes: Duplicates,
    pub(crate) missing: Missing,
    /// The objects that the OSD has of it.
    pub(crate) contents: Contents,
}

impl Default for Group {
    /// A group in which nothing was done yet.
    fn default() -> Self {
        Self {
            version: EVersion::default(),
            log: VecDeque::new(),
            tail: EVersion::default(),
            outcomes: Duplicates::default(),
            missing: Missing::NOTHING,
            contents: Contents::default(),
        }
    }
}

impl Group {
    /// Are the objects of this place what they should be?
    pub(crate) fn has(&self, place: Place) -> bool {
        // Nearly always nothing is missing.
        self.is_whole() || !self.missing.has(place)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.missing.from == END && self.missing.places.is_empty()
    }

    /// The version before the oldest change that is kept.
    pub(crate) fn log_tail(&self) -> EVersion {
        self.tail
    }

    /// Is everything missing from some place on?
    pub(crate) fn is_backfilled(&self) -> bool {
        self.missing.from != END
    }

    /// An object of this place has changed. `keep`: another OSD may have missed it.
    pub(crate) fn advance(&mut self, version: EVersion, place: Place, keep: bool) {
        self.version = version;
        if !keep {
            self.tail = version;
            return;
        }
        if self.log.len() == LOG_MAX
            && let Some((version, _)) = self.log.pop_front()
        {
            self.tail = version;
        }
        self.log.push_back((version, place));
    }

    /// What `behind`, which is another OSD's, lacks of this group, which is whole and covers the places from `first` on;
    /// and it knows from now on what this one knows. `behind` is none if the other has nothing that it can rely on.
    pub(crate) fn catch_up(&self, behind: Option<Self>, first: Place) -> Self {
        let missing = match &behind {
            Some(behind) if behind.version >= self.tail => {
                let mut missing = behind.missing.clone();
                let newer = self.log.iter().rev().take_while(|(version, _)| *version > behind.version);
                let newer = newer.map(|(_, place)| *place);
                missing.places.extend(newer.filter(|place| u64::from(*place) < missing.from));
                missing
            }
            _ => Missing { places: BTreeSet::new(), from: first.into() },
        };
        let contents = behind.map(|behind| behind.contents).unwrap_or_default();
        Self { missing, contents, ..self.clone() }
    }

    /// What there is of the group, whose places begin with `first`, is not to be relied on any more.
    pub(crate) fn disown(&mut self, first: Place) {
        let missing = Missing { places: BTreeSet::new(), from: first.into() };
        *self = Self { missing, contents: self.contents, ..Self::default() };
    }

    /// The part of this group in the places from `first` to `last`, as a group of its own. Objects are to be counted anew.
    pub(crate) fn part(&self, first: Place, last: Place) -> Self {
        let within = |place: &Place| (first..=last).contains(place);
        let mut part = self.clone();
        part.log.retain(|(_, place)| within(place));
        part.missing.places.retain(within);
        part.missing.from = match self.missing.from {
            from if from > last.into() => END,
            from => from.max(first.into()),
        };
        part
    }

    /// Several groups become one. What changed in which order can no longer be told.
    pub(crate) fn merge(&mut self, others: Vec<Self>) {
        let mut outcomes = vec![std::mem::take(&mut self.outcomes)];
        for other in others {
            self.version = self.version.max(other.version);
            self.contents.replace(Contents::default(), other.contents);
            outcomes.push(other.outcomes);
        }
        self.log.clear();
        self.tail = self.version;
        self.outcomes = Duplicates::merged(&outcomes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64) -> EVersion {
        EVersion { version, epoch: 1 }
    }

    fn with_changes(range: std::ops::Range<u64>) -> Group {
        let mut group = Group::default();
        range.for_each(|n| group.advance(at(n + 1), n as u32 % 100, true));
        group
    }

    #[test]
    fn who_missed_a_few_changes_lacks_what_they_changed() {
        let (ahead, behind) = (with_changes(0..20), with_changes(0..15));
        let caught_up = ahead.catch_up(Some(behind), 0);
        assert_eq!(caught_up.missing.places, (15..20).collect());
        assert!(caught_up.has(14) && !caught_up.has(15) && caught_up.has(20));
        assert_eq!(caught_up.version, at(20));
        assert!(ahead.catch_up(Some(ahead.clone()), 0).is_whole());
    }

    #[test]
    fn who_missed_more_than_is_known_lacks_everything() {
        let ahead = with_changes(0..LOG_MAX as u64 + 10);
        assert_eq!(ahead.catch_up(Some(with_changes(0..9)), 7).missing.from, 7);
        assert_eq!(ahead.catch_up(Some(with_changes(0..10)), 7).missing.from, END);
        let from_nothing = ahead.catch_up(None, 7);
        assert!(from_nothing.is_backfilled() && !from_nothing.has(7));
    }

    #[test]
    fn what_changes_behind_the_place_that_backfill_has_come_to_is_not_noted() {
        let mut behind = with_changes(0..5);
        behind.missing.from = 50;
        let caught_up = with_changes(0..80).catch_up(Some(behind), 0);
        assert_eq!(caught_up.missing.places, (5..50).collect());
        assert!(!caught_up.has(60) && caught_up.has(4));
    }

    #[test]
    fn a_part_knows_only_of_its_own_places() {
        let part = with_changes(0..100).part(10, 19);
        assert_eq!(part.log.len(), 10);
        assert_eq!(part.version, at(100));
        let mut half = with_changes(0..5);
        for (from, expected) in [(5, 10), (15, 15), (20, END), (END, END)] {
            half.missing.from = from;
            assert_eq!(half.part(10, 19).missing.from, expected);
        }
    }
}
