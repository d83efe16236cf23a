use crate::machine::Landing;
use onego_buf::SegmentMut;

/// Default read-ahead in bytes: many small messages per system call.
pub const AHEAD: usize = 256 << 10;

/// Read-ahead in bytes while large payloads arrive: the end of one message, and the headers and announcement of the
/// next. Anything more would be payload to be copied to its place.
pub const AHEAD_OF_BULK: usize = 1 << 10;

/// Payload size, in bytes, from which a connection counts as carrying bulk data: below it, copying is cheaper than the
/// system calls of short reads ahead.
pub const BULK: usize = 32 << 10;

/// Messages after a large one for which the connection still counts as carrying bulk data: the short end of a transfer,
/// the message that announces it, and the next requests, which over RDMA are short and arrive together.
const BULK_LASTS: u8 = 16;

/// Minimum rest of a payload that is received in place, in bytes: copying a page is cheaper than another vector in a
/// receive.
const LAND: usize = 4 << 10;

/// Part of a buffer that a payload goes to, filled in place by receives and by copies.
#[derive(Debug)]
pub struct Place {
    /// Offset of the next byte in the buffer.
    at: usize,
    /// Bytes still missing.
    left: usize,
    /// The buffer's bytes before the part, while a receive holds the part. The buffer itself then consists of the bytes
    /// after it.
    head: Option<SegmentMut>,
}

impl Place {
    /// Creates a place for `len` bytes of a buffer from `at` on.
    pub fn new(at: usize, len: usize) -> Self {
        Self { at, left: len, head: None }
    }

    /// Returns the offset of the next byte in the buffer.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Skips bytes that are already in the buffer.
    ///
    /// # Panics
    /// If they exceed the missing bytes.
    pub fn skip(&mut self, bytes: usize) {
        self.left -= bytes;
        self.at += bytes;
    }

    /// Returns the number of missing bytes.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns whether a receive holds the place.
    pub fn is_out(&self) -> bool {
        self.head.is_some()
    }

    /// Copies bytes to the place in its buffer.
    ///
    /// # Panics
    /// If they exceed the missing bytes.
    pub fn fill(&mut self, buffer: &mut SegmentMut, bytes: &[u8]) {
        debug_assert!(!self.is_out(), "bytes after a place that is out");
        buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.skip(bytes.len());
    }

    /// Takes the part out of its buffer for a receive, if the next `run` bytes of the stream go there and are enough to
    /// be worth it.
    ///
    /// # Panics
    /// If a receive already holds it.
    pub fn hand_out(&mut self, buffer: &mut SegmentMut, run: usize) -> Option<SegmentMut> {
        assert!(
            !self.is_out(),
            "the place that was handed out must be returned before the next is requested"
        );
        let run = run.min(self.left);
        if run < LAND {
            return None;
        }
        self.head = Some(buffer.split_to(self.at));
        Some(buffer.split_to(run))
    }

    /// Puts the part back into its buffer, with `filled` bytes received.
    ///
    /// # Panics
    /// If it is not the part handed out.
    pub fn landed(&mut self, buffer: &mut SegmentMut, place: SegmentMut, filled: usize) {
        let head = self.head.take().expect("only a buffer that was handed out is returned");
        let tail = std::mem::replace(buffer, head);
        buffer.try_join(place).expect("the returned place is the one handed out");
        buffer.try_join(tail).expect("the tail follows the place");
        self.at += filled;
        self.left -= filled;
    }
}

/// Read-ahead policy.
#[derive(Debug)]
pub struct Ahead {
    /// Payload size from which the connection counts as carrying bulk data, and for how many messages.
    threshold: usize,
    lasts: u8,
    /// Messages for which the connection still counts as carrying bulk data.
    bulk: u8,
}

impl Default for Ahead {
    fn default() -> Self {
        Self::new(BULK, BULK_LASTS)
    }
}

impl Ahead {
    /// Creates a policy under which a payload of `threshold` bytes marks the connection as carrying bulk data for
    /// `lasts` messages, including its own.
    pub fn new(threshold: usize, lasts: u8) -> Self {
        Self { threshold, lasts, bulk: 0 }
    }

    /// Records the start of a message whose placed payload has this size.
    #[inline]
    pub fn message(&mut self, payload: usize) {
        self.bulk = if payload >= self.threshold { self.lasts } else { self.bulk.saturating_sub(1) };
    }

    /// Returns the destination of the next bytes, where either `place` is received into or `rest` bytes of payload are
    /// copied.
    pub fn landing(&self, place: Option<SegmentMut>, rest: usize) -> Landing {
        let ahead = if self.bulk > 0 { AHEAD_OF_BULK } else { AHEAD };
        let rest = if place.is_some() { 0 } else { rest };
        Landing { place, ahead: ahead + rest, ..Landing::default() }
    }
}
