//! Writes everything once, so that reads find data and writes find allocated space.

use super::session::{Request, Session};
use crate::Error;
use crate::pattern;
use onego::SegmentMut;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

const PIECE: u64 = 4 << 20;

const DEPTH: usize = 8;

/// Fills a range of whole sectors with the first generation of a pattern, of which `zeros` percent are zeros instead.
/// Once `stop` is set, submits no more.
pub(crate) fn fill(
    session: &mut impl Session,
    range: Range<u64>,
    seed: u64,
    zeros: u8,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let (mut next, mut in_flight) = (range.start, 0);
    let mut goes_on = true;
    while (goes_on && next < range.end) || in_flight > 0 {
        while goes_on && next < range.end && in_flight < DEPTH && session.has_room() {
            let length = (range.end - next).min(PIECE - next % PIECE);
            let mut bytes = SegmentMut::zeroed(length as usize);
            pattern::fill(&mut bytes, seed, next, 1);
            pattern::blank(&mut bytes, zeros);
            session.submit(Request::Write { offset: next, data: bytes.into() }, length)?;
            next += length;
            in_flight += 1;
        }
        match session.completion() {
            Some((_, result)) => {
                result?;
                in_flight -= 1;
                goes_on = !stop.load(Ordering::Relaxed);
            }
            None => session.turn()?,
        }
    }
    Ok(())
}
