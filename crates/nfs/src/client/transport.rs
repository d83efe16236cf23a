//! What carries the calls of one connection.

use super::Error;
use crate::rpc::{Record, Splitter, Stream};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::Landing;

/// The state of a connection's protocol below RPC.
#[derive(Debug)]
pub(super) enum Transport {
    /// Records on a stream.
    Tcp(Stream),
}

impl Transport {
    /// May calls be sent?
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
        }
    }

    pub(super) fn landing(&mut self) -> Landing {
        match self {
            Self::Tcp(stream) => stream.landing(),
        }
    }

    pub(super) fn landed(&mut self, place: SegmentMut, filled: usize) {
        match self {
            Self::Tcp(stream) => stream.landed(place, filled),
        }
    }

    pub(super) fn received(&mut self, bytes: Segment) {
        match self {
            Self::Tcp(stream) => stream.received(bytes),
        }
    }

    /// The next reply that is whole.
    pub(super) fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Record>, Error> {
        match self {
            Self::Tcp(stream) => Ok(stream.next(splitter)?),
        }
    }

    /// The place of a payload that was coming in: the connection is over.
    pub(super) fn take_place(&mut self) -> Option<SegmentMut> {
        match self {
            Self::Tcp(stream) => stream.take_place(),
        }
    }

    pub(super) fn send(&mut self, front: &[u8], payload: List) {
        match self {
            Self::Tcp(stream) => stream.send(front, payload),
        }
    }

    pub(super) fn has_output(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.unsent() > 0,
        }
    }

    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        match self {
            Self::Tcp(stream) => stream.transmit(out, limit),
        }
    }
}
