//! Several segments in one receive.
//!
//! A segment has less than 64 KiB, followed by the header of the next: with one receive per segment, a megabyte takes
//! seventeen. But a peer in the middle of a message continues it, and one that answers RDMA Reads answers the next. So
//! the destinations of payloads are known before they arrive, and so are the lengths of the headers between them. Many
//! segments are received at once: payloads directly into their places, headers into separate memory.
//!
//! The bytes are then parsed segment by segment, as if each had arrived alone. If the peer has sent something else,
//! parsing continues with the misplaced bytes from there. They do no harm where they are: a place is predicted only in
//! memory that is still to be filled, after everything that was written there before.

use super::header::{CRC_LEN, LENGTH_LEN, TAGGED_LEN, padding};
use onego_buf::{Pool, Segment, SegmentMut};
use onego_wire::Landing;

/// Maximum number of predicted segments: each takes two places, and the segment before them takes one.
const SPOTS_MAX: usize = (Landing::PLACES_MAX - 1) / 2;

/// Number of consecutive segments that must match a prediction before predictions resume.
const RETRY: usize = 16;

/// Number of consecutive messages that must follow each other as predicted before predictions cross messages.
const CROSSINGS: usize = 4;

/// Destination of a segment's payload: a part of the memory under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) key: u32,
    pub(super) at: usize,
    pub(super) len: usize,
}

impl Spot {
    fn is_first(self) -> bool {
        self.at == 0
    }

    pub(super) fn end(self) -> usize {
        self.at + self.len
    }

    /// Returns the number of bytes between this payload and that of the next segment.
    pub(super) fn gap(self) -> usize {
        padding(TAGGED_LEN - LENGTH_LEN + self.len) + CRC_LEN + TAGGED_LEN
    }
}

/// A predicted segment, and its result.
#[derive(Debug)]
pub(super) struct Foreseen {
    /// Bytes between the previous payload and this one.
    pub(super) gap: Segment,
    pub(super) spot: Spot,
    pub(super) filled: usize,
}

/// Everything that a receive has filled.
#[derive(Debug)]
pub(super) struct Landed {
    /// The memory of the segment that had begun, including later spots of the same memory.
    pub(super) first: SegmentMut,
    pub(super) filled: usize,
    /// Other memory that was out, by key.
    pub(super) others: Vec<(u32, SegmentMut)>,
    pub(super) foreseen: Vec<Foreseen>,
}

#[derive(Debug)]
pub(super) struct Forecast {
    /// Limit on predicted segments.
    reach: usize,
    failed: bool,
    /// Consecutive segments, and first segments of messages, that matched a prediction.
    streak: usize,
    crossings: usize,
    /// Payload of the last segment that was not the last of its message: the peer makes them as long as it can.
    whole: usize,
    /// Spot of the current segment, and the predicted spot of the next.
    now: Option<Spot>,
    next: Option<Spot>,
    /// Spots whose places are out for a receive.
    spots: Vec<Spot>,
    /// Places that have come back, with their filled bytes.
    back: Vec<(SegmentMut, usize)>,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            reach: 1,
            failed: false,
            streak: 0,
            crossings: 0,
            whole: usize::MAX,
            now: None,
            next: None,
            spots: Vec::new(),
            back: Vec::new(),
        }
    }
}

impl Forecast {
    /// Records the start of a segment, in that spot if it is a tagged one.
    pub(super) fn begun(&mut self, spot: Option<Spot>, is_last: bool) {
        if let Some(next) = self.next {
            let row = if next.is_first() { &mut self.crossings } else { &mut self.streak };
            *row = if spot == Some(next) { *row + 1 } else { 0 };
        }
        if self.reach == 0 && self.streak >= RETRY {
            self.reach = 1;
        }
        (self.now, self.next) = (spot, None);
        if let Some(spot) = spot
            && !is_last
        {
            self.whole = spot.len;
        }
    }

    /// Predicts the next segment with `after`, which maps a spot and the maximum segment size to the spot after it.
    pub(super) fn foresee(&mut self, after: impl Fn(Spot, usize) -> Option<Spot>) {
        self.next = self.now.and_then(|now| after(now, self.whole));
    }

    /// Raises the limit after a fully correct prediction: doubles it at first, later adds one segment.
    pub(super) fn succeeded(&mut self) {
        self.reach = (self.reach + if self.failed { 1 } else { self.reach }).min(SPOTS_MAX);
    }

    /// Halves the limit after a wrong prediction for that spot, unless the spot starts a message: predictions then no
    /// longer cross messages.
    pub(super) fn failed(&mut self, spot: Spot) {
        if !spot.is_first() {
            (self.reach, self.failed) = (self.reach / 2, true);
        }
    }

    fn crosses(&self) -> bool {
        self.crossings >= CROSSINGS
    }

    /// Predicts segments of up to about `most` bytes. Returns how far to read ahead after them, if that is known.
    pub(super) fn look(&mut self, most: usize, after: impl Fn(Spot, usize) -> Option<Spot>) -> Option<usize> {
        let (mut last, mut next, mut bytes) = (self.now?, self.next, 0);
        let crosses = self.crosses();
        let follows = |next: &Spot| crosses || !next.is_first();
        while let Some(spot) = next.filter(follows)
            && self.spots.len() < self.reach
            && bytes < most
        {
            self.spots.push(spot);
            bytes += spot.len;
            (last, next) = (spot, after(spot, self.whole));
        }
        next.filter(follows).map(|next| ahead(last, next))
    }

    /// Returns the places of the predicted segments and of the gaps before them, after that of the current segment.
    /// `take` takes the memory of a spot; `pool` provides that of the gaps.
    pub(super) fn places(&self, pool: &Pool, mut take: impl FnMut(Spot) -> SegmentMut) -> Vec<SegmentMut> {
        if self.spots.is_empty() {
            return Vec::new();
        }
        let mut places = Vec::with_capacity(2 * self.spots.len());
        let mut gaps = pool.get(self.spots.len() * GAP_MAX);
        let mut last = self.now;
        for &spot in &self.spots {
            places.push(gaps.split_to(last.map_or(0, Spot::gap)));
            places.push(take(spot));
            last = Some(spot);
        }
        places
    }

    /// Takes back a place with `filled` bytes in it. Returns `Some` once all are back.
    pub(super) fn landed(&mut self, place: SegmentMut, filled: usize) -> Option<Landed> {
        self.back.push((place, filled));
        if self.back.len() <= 2 * self.spots.len() {
            return None;
        }
        let mut back = self.back.drain(..);
        let (mut first, filled) = back.next()?;
        let mut others = Vec::<(u32, SegmentMut)>::new();
        let mut foreseen = Vec::with_capacity(self.spots.len());
        for spot in self.spots.drain(..) {
            let ((gap, gap_filled), (place, filled)) = (back.next()?, back.next()?);
            foreseen.push(Foreseen { gap: gap.freeze().slice(..gap_filled), spot, filled });
            let before = match others.last_mut() {
                None if self.now.is_some_and(|now| now.key == spot.key) => &mut first,
                Some((key, before)) if *key == spot.key => before,
                _ => {
                    others.push((spot.key, place));
                    continue;
                }
            };
            before.try_join(place).expect("spots in the same memory follow each other");
        }
        Some(Landed { first, filled, others, foreseen })
    }
}

/// Maximum number of bytes between two payloads.
const GAP_MAX: usize = 3 + CRC_LEN + TAGGED_LEN;

/// Maximum length of a short payload that is copied rather than received separately.
const COPIED: usize = 8 << 10;

/// Returns how far to read ahead after `last` if `next` follows: up to its payload, which is then received directly
/// into its place, or past it if it is short.
fn ahead(last: Spot, next: Spot) -> usize {
    let short = if next.len <= COPIED { next.len + onego_wire::AHEAD_OF_BULK } else { 0 };
    last.gap() + short
}
