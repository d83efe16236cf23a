//! One connection, and the bounds on what its client makes the server hold.

use crate::procedures::limits::TRANSFER_MAX;
use crate::program::{Peer, Program};
use crate::transport::{FRONT_MAX, Transport};
use onego_buf::extents::COPY_MAX;
use onego_buf::{List, SegmentMut};
use onego_nfs::rpc::{Split, Splitter};
use onego_service::admission::Bounds;
use onego_service::connections::{Allowance, ServerConnection, StreamEnd};
use onego_wire::{Landing, Time, Unfinished};
use std::net::SocketAddr;

/// What all connections hold together.
pub(super) const BOUNDS: Bounds = Bounds {
    connections: 4096,
    slots: 64 * RECORD_MAX,
    // Payloads that get a receive buffer of their own.
    slot_from: COPY_MAX + 1,
    unfinished: 128 << 20,
    replies: 256 << 20,
    reply_max: RECORD_MAX,
};

/// Most bytes of a message: a WRITE, and generously what is before its data.
pub(super) const RECORD_MAX: usize = TRANSFER_MAX + FRONT_MAX;

/// Bytes of replies that may wait on one connection before no more of its calls are carried out, and of those with the
/// replies to calls that are carried out elsewhere.
const UNSENT_MAX: usize = 8 << 20;
const REPLIES_MAX: usize = 32 << 20;

/// Replies that are sent before further calls of their connection are carried out: the client has them to deal with while the
/// next calls are done here, and neither sleeps.
const BATCH: usize = 16;

/// Calls of one connection that may be carried out elsewhere at a time, and of all.
const JOBS_MAX: usize = 64;
pub(super) const JOBS_MAX_ALL: usize = 256;

/// One connection.
pub(super) struct NfsConnection {
    pub(super) transport: Transport,
    pub(super) peer: Peer,
    /// Replies since the driver took some last.
    pub(super) answered: usize,
    /// There may be calls that wait until the replies before them are sent. No more are read until then.
    pub(super) more: bool,
    /// Calls that are carried out elsewhere.
    pub(super) jobs: usize,
    /// Most bytes of their replies.
    pub(super) to_come: usize,
    stream_end: StreamEnd,
}

impl NfsConnection {
    pub(super) fn new(transport: Transport, peer: SocketAddr) -> Self {
        let peer = Peer::new(peer, transport.is_rdma());
        Self { transport, peer, answered: 0, more: false, jobs: 0, to_come: 0, stream_end: StreamEnd::Open }
    }

    /// The client has ended its direction of the stream.
    pub(super) fn half_close(&mut self, now: Time) {
        self.stream_end.half_close(now);
    }

    /// All calls that are here in full are answered, or carried out elsewhere.
    pub(super) fn all_handled(&mut self) {
        self.stream_end.all_handled();
    }

    /// Returns whether no call can come any more and none is left to be answered here.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stream_end, StreamEnd::Handled(_)) && self.jobs == 0
    }

    /// Returns whether the calls of a client that sends no more have taken too long.
    pub(super) fn is_late(&self) -> bool {
        self.stream_end.is_late()
    }

    /// Are there replies enough for a send?
    pub(super) fn has_batch(&self) -> bool {
        self.answered >= BATCH && self.transport.is_on_stream()
    }

    /// May another call be carried out, `working` being the calls of all connections that are carried out elsewhere?
    pub(super) fn has_room(&self, working: usize) -> bool {
        let unsent = self.transport.unsent();
        let full = unsent >= UNSENT_MAX || unsent + self.to_come >= REPLIES_MAX;
        let busy = self.jobs >= JOBS_MAX || (self.jobs > 0 && working >= JOBS_MAX_ALL);
        !full && !busy
    }

    /// Is half of what may be held gone?
    pub(super) fn has_half(&self, working: usize) -> bool {
        let unsent = self.transport.unsent();
        let full = unsent > UNSENT_MAX / 2 || unsent + self.to_come > REPLIES_MAX / 2;
        let busy = self.jobs > 0 && (self.jobs > JOBS_MAX / 2 || working > JOBS_MAX_ALL / 2);
        !full && !busy
    }
}

impl ServerConnection for NfsConnection {
    fn landing(&mut self) -> Landing {
        self.transport.landing()
    }

    fn landed(&mut self, now: Time, buffer: SegmentMut, filled: usize) {
        self.transport.landed(now, buffer, filled);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        match self.stream_end {
            StreamEnd::Open | StreamEnd::HalfClosed(_) => self.transport.unfinished(),
            // The rest of a call that ends the stream never comes.
            StreamEnd::Handled(_) | StreamEnd::Late => None,
        }
    }

    #[inline]
    fn defers(&self) -> bool {
        self.more
    }

    fn has_output(&self) -> bool {
        self.transport.has_output()
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.transport.transmit(out, limit);
        self.answered = 0;
    }

    fn unsent(&self) -> usize {
        self.transport.unsent()
    }

    fn to_come(&self) -> usize {
        self.to_come
    }

    fn settle(&mut self) {
        self.transport.settle();
    }

    fn deadline(&self) -> Option<Time> {
        self.stream_end.deadline().or_else(|| self.transport.deadline())
    }

    fn timeout(&mut self, now: Time) {
        self.transport.timeout(now);
        self.stream_end.timeout(now);
    }
}

/// Gives payloads memory: fresh one if they have to wait for a slot.
pub(super) struct PayloadPlacer<'a> {
    pub(super) program: &'a mut Program,
    pub(super) allowance: Allowance<'a>,
}

impl Splitter for PayloadPlacer<'_> {
    fn split(&mut self, start: &[u8]) -> Split {
        self.program.split(start)
    }

    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
        if payload < BOUNDS.slot_from || self.allowance.has_slot_for(payload) {
            return self.program.place(front, payload);
        }
        Some(SegmentMut::sparse(payload))
    }
}
