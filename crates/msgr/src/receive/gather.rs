//! Assembly of fragmented parts of a stream.

use onego_buf::Segment;
use onego_wire::AHEAD;

/// Returns the next `want` bytes as one segment once all have arrived. They are copied only if they arrived in
/// fragments.
pub(crate) fn gather(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> Option<Segment> {
    if have.is_empty() && bytes.len() >= want {
        return Some(bytes.split_to(want));
    }
    fill(have, want, bytes).then(|| std::mem::take(have).into())
}

/// Moves bytes to `have` until it holds `want`. Returns whether it does.
pub(crate) fn fill(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> bool {
    if have.capacity() == 0 {
        // Reserve no more than one receive may bring: beyond that, memory is allocated as bytes actually arrive.
        have.reserve_exact(want.min(AHEAD));
    }
    let more = bytes.len().min(want - have.len());
    have.extend_from_slice(&bytes[..more]);
    bytes.advance(more);
    have.len() == want
}
