use onego_buf::Segment;

/// A fixed part of a stream, of at most `MAX` bytes, that may come in pieces.
#[derive(Debug)]
pub struct Part<const MAX: usize> {
    bytes: [u8; MAX],
    filled: usize,
}

impl<const MAX: usize> Default for Part<MAX> {
    fn default() -> Self {
        Self { bytes: [0; MAX], filled: 0 }
    }
}

impl<const MAX: usize> Part<MAX> {
    /// Has nothing of it come yet?
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The next `n` bytes once all are here, and how many of `from` are used up by them: read where they lie, if they
    /// lie there in one piece.
    ///
    /// # Panics
    /// If `n` is more than `MAX`, and the part is cut.
    #[inline]
    pub fn take<'a>(&'a mut self, n: usize, from: &'a mut Segment) -> Option<(&'a [u8], usize)> {
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
