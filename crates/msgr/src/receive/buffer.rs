//! The buffer that a payload is received into.

use onego_buf::SegmentMut;
use onego_wire::{Ahead, Landing, Place};

/// Payload from which on a connection is taken to carry bulk, until the next message: copying less then costs less
/// than the system calls that small reads ahead cost. At 32 KiB it does not yet: writes by 32 clients are 1.5 times
/// as many without.
const BULK: usize = 64 << 10;

/// How far a connection of the messenger reads ahead.
pub(crate) fn read_ahead() -> Ahead {
    Ahead::new(BULK, 1)
}

/// A buffer that receives fill directly, and copies of what was read ahead.
#[derive(Debug)]
pub(crate) struct RecvBuffer {
    /// The whole buffer, unless a receive has its rest.
    buffer: SegmentMut,
    place: Place,
}

impl RecvBuffer {
    pub(crate) fn new(buffer: SegmentMut) -> Self {
        let place = Place::new(0, buffer.len());
        Self { buffer, place }
    }

    /// Bytes that are filled.
    #[inline]
    pub(crate) fn filled(&self) -> usize {
        self.place.at()
    }

    /// Bytes that are not filled.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.place.left()
    }

    /// Does a receive have the rest?
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.place.is_out()
    }

    /// Copies the next bytes.
    ///
    /// # Panics
    /// If they are more than are left.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.place.fill(&mut self.buffer, bytes);
    }

    /// Fills the next `len` bytes by `fill`.
    ///
    /// # Panics
    /// If they are more than are left.
    #[inline]
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let at = self.place.at();
        fill(&mut self.buffer[at..at + len]);
        self.place.skip(len);
    }

    /// Part of what is filled.
    #[inline]
    pub(crate) fn filled_from(&mut self, from: usize) -> &mut [u8] {
        let end = self.place.at();
        &mut self.buffer[from..end]
    }

    /// Where the next bytes go: into the rest of the buffer, where that pays.
    pub(crate) fn landing(&mut self, ahead: &Ahead) -> Landing {
        let left = self.left();
        let rest = self.place.hand_out(&mut self.buffer, left);
        ahead.landing(rest, left)
    }

    /// The rest comes back with `filled` bytes more.
    pub(crate) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        self.place.landed(&mut self.buffer, rest, filled);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) fn into_inner(self) -> SegmentMut {
        self.buffer
    }
}
