//! The place of a segment's payload: a part of a buffer that is filled by receives right into it, and by copies.

use onego_buf::SegmentMut;
use onego_wire::Landing;

/// Bytes that are asked for ahead as a rule: many small messages a system call.
const AHEAD: usize = 256 << 10;

/// Bytes that are asked for ahead while large segments come in: what follows one, the headers of the next, and the
/// message that tells of them. What is more would be payload that has to be copied to its place.
const AHEAD_OF_BULK: usize = 1 << 10;

/// Payload of a segment from which on a connection is taken to carry bulk: copying less costs less than the system
/// calls that small reads ahead cost.
const BULK: usize = 32 << 10;

/// Segments after a large one for which the connection is still taken to carry bulk: the short end of a message, the
/// message that tells of it, and the next request.
const BULK_LASTS: u8 = 4;

/// Rest of a payload from which on it is received right into its place: copying a page costs less than one more
/// vector in a receive.
const LAND: usize = 4 << 10;

/// Which buffer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The region with that key.
    Region(u32),
    /// The receive of the message that is coming in.
    Message,
    /// The sink of the RDMA Read that is being answered.
    Read,
    /// The region with that key, which was invalidated since the segment began.
    Gone(u32),
}

/// The place of a segment's payload.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) target: Target,
    /// Where in the buffer the next byte goes.
    pub(super) at: usize,
    /// Bytes that are to come.
    pub(super) left: usize,
    /// What is before the place in its buffer, while the place is out for a receive. The buffer itself is what is
    /// behind the place then.
    head: Option<SegmentMut>,
}

impl Place {
    pub(super) fn new(target: Target, at: usize, len: usize) -> Self {
        Self { target, at, left: len, head: None }
    }

    pub(super) fn is_out(&self) -> bool {
        self.head.is_some()
    }

    /// Copies bytes to the place in its buffer.
    pub(super) fn fill(&mut self, buffer: &mut SegmentMut, bytes: &[u8]) {
        debug_assert!(!self.is_out(), "bytes behind a place that is out come after it");
        buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self.left -= bytes.len();
    }

    /// Is it worth being received into?
    pub(super) fn lands(&self) -> bool {
        self.left >= LAND
    }

    /// Takes the place out of its buffer, for a receive.
    pub(super) fn hand_out(&mut self, buffer: &mut SegmentMut) -> SegmentMut {
        assert!(!self.is_out(), "the place that was handed out comes back before the next is asked for");
        self.head = Some(buffer.split_to(self.at));
        buffer.split_to(self.left)
    }

    /// Puts it back into its buffer, with `filled` bytes received.
    pub(super) fn landed(&mut self, buffer: &mut SegmentMut, place: SegmentMut, filled: usize) {
        let head = self.head.take().expect("only what was handed out lands");
        let tail = std::mem::replace(buffer, head);
        buffer.try_join(place).expect("what lands is the place that was handed out");
        buffer.try_join(tail).expect("what is behind a place lies behind it");
        self.at += filled;
        self.left -= filled;
    }
}

/// How far to read ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Segments for which the connection is still taken to carry bulk.
    bulk: u8,
}

impl Ahead {
    /// A segment begins, with so much payload.
    pub(super) fn segment(&mut self, payload: usize) {
        self.bulk = if payload >= BULK { BULK_LASTS } else { self.bulk.saturating_sub(1) };
    }

    /// Where the next bytes go, if `place` is to be received into, or `rest` bytes of payload are to be copied.
    pub(super) fn landing(&self, place: Option<SegmentMut>, rest: usize) -> Landing {
        let ahead = if self.bulk > 0 { AHEAD_OF_BULK } else { AHEAD };
        let rest = if place.is_some() { 0 } else { rest };
        Landing { place, ahead: ahead + rest }
    }
}
