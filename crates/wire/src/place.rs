use crate::machine::Landing;
use onego_buf::SegmentMut;

/// Bytes that are asked for ahead as a rule: many small messages a system call.
pub const AHEAD: usize = 256 << 10;

/// Bytes that are asked for ahead while large payloads come in: what follows one, the headers of the next, and the
/// message that tells of them. What is more would be payload that has to be copied to its place.
pub const AHEAD_OF_BULK: usize = 1 << 10;

/// Payload from which on a connection is taken to carry bulk: copying less costs less than the system calls that
/// small reads ahead cost.
pub const BULK: usize = 32 << 10;

/// Messages after a large one for which the connection is still taken to carry bulk: the short end of a transfer, the
/// message that tells of it, and the next requests, which over RDMA are short ones that come together.
const BULK_LASTS: u8 = 16;

/// Rest of a payload from which on it is received right into its place: copying a page costs less than one more
/// vector in a receive.
const LAND: usize = 4 << 10;

/// The part of a buffer that a payload goes to: filled by receives right into it, and by copies.
#[derive(Debug)]
pub struct Place {
    /// Where in the buffer the next byte goes.
    at: usize,
    /// Bytes that are to come.
    left: usize,
    /// What is before the part in its buffer, while the part is out for a receive. The buffer itself is what is behind
    /// the part then.
    head: Option<SegmentMut>,
}

impl Place {
    /// The `len` bytes of a buffer from `at` on.
    pub fn new(at: usize, len: usize) -> Self {
        Self { at, left: len, head: None }
    }

    /// Where in the buffer the next byte goes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next bytes are in the buffer already.
    ///
    /// # Panics
    /// If they are more than are to come.
    pub fn skip(&mut self, bytes: usize) {
        self.left -= bytes;
        self.at += bytes;
    }

    /// Bytes that are to come.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Is it out for a receive?
    pub fn is_out(&self) -> bool {
        self.head.is_some()
    }

    /// Copies bytes to the place in its buffer.
    ///
    /// # Panics
    /// If they are more than are to come.
    pub fn fill(&mut self, buffer: &mut SegmentMut, bytes: &[u8]) {
        debug_assert!(!self.is_out(), "bytes behind a place that is out come after it");
        buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.skip(bytes.len());
    }

    /// Takes the part out of its buffer, for a receive, if the next `run` bytes of the stream go there and that is worth
    /// it.
    ///
    /// # Panics
    /// If it is out already.
    pub fn hand_out(&mut self, buffer: &mut SegmentMut, run: usize) -> Option<SegmentMut> {
        assert!(!self.is_out(), "the place that was handed out comes back before the next is asked for");
        let run = run.min(self.left);
        if run < LAND {
            return None;
        }
        self.head = Some(buffer.split_to(self.at));
        Some(buffer.split_to(run))
    }

    /// Puts it back into its buffer, with `filled` bytes received.
    ///
    /// # Panics
    /// If it is not what was handed out.
    pub fn landed(&mut self, buffer: &mut SegmentMut, place: SegmentMut, filled: usize) {
        let head = self.head.take().expect("only what was handed out lands");
        let tail = std::mem::replace(buffer, head);
        buffer.try_join(place).expect("what lands is the place that was handed out");
        buffer.try_join(tail).expect("what is behind a place lies behind it");
        self.at += filled;
        self.left -= filled;
    }
}

/// How far to read ahead of what is known to come.
#[derive(Debug)]
pub struct Ahead {
    /// Payload from which on the connection is taken to carry bulk, and for how many messages.
    threshold: usize,
    lasts: u8,
    /// Messages for which the connection is still taken to carry bulk.
    bulk: u8,
}

impl Default for Ahead {
    fn default() -> Self {
        Self::new(BULK, BULK_LASTS)
    }
}

impl Ahead {
    /// After a payload of `threshold` bytes the connection is taken to carry bulk for `lasts` messages, that one
    /// included.
    pub fn new(threshold: usize, lasts: u8) -> Self {
        Self { threshold, lasts, bulk: 0 }
    }

    /// A message begins, with so much payload that has a place.
    #[inline]
    pub fn message(&mut self, payload: usize) {
        self.bulk = if payload >= self.threshold { self.lasts } else { self.bulk.saturating_sub(1) };
    }

    /// Where the next bytes go, if `place` is to be received into, or `rest` bytes of payload are to be copied.
    pub fn landing(&self, place: Option<SegmentMut>, rest: usize) -> Landing {
        let ahead = if self.bulk > 0 { AHEAD_OF_BULK } else { AHEAD };
        let rest = if place.is_some() { 0 } else { rest };
        Landing { place, ahead: ahead + rest, ..Landing::default() }
    }
}
