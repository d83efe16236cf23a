//! Parts of a stream whose length is known only when they come.

use onego_buf::Segment;
use onego_wire::AHEAD;

/// The next `want` bytes in one piece once all are here: copied together only if they came in pieces.
pub(crate) fn gather(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> Option<Segment> {
    if have.is_empty() && bytes.len() >= want {
        return Some(bytes.split_to(want));
    }
    fill(have, want, bytes).then(|| std::mem::take(have).into())
}

/// Moves bytes to `have` until it has `want`. `true`: it has them.
pub(crate) fn fill(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> bool {
    if have.capacity() == 0 {
        // No more than may come with one receive: beyond that memory is taken as bytes really come.
        have.reserve_exact(want.min(AHEAD));
    }
    let more = bytes.len().min(want - have.len());
    have.extend_from_slice(&bytes[..more]);
    bytes.advance(more);
    have.len() == want
}
