//! The connections of the cluster's daemons, what goes up to the driver, and the bounds on memory.
//!
//! A peer can make a daemon hold memory in two ways: by messages that it begins to send, and by answers that it does
//! not take. What is bounded for each connection is here; what all hold together is counted by [`Admission`].

use super::backoffs::Backoffs;
use crate::osd::{COPY_MAX, SessionId};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_ceph::messages::Payload;
use onego_ceph::ops::MAX_WRITE;
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::{Connection, Event, Header, Message, Placer};
use onego_service::admission::{Account, Admission, Bounds, Look};
use onego_wire::{Action, ConnId, ConnTable, Landing, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// What all connections hold together.
const BOUNDS: Bounds = Bounds {
    // Somebody with a thousand images open has one to each daemon for each.
    connections: 16_384,
    // RBD's payloads have 4 MiB.
    slots: 64 << 20,
    // What has a place of its own.
    slot_from: COPY_MAX + 1,
    unfinished: 256 << 20,
    replies: 256 << 20,
    // Most reads are of an object of RBD.
    reply_max: 4 << 20,
};

/// Bytes of answers that may wait on one connection. The answers to a deep queue of large reads fit.
const QUEUE_LIMIT: usize = 64 << 20;

/// Bytes of answers that are sent before further requests are carried out.
const WORTH_A_SEND: usize = 4 << 10;

/// Answers that may wait on one connection, however small.
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
pub(super) struct Link {
    pub(super) service: Service,
    /// Where the peer is, as the transport has it.
    pub(super) from: IpAddr,
    connection: Connection,
    account: Account,
    /// The OSD's number for it, once the client has identified itself.
    pub(super) session: Option<SessionId>,
    /// The newest OSD map that the OSD told the peer of.
    pub(super) told: Epoch,
    /// Groups that the peer was asked to leave alone.
    pub(super) backoffs: Backoffs,
    /// The driver knows that there is something to send.
    announced: bool,
    /// A buffer is out for a receive.
    landing: bool,
    /// The connection is over; it is kept only until the buffer that is out comes back.
    over: bool,
    /// Not read from because of what waits to be sent.
    stopped: bool,
    /// Bytes that the driver has taken, and has not sent as far as is known.
    given: usize,
}

impl Link {
    /// Are there messages that wait until the replies before them are sent? All others are handled as soon as they are
    /// there. Nothing more is read until then.
    fn defers(&self) -> bool {
        self.connection.has_event()
    }

    /// Does the client leave unread what it is sent?
    pub(super) fn is_behind(&self) -> bool {
        self.stopped
    }
}

/// The connections.
#[derive(Debug)]
pub(super) struct Links {
    table: ConnTable<Link>,
    actions: VecDeque<Action>,
    /// No connection wants to be told the time before: a lower bound.
    wakeup: Option<Time>,
    pool: Pool,
    admission: Admission,
    /// Connections whose unfinished messages take too much memory.
    too_heavy: Vec<ConnId>,
    /// How many connections are stopped.
    stopped: usize,
    /// Nothing is read from anybody: too much has to be made durable first.
    stalled: bool,
}

/// Gives payloads memory of their own: fresh one if they have to wait for a slot (see [`Admission`]).
struct Intake<'a> {
    pool: &'a Pool,
    admission: &'a Admission,
    account: &'a Account,
}

impl Placer for Intake<'_> {
    fn place(&mut self, _: &Header, _: &[u8], data_len: usize) -> Option<SegmentMut> {
        // What the store copies may as well arrive in the memory that small messages share: one system call for many.
        // What is refused for its size gets no memory before it is there.
        if data_len <= COPY_MAX || data_len as u64 > MAX_WRITE {
            return None;
        }
        let has_room = self.account.has_slot() || self.admission.has_room(data_len);
        Some(if has_room { self.pool.get(data_len) } else { SegmentMut::sparse(data_len) })
    }
}

impl Links {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            table: ConnTable::default(),
            actions: VecDeque::new(),
            wakeup: None,
            pool,
            admission: Admission::new(BOUNDS),
            too_heavy: Vec::new(),
            stopped: 0,
            stalled: false,
        }
    }

    /// Reads from nobody any more, or again.
    pub(super) fn stall(&mut self, stalled: bool) {
        if std::mem::replace(&mut self.stalled, stalled) && !stalled {
            let open = self.table.iter().filter(|(_, link)| !link.over);
            self.actions.extend(open.map(|(conn, _)| Action::Resume { conn }));
        }
    }

    /// Sets how many connections there may be.
    pub(super) fn limit_connections(&mut self, most: usize) {
        self.admission.limit_connections(most);
    }

    pub(super) fn is_full(&self) -> bool {
        self.admission.is_full()
    }

    /// The connection that gives way to one from that host.
    pub(super) fn pick(&mut self, now: Time, host: IpAddr) -> Option<ConnId> {
        self.admission.pick(now, host, &self.table, |link| (!link.over).then_some(&link.account))
    }

    /// A connection whose unfinished message takes memory that others need.
    pub(super) fn next_too_heavy(&mut self) -> Option<ConnId> {
        self.too_heavy.pop()
    }

    pub(super) fn add(
        &mut self,
        now: Time,
        service: Service,
        from: IpAddr,
        connection: Connection,
    ) -> ConnId {
        self.wake_by(connection.deadline());
        let conn = self.table.insert(Link {
            service,
            from,
            connection,
            // The handshake has a deadline of its own.
            account: self.admission.open(now, from, false),
            session: None,
            told: 0,
            backoffs: Backoffs::default(),
            announced: false,
            landing: false,
            over: false,
            stopped: false,
            given: 0,
        });
        self.announce(conn);
        conn
    }

    /// The connection, unless it is over.
    pub(super) fn get(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.table.get_mut(conn).filter(|link| !link.over)
    }

    /// The connections to one of the daemons.
    pub(super) fn of(&self, service: Service) -> Vec<ConnId> {
        let links = self.table.iter().filter(|(_, link)| link.service == service && !link.over);
        links.map(|(conn, _)| conn).collect()
    }

    pub(super) fn push_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Queues a message; nothing happens if the connection is over.
    pub(super) fn send(&mut self, now: Time, conn: ConnId, message: Message) {
        let Some(link) = self.get(conn) else { return };
        link.connection.send(message);
        self.count_queue(now, conn);
        self.announce(conn);
    }

    /// Queues the message with this content, as part of transaction `tid`.
    pub(super) fn send_payload<P: Payload>(&mut self, now: Time, conn: ConnId, tid: u64, payload: &P) {
        let Some(link) = self.get(conn) else { return };
        link.connection.send_payload(tid, payload);
        self.count_queue(now, conn);
        self.announce(conn);
    }

    /// Groups serve again, or elsewhere: tells the clients that were asked to leave them alone.
    pub(super) fn release_backoffs(&mut self, now: Time, groups: &[PgId], epoch: Epoch) {
        let waiting = self.table.iter_mut().filter(|(_, link)| !link.over && !link.backoffs.is_empty());
        let releases: Vec<_> = waiting
            .flat_map(|(conn, link)| {
                groups.iter().filter_map(move |pg| Some((conn, link.backoffs.release(*pg, epoch)?)))
            })
            .collect();
        for (conn, release) in releases {
            self.send_payload(now, conn, 0, &release);
        }
    }

    /// Tells the driver, once, if the connection has something to send.
    pub(super) fn announce(&mut self, conn: ConnId) {
        let Some(link) = self.get(conn) else { return };
        if !link.announced && (link.defers() || link.connection.has_output()) {
            link.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    /// What a connection has to send.
    pub(super) fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(link) = self.get(conn) else { return };
        link.connection.transmit(out, limit);
        // The driver asks again when all of it is sent.
        link.given = out.len();
        // Only a driver that has got as much as it asked for asks again of itself.
        link.announced = link.connection.has_output();
        self.announce(conn);
        self.count_queue(now, conn);
    }

    /// How many messages of a connection to handle before the replies to them are sent: half of those that have come. The
    /// client has the first half of the replies to deal with while this side is about the other, and neither sleeps.
    pub(super) fn first_half(&mut self, conn: ConnId) -> usize {
        self.get(conn).map_or(0, |link| link.connection.events().div_ceil(2))
    }

    /// Do the messages that are left wait until the replies so far are sent? Few bytes are not worth a send of their own.
    pub(super) fn defers(&mut self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|link| link.defers() && link.connection.queued_bytes() >= WORTH_A_SEND)
    }

    /// Are there messages that waited for replies which are sent now?
    pub(super) fn goes_on(&mut self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|link| link.defers() && !link.connection.has_output())
    }

    /// Reads again from a connection of which no message waits.
    pub(super) fn went_on(&mut self, conn: ConnId) {
        if self.get(conn).is_some_and(|link| !link.defers()) {
            self.actions.push_back(Action::Resume { conn });
        }
    }

    /// Counts again what waits to be sent, and stops reading or goes on accordingly.
    fn count_queue(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        let had_room = self.admission.has_room_for_replies();
        let queued = link.connection.queued_bytes();
        let waiting = queued + link.given;
        self.admission.count_replies(now, &mut link.account, waiting, 0);
        let many = queued > QUEUE_LIMIT || link.connection.queued_messages() > QUEUE_LIMIT_MESSAGES;
        if (many || (waiting > 0 && !self.admission.may_answer(&link.account))) && !link.stopped {
            link.stopped = true;
            link.connection.pause(now, true);
            self.stopped += 1;
            self.admission.watch(now);
        }
        if self.stopped > 0 && !had_room && self.admission.has_room_for_replies() {
            self.resume_all(now);
        } else {
            self.resume(now, conn);
        }
    }

    fn resume_all(&mut self, now: Time) {
        let stopped = self.table.iter().filter(|(_, link)| link.stopped);
        let stopped: Vec<ConnId> = stopped.map(|(conn, _)| conn).collect();
        stopped.into_iter().for_each(|conn| self.resume(now, conn));
    }

    /// Reads again from a connection that was stopped and of which half of what may wait is gone, if there is room.
    fn resume(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn).filter(|link| link.stopped) else { return };
        let few = link.connection.queued_messages() <= QUEUE_LIMIT_MESSAGES / 2;
        let queued = link.connection.queued_bytes();
        let room = few && queued <= QUEUE_LIMIT / 2 && self.admission.may_answer(&link.account);
        if room || link.account.waiting() == 0 {
            link.stopped = false;
            self.stopped -= 1;
            link.connection.pause(now, false);
            self.actions.push_back(Action::Resume { conn });
        }
    }

    /// Where the next bytes of a connection go.
    pub(super) fn landing(&mut self, conn: ConnId) -> Landing {
        let stalled = self.stalled;
        let link = self.table.get_mut(conn).filter(|link| !link.over && link.account.is_read());
        let Some(link) = link.filter(|link| !link.defers() && !stalled) else { return Landing::default() };
        let mut landing = link.connection.landing();
        landing.ahead = landing.ahead.min(self.admission.ahead(&link.account));
        link.landing = landing.place.is_some();
        landing
    }

    /// A buffer that was out comes back.
    pub(super) fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let Some(link) = self.table.get_mut(conn) else { return };
        link.landing = false;
        link.connection.landed(now, place, filled);
        if link.over {
            return self.forget(conn);
        }
        self.progress(now, conn, filled);
    }

    /// Bytes came in.
    pub(super) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        let Link { connection, account, .. } = link;
        let came = bytes.len();
        connection.received(
            now,
            bytes,
            &mut Intake { pool: &self.pool, admission: &self.admission, account },
        );
        self.progress(now, conn, came);
    }

    /// `came` bytes have come: counts what has begun to come in, and what has ended.
    fn progress(&mut self, now: Time, conn: ConnId, came: usize) {
        let Some(link) = self.table.get_mut(conn) else { return };
        let (whole, unfinished) = (link.connection.has_event(), link.connection.unfinished());
        let is_too_much = self.admission.progress(now, conn, &mut link.account, came, whole, unfinished);
        self.admit(now);
        if is_too_much {
            let accounts = self.table.iter().filter(|(_, link)| !link.over);
            let heaviest = self.admission.heaviest(accounts.map(|(conn, link)| (conn, &link.account)));
            self.too_heavy.extend(heaviest);
        }
    }

    /// Lets messages come in that waited for a slot.
    fn admit(&mut self, now: Time) {
        while self.admission.is_anybody_waiting()
            && let Some(next) = self.admission.next_waiting()
        {
            let Some(link) = self.table.get_mut(next).filter(|link| !link.over) else { continue };
            self.admission.grant(now, &mut link.account);
            self.actions.push_back(Action::Resume { conn: next });
        }
    }

    /// The next event of a connection.
    pub(super) fn poll(&mut self, conn: ConnId) -> Option<Event> {
        self.table.get_mut(conn)?.connection.poll()
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, now: Time, conn: ConnId) {
        if self.get(conn).is_some() {
            self.actions.push_back(Action::Close { conn });
            self.end(now, conn);
        }
    }

    /// A connection is gone.
    pub(super) fn end(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        link.over = true;
        link.connection.closed();
        if std::mem::take(&mut link.stopped) {
            self.stopped -= 1;
        }
        self.admission.close(conn, &mut link.account);
        if !link.landing {
            self.forget(conn);
        }
        self.admit(now);
    }

    fn forget(&mut self, conn: ConnId) {
        // The places that it still has come back.
        while self.poll(conn).is_some() {}
        self.table.remove(conn);
    }

    /// Sees to it that a connection's deadline is not missed.
    pub(super) fn wake(&mut self, conn: ConnId) {
        let deadline = self.get(conn).and_then(|link| link.connection.deadline());
        self.wake_by(deadline);
    }

    fn wake_by(&mut self, deadline: Option<Time>) {
        self.wakeup = self.wakeup.into_iter().chain(deadline).min();
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.wakeup.into_iter().chain(self.admission.deadline()).min()
    }

    /// Tells the connections the time, and returns those that may have something to say, and those that have to go.
    pub(super) fn timeout(&mut self, now: Time) -> Due {
        let mut due = Due::default();
        if self.wakeup.take_if(|wakeup| *wakeup <= now).is_some() {
            for (conn, link) in self.table.iter_mut().filter(|(_, link)| !link.over) {
                if link.connection.deadline().is_some_and(|deadline| deadline <= now) {
                    link.connection.timeout(now);
                    due.told.push(conn);
                }
                self.wakeup = self.wakeup.into_iter().chain(link.connection.deadline()).min();
            }
            due.told.iter().for_each(|conn| self.announce(*conn));
        }
        if self.admission.is_due(now) {
            self.look_at_all(now, &mut due);
        }
        due
    }

    /// Finds connections that are too slow or take no answers, and has messages that had their slot for long enough make
    /// room for others.
    fn look_at_all(&mut self, now: Time, due: &mut Due) {
        let (mut stalled, mut turns) = (Vec::new(), Vec::new());
        for (conn, link) in self.table.iter_mut().filter(|(_, link)| !link.over) {
            match self.admission.look(now, &mut link.account, !link.stopped && !self.stalled) {
                Look::Fine => {}
                Look::Overdue => due.overdue.push(conn),
                Look::Stalled(held) => stalled.push((held, link.account.waiting(), conn)),
                Look::HadItsTurn(since) => turns.push((since, conn)),
            }
        }
        let mut excess = self.admission.excess_of_replies();
        stalled.sort_unstable();
        while excess > 0
            && let Some((_, waiting, conn)) = stalled.pop()
        {
            excess = excess.saturating_sub(waiting);
            due.overdue.push(conn);
        }
        self.admission.turns_to_end(&mut turns);
        for (_, conn) in turns {
            if let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) {
                self.admission.end_turn(conn, &mut link.account);
            }
        }
        self.admit(now);
        if self.stopped > 0 {
            self.resume_all(now);
            self.admission.watch(now);
        }
    }
}

/// Connections whose time has come.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// They may have something to say.
    pub(super) told: Vec<ConnId>,
    /// They send a message too slowly, or do not take answers whose memory others need.
    pub(super) overdue: Vec<ConnId>,
}
