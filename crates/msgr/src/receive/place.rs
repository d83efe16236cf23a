//! The place of a payload: a buffer that is filled by receives right into it, and by copies.

use onego_buf::SegmentMut;
use onego_wire::Landing;

/// Bytes that are asked for ahead as a rule: many small messages a system call.
pub(crate) const AHEAD: usize = 256 << 10;

/// Bytes that are asked for ahead while large payloads come in that have places: behind a payload it covers the
/// epilogue and the next message up to its payload (13 + 32 + 45 bytes and a front of a few hundred). What is more
/// would be payload that has to be copied to its place; what is less would take one more system call a message.
const AHEAD_OF_BULK: usize = 1 << 10;

/// Payload from which on a connection is taken to carry bulk: copying less costs less than the system calls that
/// small reads ahead cost. At 32 KiB it does not yet: writes by 32 clients are 1.5 times as many without.
pub(crate) const BULK: usize = 64 << 10;

/// Rest of a payload from which on it is received right into its place: copying a page costs less than one more
/// vector in a receive, and much less than an engine that leaves its shared buffers.
const LAND: usize = 4 << 10;

/// The place of a payload.
#[derive(Debug)]
pub(crate) struct Place {
    /// The whole place, or what is filled of it while the rest is out.
    pub(crate) buffer: SegmentMut,
    /// Bytes that are filled.
    pub(crate) filled: usize,
    /// Is the rest out for a receive?
    pub(crate) out: bool,
}

impl Place {
    pub(crate) fn new(buffer: SegmentMut) -> Self {
        Self { buffer, filled: 0, out: false }
    }

    /// The rest comes back with `filled` bytes more.
    pub(crate) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        assert!(self.out, "only what was handed out lands");
        self.buffer.try_join(rest).expect("what lands is the buffer that was handed out");
        self.filled += filled;
        self.out = false;
    }
}

/// Where the next bytes go, if a payload is being received into `place`. `bulk`: does the connection carry bulk at
/// the moment?
pub(crate) fn landing(place: Option<&mut Place>, bulk: bool) -> Landing {
    let ahead = if bulk { AHEAD_OF_BULK } else { AHEAD };
    let Some(place) = place else { return Landing::shared(ahead) };
    assert!(!place.out, "the place that was handed out comes back before the next is asked for");
    let rest = place.buffer.len() - place.filled;
    if rest < LAND {
        return Landing::shared(ahead + rest);
    }
    place.out = true;
    let filled = place.buffer.split_to(place.filled);
    let rest = std::mem::replace(&mut place.buffer, filled);
    Landing::at(rest, ahead)
}
