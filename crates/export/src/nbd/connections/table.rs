//! The table of connections: clients come and go, bytes come in and go out.

use super::connection::NbdConnection;
use super::error::ProtocolError;
use super::in_flight::InFlight;
use super::session::Session;
use crate::nbd::config::Config;
use crate::nbd::counters::Counters;
use crate::nbd::exports::{Exports, Served};
use crate::nbd::limits::{BOUNDS, STEPS_A_TURN};
use crate::nbd::tls::Tls;
use onego_block::Completions;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nbd::codec::HeaderStyle;
use onego_service::connections::Connections;
use onego_wire::{Action, ConnId, Landing, Time};
use slab::Slab;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The connections, and what their clients have at the devices.
pub(crate) struct NbdConnections {
    pub(super) table: Connections<NbdConnection>,
    pool: Pool,
    pub(super) tls: Option<Tls>,
    /// Most connections of one address.
    peer_connections: usize,
    /// Requests at the devices, with those of connections that are gone.
    pub(super) requests: Slab<InFlight>,
    pub(super) completions: Completions,
    /// Long requests that can go on.
    pub(super) continuing: VecDeque<usize>,
    /// Steps of them that may be started in this turn.
    pub(super) steps_left: usize,
    /// The time of this turn.
    now: Time,
    pub(crate) counters: Counters,
}

impl NbdConnections {
    pub(crate) fn new(config: Config) -> Self {
        let Config { pool, connections, tls, .. } = config;
        let mut table = Connections::new(BOUNDS);
        table.limit_connections(connections);
        Self {
            table,
            pool,
            tls,
            // Others find room, however much one address opens.
            peer_connections: (connections.min(BOUNDS.connections) / 2).max(1),
            requests: Slab::new(),
            completions: Completions::default(),
            continuing: VecDeque::new(),
            steps_left: STEPS_A_TURN,
            now: Time::default(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn push_action(&mut self, action: Action) {
        self.table.push_action(action);
    }

    pub(crate) fn next_action(&mut self, now: Time, exports: &Exports) -> Option<Action> {
        self.now = now;
        self.settle(now, exports);
        let next = self.table.next_action();
        if next.is_none() {
            self.steps_left = STEPS_A_TURN;
        }
        next
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.table.iter().count()
    }

    /// Requests at the devices.
    pub(crate) fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Adds a connection. `None`: there are too many.
    pub(crate) fn accept(&mut self, now: Time, host: IpAddr) -> Option<ConnId> {
        let is_full = self.table.is_full() && !self.give_way(now, host);
        if is_full || self.table.connections_of(host) >= self.peer_connections {
            tracing::warn!(%host, "a connection is refused: there are too many");
            self.counters.refused += 1;
            return None;
        }
        self.counters.accepted += 1;
        let conn = self.table.add(now, host, false, NbdConnection::new(now, self.pool.clone()));
        self.table.announce(conn);
        Some(conn)
    }

    /// Adds a connection whose client uses an export from the start, with simple replies. `false`: there are too many.
    pub(crate) fn attach(&mut self, socket: OwnedFd, export: &Rc<Served>) -> bool {
        if self.table.is_full() {
            return false;
        }
        self.counters.accepted += 1;
        let session = Box::new(Session::new(Rc::clone(export), HeaderStyle::Simple, false));
        let connection = NbdConnection::agreed(session, self.pool.clone());
        let conn = self.table.add(self.now, IpAddr::V4(Ipv4Addr::LOCALHOST), false, connection);
        self.table.push_action(Action::Attach { conn, socket });
        true
    }

    /// Closes a connection for one from that host. A connection in use never gives way: to its client, that would be a disk
    /// that fails. `false`: none gives way.
    fn give_way(&mut self, now: Time, host: IpAddr) -> bool {
        let Some(conn) = self.table.pick(now, host, NbdConnection::is_negotiating) else { return false };
        tracing::info!(?conn, "a connection that uses no export gives way to another");
        self.close(now, conn);
        true
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
        exports: &Exports,
    ) {
        if let Some(came) = self.table.landed(now, conn, buffer, filled) {
            self.work(now, conn, came, exports);
        }
    }

    /// Bytes came in.
    pub(crate) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment, exports: &Exports) {
        let Some(connection) = self.table.get(conn) else { return };
        let came = bytes.len();
        connection.stream.received(bytes);
        self.work(now, conn, came, exports);
    }

    /// A client has ended its direction of the stream: it gets the replies to all requests that have come in full. Returns
    /// whether the connection stays for them.
    pub(crate) fn half_closed(&mut self, now: Time, conn: ConnId, exports: &Exports) -> bool {
        let Some(connection) = self.table.get(conn) else { return false };
        connection.half_close(now);
        self.table.wake(conn);
        self.work(now, conn, 0, exports);
        true
    }

    /// What a connection has to send.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        conn: ConnId,
        out: &mut List,
        limit: usize,
        exports: &Exports,
    ) {
        let had_room = self.table.has_room_for_replies();
        if !self.table.transmit(now, conn, out, limit) {
            return;
        }
        self.table.count_replies(now, conn);
        self.resume_after(now, conn, had_room, exports);
    }

    /// Closes a connection that cannot go on. What its client was to get is still sent.
    pub(super) fn give_up(&mut self, now: Time, conn: ConnId, error: &ProtocolError) {
        tracing::info!(?conn, %error, "a client broke the protocol");
        self.counters.given_up += 1;
        let Some(connection) = self.table.get(conn) else { return };
        let words = connection.stream.last_words();
        self.release(now, conn);
        self.table.close_after(now, conn, words);
    }

    /// Closes a connection. What it has at the devices goes on, and nobody waits for it.
    pub(super) fn close(&mut self, now: Time, conn: ConnId) {
        self.release(now, conn);
        self.table.close(now, conn);
    }

    /// A connection is gone.
    pub(crate) fn end(&mut self, now: Time, conn: ConnId) {
        self.release(now, conn);
        self.table.end(now, conn);
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let next = (!self.continuing.is_empty()).then_some(self.now);
        next.into_iter().chain(self.table.deadline()).min()
    }

    /// Gives up connections whose handshakes take too long, that are too slow, or that take no replies.
    pub(crate) fn timeout(&mut self, now: Time, exports: &Exports) {
        for conn in self.table.timeout(now) {
            let Some(connection) = self.table.get(conn).filter(|connection| connection.is_late()) else {
                continue;
            };
            match connection.is_negotiating() {
                true => self.give_up(now, conn, &ProtocolError::HandshakeTooLong),
                false => {
                    tracing::info!(
                        ?conn,
                        "requests of a client that sends no more take too long: it is given up"
                    );
                    self.counters.given_up += 1;
                    self.close(now, conn);
                }
            }
        }
        let Some(review) = self.table.review(now) else { return };
        for (conn, why) in &review.give_up {
            tracing::info!(?conn, "a connection is closed: {why}");
            self.counters.given_up += 1;
            self.close(now, *conn);
        }
        for conn in self.table.end_review(now, review) {
            self.resume(now, conn, exports);
        }
    }
}
