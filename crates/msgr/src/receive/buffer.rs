//! Buffer that a payload is received into.

use onego_buf::SegmentMut;
use onego_wire::{Ahead, Landing, Place};

/// Payload size above which a connection counts as carrying bulk data until the next message: copying less is cheaper
/// than the system calls of short reads ahead. A limit of 32 KiB is too low: without it, writes by 32 clients are 1.5
/// times as many.
const BULK: usize = 64 << 10;

pub(crate) fn read_ahead() -> Ahead {
    Ahead::new(BULK, 1)
}

/// Buffer filled by receives and by copies of bytes read ahead.
#[derive(Debug)]
pub(crate) struct RecvBuffer {
    /// The whole buffer, unless a receive holds its rest.
    buffer: SegmentMut,
    place: Place,
}

impl RecvBuffer {
    pub(crate) fn new(buffer: SegmentMut) -> Self {
        let place = Place::new(0, buffer.len());
        Self { buffer, place }
    }

    #[inline]
    pub(crate) fn filled(&self) -> usize {
        self.place.at()
    }

    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.place.left()
    }

    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.place.is_out()
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If they exceed the space left.
    #[inline]
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.place.fill(&mut self.buffer, bytes);
    }

    /// Appends `len` bytes written by `fill`.
    ///
    /// # Panics
    /// If they exceed the space left.
    #[inline]
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) {
        let at = self.place.at();
        fill(&mut self.buffer[at..at + len]);
        self.place.skip(len);
    }

    #[inline]
    pub(crate) fn filled_from(&mut self, from: usize) -> &mut [u8] {
        let end = self.place.at();
        &mut self.buffer[from..end]
    }

    /// Returns where to receive the next bytes: into the rest of the buffer, where that pays.
    pub(crate) fn landing(&mut self, ahead: &Ahead) -> Landing {
        let left = self.left();
        let rest = self.place.hand_out(&mut self.buffer, left);
        ahead.landing(rest, left)
    }

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
