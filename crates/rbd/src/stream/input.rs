//! Buffer of bytes that were received and are not decoded yet.

use onego_buf::{List, Segment};

/// Undecoded bytes of a stream. It holds the bytes that its caller pushed, and no more.
#[derive(Debug, Default)]
pub(super) struct StreamBytes {
    bytes: List,
    position: u64,
}

impl StreamBytes {
    pub(super) fn push(&mut self, bytes: impl Into<Segment>) {
        self.bytes.push(bytes);
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next `length` bytes, once they are buffered, without consuming them. The caller has bounded `length`.
    pub(super) fn peek(&self, length: usize) -> Option<Vec<u8>> {
        if self.bytes.len() < length {
            return None;
        }
        let mut bytes = vec![0; length];
        self.bytes.copy_to(&mut bytes);
        Some(bytes)
    }

    /// Returns the next byte, if buffered, without consuming it.
    pub(super) fn peek_byte(&self) -> Option<u8> {
        self.bytes.segments().next().map(|first| first[0])
    }

    /// Returns the little-endian number at offset `at`, once buffered, without consuming it.
    pub(super) fn peek_number<const N: usize>(&self, at: usize) -> Option<u64> {
        let bytes = self.peek(at + N)?;
        let mut number = [0; 8];
        number[..N].copy_from_slice(&bytes[at..]);
        Some(u64::from_le_bytes(number))
    }

    pub(super) fn advance(&mut self, length: usize) {
        self.bytes.advance(length);
        self.position += length as u64;
    }

    /// Consumes up to `most` of the buffered bytes.
    pub(super) fn take(&mut self, most: u64) -> List {
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(self.bytes.len());
        self.position += length as u64;
        self.bytes.split_to(length)
    }
}
