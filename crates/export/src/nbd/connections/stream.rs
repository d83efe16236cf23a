//! The bytes of one connection.

use super::outbound::Outbound;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nbd::Inbound;
use onego_wire::{Landing, Unfinished};

/// The bytes of one connection, on their way in and out.
///
/// Everything that a client sends or gets passes through the methods of this type. TLS has its place here, between them and
/// the two halves: what is received is opened before it goes to `inbound`, and what `outbound` has is sealed.
pub(super) struct ByteStream {
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
}

impl ByteStream {
    pub(super) fn new(pool: Pool) -> Self {
        Self { inbound: Inbound::default(), outbound: Outbound::new(pool) }
    }

    /// Where the next bytes go.
    #[inline]
    pub(super) fn landing(&mut self) -> Landing {
        self.inbound.landing()
    }

    /// A receive buffer is back.
    pub(super) fn landed(&mut self, buffer: SegmentMut, filled: usize) {
        self.inbound.landed(buffer, filled);
    }

    /// Bytes have come.
    #[inline]
    pub(super) fn received(&mut self, bytes: Segment) {
        self.inbound.received(bytes);
    }

    /// The message of which a part has come and a part has not.
    #[inline]
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        self.inbound.unfinished()
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(super) fn unsent(&self) -> usize {
        self.outbound.unsent()
    }

    /// Appends at most about `limit` bytes of what is to be sent to `out`.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        self.outbound.transmit(out, limit);
    }
}
