//! Writes an image once, so that reads find data and writes find room.

use crate::pattern;
use onego::rbd::Image;
use onego::{Error, ImageRequest, Reactor, SegmentMut, Wait};
use std::ops::Range;

/// Bytes of a request: an object of the usual size.
const PIECE: u64 = 4 << 20;

/// Requests in flight.
const DEPTH: usize = 8;

/// Fills a range, which is whole sectors, with the first generation of a pattern. `told` hears the bytes done.
pub(crate) fn fill(
    reactor: &mut Reactor,
    image: &Image,
    range: Range<u64>,
    seed: u64,
    mut told: impl FnMut(u64),
) -> Result<(), Error> {
    let (mut next, mut in_flight, mut done) = (range.start, 0, 0);
    while next < range.end || in_flight > 0 {
        while next < range.end && in_flight < DEPTH && reactor.has_room() {
            let length = (range.end - next).min(PIECE - next % PIECE);
            let mut bytes = SegmentMut::zeroed(length as usize);
            pattern::fill(&mut bytes, seed, next, 1);
            reactor.submit(image, ImageRequest::Write { offset: next, data: bytes.into() }, length)?;
            next += length;
            in_flight += 1;
        }
        match reactor.completion() {
            Some(completed) => {
                completed.result?;
                in_flight -= 1;
                done += completed.tag;
                told(done);
            }
            None => reactor.turn(Wait::Forever)?,
        }
    }
    Ok(())
}
