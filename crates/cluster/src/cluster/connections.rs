//! The connections of the cluster's daemons: what of them is Ceph's.
//!
//! The table bounds what all clients hold together (see [`onego_service::connections`]). Here are the bounds for one
//! connection, and the memory in which large payloads arrive.

use super::backoffs::Backoffs;
use super::room::{Holding, Room};
use crate::osd::{COPY_MAX, SessionId};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_ceph::messages::Payload;
use onego_ceph::ops::MAX_WRITE;
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::{Connection, Event, Header, Message, Placer};
use onego_service::admission::Bounds;
use onego_service::connections::{Allowance, Connections, ServerConnection};
use onego_wire::{Action, ConnId, Landing, Time, Unfinished};
use std::net::IpAddr;

/// What all connections hold together.
pub(super) const BOUNDS: Bounds = Bounds {
    // A client with a thousand images open has one connection to each daemon for each image.
    connections: 16_384,
    // RBD's payloads have 4 MiB.
    slots: 64 << 20,
    // Payloads that get a receive buffer of their own.
    slot_from: COPY_MAX + 1,
    unfinished: 256 << 20,
    replies: 256 << 20,
    // Most reads are of an object of RBD.
    reply_max: 4 << 20,
};

/// Bytes of replies that may wait on one connection. The replies to a deep queue of large reads fit.
const QUEUE_LIMIT: usize = 64 << 20;

/// Bytes of replies that are sent before further requests are carried out.
const WORTH_A_SEND: usize = 4 << 10;

/// With receives from more connections than these in a turn, replies are sent once for each connection and turn: while a client
/// waits for its second half, there is work for others.
const FEW_RECEIVES: usize = 4;

/// Bytes that the system sends in the time in which a request is carried out, roughly. The peer gets the first of many bytes
/// while the system is still about the last, so that it need not wait for more requests than these bytes take.
const SENT_MEANWHILE: usize = 8 << 10;

/// Replies that may wait on one connection, however small.
const QUEUE_LIMIT_MESSAGES: usize = 16_384;

/// Which daemon a connection goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Mon,
    Mgr,
    Osd(i32),
}

/// One connection.
#[derive(Debug)]
pub(super) struct ClusterConnection {
    pub(super) service: Service,
    /// Where the peer is, as the transport has it.
    pub(super) from: IpAddr,
    messenger: Connection,
    /// The OSD's number for it, once the client has identified itself.
    pub(super) session: Option<SessionId>,
    /// The newest OSD map that the OSD told the peer of.
    pub(super) told: Epoch,
    /// Groups that the peer was asked to leave alone.
    pub(super) backoffs: Backoffs,
    pub(super) holding: Holding,
    /// Nothing is read from it.
    pub(super) is_stopped: bool,
}

impl ClusterConnection {
    pub(super) fn new(service: Service, from: IpAddr, messenger: Connection) -> Self {
        Self {
            service,
            from,
            messenger,
            session: None,
            told: 0,
            backoffs: Backoffs::default(),
            holding: Holding::default(),
            is_stopped: false,
        }
    }

    /// Are fewer than one in `part` of the replies waiting that may wait?
    pub(super) fn is_within(&self, part: usize) -> bool {
        self.messenger.queued_bytes() <= QUEUE_LIMIT / part
            && self.messenger.queued_messages() <= QUEUE_LIMIT_MESSAGES / part
    }

    /// Returns whether messages wait to be handled.
    pub(super) fn has_work(&self) -> bool {
        self.messenger.has_event() || self.holding.parked.is_some()
    }

    /// The next event.
    pub(super) fn poll(&mut self) -> Option<Event> {
        self.messenger.poll()
    }
}

impl ServerConnection for ClusterConnection {
    fn landing(&mut self) -> Landing {
        self.messenger.landing()
    }

    fn landed(&mut self, now: Time, buffer: SegmentMut, filled: usize) {
        self.messenger.landed(now, buffer, filled);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        let unfinished = self.messenger.unfinished();
        if !self.holding.counts_backlog {
            return unfinished;
        }
        let Unfinished { announced, held } = unfinished.unwrap_or_default();
        Some(Unfinished { announced, held: held + self.holding.backlog })
    }

    /// Messages are handled as soon as they are there, but for those that wait until the replies before them are sent.
    #[inline]
    fn defers(&self) -> bool {
        !self.is_stopped && self.has_work()
    }

    fn has_output(&self) -> bool {
        self.messenger.has_output()
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.messenger.transmit(out, limit);
    }

    #[inline]
    fn unsent(&self) -> usize {
        self.messenger.queued_bytes()
    }

    /// Bytes of replies that the journal keeps.
    fn to_come(&self) -> usize {
        self.holding.promised
    }

    fn stopped(&mut self, now: Time, stopped: bool) {
        self.is_stopped = stopped;
        self.messenger.pause(now, stopped);
    }

    fn closed(&mut self) {
        self.messenger.closed();
    }

    fn deadline(&self) -> Option<Time> {
        self.messenger.deadline()
    }

    fn timeout(&mut self, now: Time) {
        self.messenger.timeout(now);
    }
}

/// The connections.
#[derive(Debug)]
pub(super) struct ClusterConnections {
    pub(super) table: Connections<ClusterConnection>,
    pub(super) room: Room,
    pool: Pool,
    /// Receives of this turn of the driver, and of the last one that had any.
    receives: usize,
    receives_before: usize,
}

/// Gives payloads memory of their own.
struct PayloadPlacer<'a> {
    pool: &'a Pool,
    allowance: Allowance<'a>,
}

impl Placer for PayloadPlacer<'_> {
    fn place(&mut self, _: &Header, _: &[u8], data_len: usize) -> Option<SegmentMut> {
        // What the store copies may as well arrive in the memory that small messages share: one system call for many.
        // What is refused for its size gets no memory before it is there.
        if data_len <= COPY_MAX || data_len as u64 > MAX_WRITE {
            return None;
        }
        let has_slot = self.allowance.has_slot_for(data_len);
        Some(if has_slot { self.pool.get(data_len) } else { SegmentMut::sparse(data_len) })
    }
}

impl ClusterConnections {
    pub(super) fn new(pool: Pool) -> Self {
        Self { table: Connections::new(BOUNDS), room: Room::default(), pool, receives: 0, receives_before: 0 }
    }

    pub(super) fn add(&mut self, now: Time, service: Service, from: IpAddr, messenger: Connection) -> ConnId {
        // The handshake has a deadline of its own.
        let conn = self.table.add(now, from, false, ClusterConnection::new(service, from, messenger));
        self.table.announce(conn);
        conn
    }

    /// The next thing that the driver is to do.
    #[inline]
    pub(super) fn next_action(&mut self) -> Option<Action> {
        let next = self.table.next_action();
        if next.is_none() && self.receives > 0 {
            self.receives_before = std::mem::take(&mut self.receives);
        }
        next
    }

    /// The connection, unless it is over.
    pub(super) fn get(&mut self, conn: ConnId) -> Option<&mut ClusterConnection> {
        self.table.get(conn)
    }

    /// Does the client leave its replies unread?
    pub(super) fn is_behind(&self, conn: ConnId) -> bool {
        self.table.is_stopped(conn)
    }

    /// Returns whether more than a few small messages wait to be sent.
    pub(super) fn has_much_to_send(&mut self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.messenger.queued_bytes() > WORTH_A_SEND)
    }

    /// The connections to one of the daemons.
    pub(super) fn of(&self, service: Service) -> Vec<ConnId> {
        let of = self.table.iter().filter(|(_, connection)| connection.service == service);
        of.map(|(conn, _)| conn).collect()
    }

    /// Queues a message; nothing happens if the connection is over.
    pub(super) fn send(&mut self, now: Time, conn: ConnId, message: Message) {
        let Some(connection) = self.get(conn) else { return };
        connection.messenger.send(message);
        self.count_replies(now, conn);
        self.table.announce(conn);
    }

    /// Queues the message with this content, as part of transaction `tid`.
    pub(super) fn send_payload<P: Payload>(&mut self, now: Time, conn: ConnId, tid: u64, payload: &P) {
        let Some(connection) = self.get(conn) else { return };
        connection.messenger.send_payload(tid, payload);
        self.count_replies(now, conn);
        self.table.announce(conn);
    }

    /// Groups serve again, or elsewhere: tells the clients that were asked to leave them alone.
    pub(super) fn release_backoffs(&mut self, now: Time, groups: &[PgId], epoch: Epoch) {
        let waiting = self.table.iter_mut().filter(|(_, connection)| !connection.backoffs.is_empty());
        let releases: Vec<_> = waiting
            .flat_map(|(conn, connection)| {
                let mut releases = Vec::new();
                for pg in groups {
                    releases.extend(std::iter::from_fn(|| connection.backoffs.release(*pg, epoch)));
                }
                releases.into_iter().map(move |release| (conn, release))
            })
            .collect();
        for (conn, release) in releases {
            self.send_payload(now, conn, 0, &release);
        }
    }

    /// What a connection has to send.
    pub(super) fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        if self.table.transmit(now, conn, out, limit) {
            self.count_replies(now, conn);
        }
    }

    /// How many messages of a connection to handle before the replies to them are sent: half of those that have come. The
    /// client has the first half of the replies to deal with while this side is about the other, and neither sleeps. All of
    /// them, if there are many clients to keep this side busy.
    pub(super) fn first_half(&mut self, conn: ConnId) -> usize {
        self.receives += 1;
        if self.receives_before > FEW_RECEIVES {
            return usize::MAX;
        }
        self.get(conn).map_or(0, |connection| connection.messenger.events().div_ceil(2))
    }

    /// Do the messages that are left wait until the replies so far are sent? Few bytes are not worth a send of their own, and
    /// many keep the client busy anyhow.
    pub(super) fn defers(&mut self, conn: ConnId) -> bool {
        let waits = |connection: &mut ClusterConnection| {
            let most = connection.messenger.events() * SENT_MEANWHILE;
            connection.defers() && (WORTH_A_SEND..=most).contains(&connection.messenger.queued_bytes())
        };
        self.get(conn).is_some_and(waits)
    }

    /// Are there messages that waited for replies which are sent now?
    pub(super) fn goes_on(&mut self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.defers() && !connection.messenger.has_output())
    }

    /// Counts again what waits to be sent, and stops reading or goes on accordingly.
    pub(super) fn count_replies(&mut self, now: Time, conn: ConnId) {
        let had_room = self.table.has_room_for_replies();
        let Some((connection, allowance)) = self.table.count_replies(now, conn) else { return };
        let waiting = allowance.waiting();
        let stops = !connection.is_within(1) || (waiting > 0 && !allowance.may_answer());
        self.count_room(now, conn, waiting);
        if stops {
            self.table.stop(now, conn);
        }
        if self.table.has_stopped() {
            let stopped = self.table.all_to_resume(conn, had_room);
            self.resume(now, stopped);
        }
    }

    /// Reads again from those connections that were stopped and of which half of what may wait is gone, if there is room.
    pub(super) fn resume(&mut self, now: Time, mut stopped: Vec<ConnId>) {
        self.sort_by_turn(&mut stopped);
        for conn in stopped {
            if self.table.resume(now, conn, Self::may_resume) {
                self.table.read_again(conn);
                // What waits is handled with the next send.
                self.table.announce(conn);
            }
        }
    }

    /// Bytes came in. `Some`: this connection is to be closed, because unfinished messages take too much memory.
    pub(super) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) -> Option<ConnId> {
        let came = bytes.len();
        let (connection, allowance) = self.table.get_with_allowance(conn)?;
        connection.messenger.received(now, bytes, &mut PayloadPlacer { pool: &self.pool, allowance });
        connection.holding.backlog += came;
        let whole = connection.messenger.has_event();
        self.table.progress(now, conn, came, whole)
    }

    /// A receive buffer is back. `Some`: see [`received`](Self::received).
    pub(super) fn landed(
        &mut self,
        now: Time,
        conn: ConnId,
        buffer: SegmentMut,
        filled: usize,
    ) -> Option<ConnId> {
        let came = self.table.landed(now, conn, buffer, filled)?;
        let connection = self.get(conn)?;
        connection.holding.backlog += came;
        let whole = connection.messenger.has_event();
        self.table.progress(now, conn, came, whole)
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, now: Time, conn: ConnId) {
        self.release_room(conn);
        self.table.close(now, conn);
    }

    /// The driver has closed a connection.
    pub(super) fn end(&mut self, now: Time, conn: ConnId) {
        self.release_room(conn);
        self.table.end(now, conn);
    }
}
