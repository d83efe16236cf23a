//! Several segments in one receive.
//!
//! A segment has less than 64 KiB, and a header between it and the next: a megabyte by one receive a segment is seventeen of
//! them. But a peer that is in the middle of a message goes on with it, and one that answers RDMA Reads answers the next. So
//! it is known where payloads go before they come, and how long the headers between them are, and many segments are received
//! at one go: payloads right into their places, headers beside them.
//!
//! What came is then read segment by segment, as if it had come alone. If the peer has done something else, the bytes that lie
//! in the wrong place are read as what they are, from there. They harm nobody where they are: a place is foreseen only in
//! memory that is still to be filled, behind all that was written there before.

use super::header::{CRC_LEN, LENGTH_LEN, TAGGED_LEN, padding};
use onego_buf::{Pool, Segment, SegmentMut};
use onego_wire::Landing;

/// The most segments that are foreseen at a time: each takes two places, and the segment before them takes one.
const SPOTS_MAX: usize = (Landing::PLACES_MAX - 1) / 2;

/// Segments in a row that are as they would have been foreseen before some are foreseen again.
const RETRY: usize = 16;

/// Messages in a row that follow each other as foreseen before such are foreseen.
const CROSSINGS: usize = 4;

/// Where the payload of a segment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Of the memory.
    pub(super) key: u32,
    /// The first byte there.
    pub(super) at: usize,
    pub(super) len: usize,
}

impl Spot {
    /// Is it the first segment of a message?
    fn is_first(self) -> bool {
        self.at == 0
    }

    pub(super) fn end(self) -> usize {
        self.at + self.len
    }

    /// Bytes between this payload and that of the next segment.
    pub(super) fn gap(self) -> usize {
        padding(TAGGED_LEN - LENGTH_LEN + self.len) + CRC_LEN + TAGGED_LEN
    }
}

/// A segment that was foreseen, and what has come of it.
#[derive(Debug)]
pub(super) struct Foreseen {
    /// From the payload before to this one.
    pub(super) gap: Segment,
    pub(super) spot: Spot,
    /// Bytes that lie in the spot.
    pub(super) filled: usize,
}

/// All that a receive has filled.
#[derive(Debug)]
pub(super) struct Landed {
    /// The memory of the segment that had begun, with what is behind it of the same.
    pub(super) first: SegmentMut,
    /// Bytes that came of that segment.
    pub(super) filled: usize,
    /// Other memory that was out, by key.
    pub(super) others: Vec<(u32, SegmentMut)>,
    pub(super) foreseen: Vec<Foreseen>,
}

/// What is foreseen, and how well.
#[derive(Debug)]
pub(super) struct Forecast {
    /// Segments that are foreseen at a time.
    reach: usize,
    /// Was anything ever not as foreseen?
    failed: bool,
    /// Segments, and first segments of messages, in a row that were as they would have been foreseen.
    streak: usize,
    crossings: usize,
    /// Payload of the last segment that was not the last of its message: the peer makes them as long as it can.
    whole: usize,
    /// Where the segment goes that has begun, and where the next will.
    now: Option<Spot>,
    next: Option<Spot>,
    /// Where segments go whose places are out for a receive.
    spots: Vec<Spot>,
    /// What has come back of these, and the bytes that are filled.
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
    /// A segment has begun, in that spot if it is a tagged one.
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

    /// The next segment will be in the spot that `after` gives, from the spot before and the most bytes of a segment.
    pub(super) fn foresee(&mut self, after: impl Fn(Spot, usize) -> Option<Spot>) {
        self.next = self.now.and_then(|now| after(now, self.whole));
    }

    /// All that was foreseen came so: more is foreseen, at first twice as much, later one segment more.
    pub(super) fn succeeded(&mut self) {
        self.reach = (self.reach + if self.failed { 1 } else { self.reach }).min(SPOTS_MAX);
    }

    /// Something came that was not as foreseen for that spot: half as much is foreseen, or no further than to the end of a
    /// message.
    pub(super) fn failed(&mut self, spot: Spot) {
        if !spot.is_first() {
            (self.reach, self.failed) = (self.reach / 2, true);
        }
    }

    /// Does the peer do nothing else between messages?
    fn crosses(&self) -> bool {
        self.crossings >= CROSSINGS
    }

    /// Foresees segments of up to about `most` bytes, and says how far to read ahead behind them, if that is known.
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

    /// The places of what is foreseen, and of what is between, behind that of the segment that has begun. `take` takes the
    /// memory of a spot, and `pool` has some for the rest.
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

    /// A place comes back with `filled` bytes in it. `Some`: now all are back.
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

/// The most bytes that are between two payloads.
const GAP_MAX: usize = 3 + CRC_LEN + TAGGED_LEN;

/// The most bytes of a short segment that are copied rather than received by themselves.
const COPIED: usize = 8 << 10;

/// How far to read ahead behind `last` if `next` follows: up to its payload, which then is received right into its place, and
/// lies in memory as it lies in the message; or beyond it, if it is short.
fn ahead(last: Spot, next: Spot) -> usize {
    let short = if next.len <= COPIED { next.len + onego_wire::AHEAD_OF_BULK } else { 0 };
    last.gap() + short
}
