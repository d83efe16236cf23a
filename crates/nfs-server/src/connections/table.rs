//! The table of connections: clients come and go, bytes come in and go out.

use super::connection::{BOUNDS, NfsConnection, RECORD_MAX};
use super::rdma_clients::RdmaClients;
use crate::duplicate_request_cache::RequestKey;
use crate::job::Job;
use crate::program::Program;
use crate::transport::{Error, Rdma, Transport};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_service::connections::Connections;
use onego_wire::{Action, ConnId, Landing, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The connections.
pub(crate) struct NfsConnections {
    pub(super) table: Connections<NfsConnection>,
    pool: Pool,
    pub(super) rdma: RdmaClients,
    /// Calls to be carried out elsewhere.
    pub(super) jobs: VecDeque<Job>,
    /// How many there are, with those that are under way.
    pub(super) working: usize,
    /// Calls in work that have come again, and where they came last, as which number: their clients have new connections.
    pub(super) again: FxHashMap<RequestKey, (ConnId, u32)>,
}

impl NfsConnections {
    pub(crate) fn new(pool: Pool, rdma: Option<&Rdma>) -> Self {
        Self {
            table: Connections::new(BOUNDS),
            rdma: RdmaClients::new(rdma, &pool),
            pool,
            jobs: VecDeque::new(),
            working: 0,
            again: FxHashMap::default(),
        }
    }

    /// Sets how many connections there may be.
    pub(crate) fn limit_connections(&mut self, most: usize) {
        self.table.limit_connections(most);
    }

    pub(crate) fn push_action(&mut self, action: Action) {
        self.table.push_action(action);
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.table.next_action()
    }

    /// Bytes of buffers that are kept for payloads to come.
    pub(crate) fn idle_buffers(&self) -> u64 {
        self.pool.stats().idle_bytes
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.table.len()
    }

    /// Adds a connection of TCP.
    pub(crate) fn add(&mut self, now: Time, peer: SocketAddr) -> ConnId {
        self.insert(now, peer, Transport::stream(RECORD_MAX, &self.pool))
    }

    pub(super) fn insert(&mut self, now: Time, peer: SocketAddr, transport: Transport) -> ConnId {
        let is_rdma = transport.is_rdma();
        self.rdma.open += usize::from(is_rdma);
        self.table.add(now, peer.ip(), !is_rdma, NfsConnection::new(transport, peer))
    }

    /// Where the next bytes of a connection go.
    pub(crate) fn landing(&mut self, conn: ConnId) -> Landing {
        self.table.landing(conn)
    }

    /// A receive buffer is back.
    pub(crate) fn landed(
        &mut self,
        now: Time,
        conn: ConnId,
        buffer: SegmentMut,
        filled: usize,
        program: &mut Program,
    ) {
        if let Some(came) = self.table.landed(now, conn, buffer, filled) {
            self.work(now, conn, came, program);
        }
    }

    /// Bytes came in.
    pub(crate) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment, program: &mut Program) {
        let Some(connection) = self.table.get(conn) else { return };
        let came = bytes.len();
        connection.transport.received(now, bytes);
        self.work(now, conn, came, program);
    }

    /// A client has ended its direction of the stream: it gets the replies to all calls that have come in full. Returns
    /// whether the connection stays for them, which one over RDMA never does.
    pub(crate) fn half_closed(&mut self, now: Time, conn: ConnId, program: &mut Program) -> bool {
        let Some(connection) = self.table.get(conn).filter(|connection| !connection.transport.is_rdma())
        else {
            return false;
        };
        connection.half_close(now);
        self.table.wake(conn);
        self.work(now, conn, 0, program);
        true
    }

    /// Closes a half-closed connection once all its calls are answered.
    pub(super) fn finish_if_over(&mut self, now: Time, conn: ConnId) {
        if !self.table.get(conn).is_some_and(|connection| connection.is_over()) {
            return;
        }
        // A call that was repeated here is carried out for another connection. They are few.
        if self.again.values().any(|(awaits, _)| *awaits == conn) {
            return;
        }
        self.table.finish(now, conn);
    }

    /// What a connection has to send.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        conn: ConnId,
        out: &mut List,
        limit: usize,
        program: &mut Program,
    ) {
        let had_room = self.table.has_room_for_replies();
        self.work_on(now, conn, program);
        if !self.table.transmit(now, conn, out, limit) {
            return;
        }
        self.table.count_replies(now, conn);
        self.resume_after(now, conn, had_room, program);
    }

    /// Closes a connection that cannot go on, and tells the client why.
    pub(super) fn give_up(&mut self, now: Time, conn: ConnId, error: &Error) {
        let Some(connection) = self.table.get(conn) else { return };
        match error.is_end() {
            true => tracing::debug!(?conn, "a client is gone"),
            false => tracing::info!(?conn, %error, "a client broke the protocol"),
        }
        let why = connection.transport.last_words().unwrap_or_default();
        self.count_out(conn);
        self.table.close_after(now, conn, why);
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, now: Time, conn: ConnId) {
        self.count_out(conn);
        self.table.close(now, conn);
    }

    /// A connection is gone.
    pub(crate) fn end(&mut self, now: Time, conn: ConnId) {
        self.count_out(conn);
        self.table.end(now, conn);
    }

    /// One connection less is over RDMA, if this one is.
    fn count_out(&mut self, conn: ConnId) {
        let is_rdma = self.table.get(conn).is_some_and(|connection| connection.transport.is_rdma());
        self.rdma.open -= usize::from(is_rdma);
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.table.deadline()
    }

    /// Gives up connections that do not come to be, that are too slow, or that take no replies.
    pub(crate) fn timeout(&mut self, now: Time, program: &mut Program) {
        for conn in self.table.timeout(now) {
            if self.table.get(conn).is_some_and(|connection| connection.is_late()) {
                tracing::info!(?conn, "calls of a client that sends no more take too long: it is given up");
                self.close(now, conn);
            } else {
                self.work(now, conn, 0, program);
            }
        }
        let Some(review) = self.table.review(now) else { return };
        for (conn, why) in &review.give_up {
            tracing::info!(?conn, "a connection is closed: {why}");
            self.close(now, *conn);
        }
        for conn in self.table.end_review(now, review) {
            self.resume(now, conn, program);
        }
    }
}
