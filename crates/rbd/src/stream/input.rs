//! Bytes that have come and are not yet decoded.

use onego_buf::{List, Segment};

/// The undecoded bytes of a stream. It holds what its caller pushed, and no more.
#[derive(Debug, Default)]
pub(super) struct StreamBytes {
    bytes: List,
    position: u64,
}

impl StreamBytes {
    pub(super) fn push(&mut self, bytes: impl Into<Segment>) {
        self.bytes.push(bytes);
    }

    /// Bytes of the stream before the first that is not decoded.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next `length` bytes, once they are there, without moving. The caller has bounded `length`.
    pub(super) fn peek(&self, length: usize) -> Option<Vec<u8>> {
        if self.bytes.len() < length {
            return None;
        }
        let mut bytes = vec![0; length];
        self.bytes.copy_to(&mut bytes);
        Some(bytes)
    }

    /// The next byte, if it is there, without moving.
    pub(super) fn peek_byte(&self) -> Option<u8> {
        self.bytes.segments().next().map(|first| first[0])
    }

    /// A little-endian number `at` bytes from here, once it is there, without moving.
    pub(super) fn peek_number<const N: usize>(&self, at: usize) -> Option<u64> {
        let bytes = self.peek(at + N)?;
        let mut number = [0; 8];
        number[..N].copy_from_slice(&bytes[at..]);
        Some(u64::from_le_bytes(number))
    }

    /// Moves past bytes that were peeked at.
    pub(super) fn advance(&mut self, length: usize) {
        self.bytes.advance(length);
        self.position += length as u64;
    }

    /// Takes up to `most` bytes of those that are there.
    pub(super) fn take(&mut self, most: u64) -> List {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.bytes.len());
        self.position += length as u64;
        self.bytes.split_to(length)
    }
}
