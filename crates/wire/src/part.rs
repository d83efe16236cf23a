use onego_buf::Segment;

/// Fixed part of a stream, of at most `MAX` bytes, that may arrive in fragments.
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
    /// Returns whether nothing of the part has arrived.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the next `n` bytes once all have arrived, and how many of `from` they use up. They are read in place if
    /// they are contiguous.
    ///
    /// # Panics
    /// If `n` exceeds `MAX` and the part is fragmented.
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
