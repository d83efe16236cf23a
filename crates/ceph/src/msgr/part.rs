//! Parts of a stream that may be cut.

use super::place::AHEAD;
use onego_buf::Segment;

/// A fixed part of at most `MAX` bytes.
#[derive(Debug)]
pub(super) struct Part<const MAX: usize> {
    bytes: [u8; MAX],
    filled: usize,
}

impl<const MAX: usize> Part<MAX> {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; MAX], filled: 0 }
    }

    /// The next `n` bytes once all are here, and how many of `from` are used up by them: read where they lie, if they
    /// lie there in one piece.
    #[inline]
    pub(super) fn take<'a>(&'a mut self, n: usize, from: &'a mut Segment) -> Option<(&'a [u8], usize)> {
        if self.filled == 0 && from.len() >= n {
            return Some((&from[..n], n));
        }
        self.take_cut(n, from)
    }

    #[cold]
    fn take_cut(&mut self, n: usize, from: &mut Segment) -> Option<(&[u8], usize)> {
        let more = (n - self.filled).min(from.len());
        self.bytes[self.filled..self.filled + more].copy_from_slice(&from[..more]);
        self.filled += more;
        if self.filled < n {
            from.advance(more);
            return None;
        }
        self.filled = 0;
        Some((&self.bytes[..n], more))
    }
}

/// The next `want` bytes in one piece once all are here: copied together only if they came in pieces.
pub(super) fn gather(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> Option<Segment> {
    if have.is_empty() && bytes.len() >= want {
        return Some(bytes.split_to(want));
    }
    if have.capacity() == 0 {
        // No more than may come with one receive: beyond that memory is taken as bytes really come.
        have.reserve_exact(want.min(AHEAD));
    }
    let more = bytes.len().min(want - have.len());
    have.extend_from_slice(&bytes[..more]);
    bytes.advance(more);
    (have.len() == want).then(|| std::mem::take(have).into())
}
