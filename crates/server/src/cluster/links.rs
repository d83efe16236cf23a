//! The connections of the cluster's daemons, what goes up to the driver, and the bounds on memory.
//!
//! A peer can make a daemon hold memory in two ways: by payloads that it begins to send, and by answers that it does
//! not take. Both are bounded for each connection and over all of them; at the bound a connection is not read from
//! until there is room again.

use super::backoffs::Backoffs;
use crate::osd::{COPY_MAX, SessionId};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_ceph::messages::Payload;
use onego_ceph::msgr::{Connection, Event, Header, Message, Placer};
use onego_ceph::ops::MAX_WRITE;
use onego_ceph::types::{Epoch, PgId};
use onego_wire::{Action, ConnId, ConnTable, Landing, Time};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// Connections at a time. Somebody with a thousand images open has one to each daemon for each.
const MAX_CONNECTIONS: usize = 16_384;

/// Bytes of payloads that may be under way to the daemons at a time, if there is more than one such payload: of each
/// connection it is one at most, and RBD's have 4 MiB.
const INTAKE_LIMIT: usize = 64 << 20;

/// Time after which a payload is given up of which nothing more comes. What it takes of the room for all must not be
/// gone for ever when a peer vanishes; none that is alive is silent for so long in the middle of a message.
const INTAKE_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of answers that may wait on one connection, and on all. The answers to a deep queue of large reads fit.
const QUEUE_LIMIT: usize = 64 << 20;
const QUEUE_LIMIT_ALL: usize = 256 << 20;

/// With no more than this waiting on all, connections that were stopped are read from again.
const ROOM_FOR_ALL: usize = QUEUE_LIMIT_ALL / 2;

/// Answers that may wait on one connection, however small.
const QUEUE_LIMIT_MESSAGES: usize = 16_384;

/// Which daemon a connection goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Mon,
    Osd(i32),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) service: Service,
    /// Where the peer is, as the transport has it.
    pub(super) from: IpAddr,
    connection: Connection,
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
    /// Bytes that wait to be sent, as they were counted last.
    queued: usize,
    /// Bytes of payloads that are under way.
    intake: usize,
    /// Those do not count yet, and are not read: they wait for room.
    held: bool,
    /// When something came last, or when there was room for it again.
    heard: Time,
}

impl Link {
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
    /// Bytes of payloads that are under way, without those held.
    intake: usize,
    /// Connections whose payloads wait for room: first come, first served.
    held: VecDeque<ConnId>,
    /// Bytes that wait to be sent.
    queued: usize,
    /// How many connections are stopped.
    stopped: usize,
    /// Nothing is read from anybody: too much has to be made durable first.
    stalled: bool,
}

/// Gives payloads memory of their own, and counts it.
struct Intake<'a> {
    pool: &'a Pool,
    taken: usize,
}

impl Placer for Intake<'_> {
    fn place(&mut self, _: &Header, _: &[u8], data_len: usize) -> Option<SegmentMut> {
        // What the store copies may as well arrive in the memory that small messages share: one system call for many.
        // What is refused for its size gets no memory before it is there.
        if data_len <= COPY_MAX || data_len as u64 > MAX_WRITE {
            return None;
        }
        self.taken += data_len;
        Some(self.pool.get(data_len))
    }
}

impl Links {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            table: ConnTable::default(),
            actions: VecDeque::new(),
            wakeup: None,
            pool,
            intake: 0,
            held: VecDeque::new(),
            queued: 0,
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

    pub(super) fn is_full(&self) -> bool {
        self.table.len() >= MAX_CONNECTIONS
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
            session: None,
            told: 0,
            backoffs: Backoffs::default(),
            announced: false,
            landing: false,
            over: false,
            stopped: false,
            queued: 0,
            intake: 0,
            held: false,
            heard: now,
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
        if !link.announced && link.connection.has_output() {
            link.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    /// What a connection has to send.
    pub(super) fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(link) = self.get(conn) else { return };
        link.connection.transmit(out, limit);
        link.announced = link.connection.has_output();
        self.count_queue(now, conn);
    }

    /// Counts again what waits to be sent, and stops reading or goes on accordingly.
    fn count_queue(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn) else { return };
        let queued = if link.over { 0 } else { link.connection.queued_bytes() };
        let before = self.queued;
        self.queued = self.queued - link.queued + queued;
        link.queued = queued;
        let many = queued > QUEUE_LIMIT || link.connection.queued_messages() > QUEUE_LIMIT_MESSAGES;
        let stop = many || (self.queued > QUEUE_LIMIT_ALL && queued > 0);
        if stop && !link.stopped && !link.over {
            link.stopped = true;
            link.connection.pause(now, true);
            self.stopped += 1;
        }
        let room = self.queued <= ROOM_FOR_ALL;
        if room && before > ROOM_FOR_ALL && self.stopped > 0 {
            let stopped: Vec<ConnId> =
                self.table.iter().filter(|(_, link)| link.stopped).map(|(conn, _)| conn).collect();
            stopped.into_iter().for_each(|conn| self.resume(now, conn, room));
        } else {
            self.resume(now, conn, room);
        }
    }

    /// Reads again from a connection that was stopped and of which half of what may wait is gone; `room`: and so is
    /// half of what may wait on all.
    fn resume(&mut self, now: Time, conn: ConnId, room: bool) {
        let Some(link) = self.table.get_mut(conn).filter(|link| link.stopped) else { return };
        let few = link.connection.queued_messages() <= QUEUE_LIMIT_MESSAGES / 2;
        if link.queued == 0 || (room && few && link.queued <= QUEUE_LIMIT / 2) {
            link.stopped = false;
            self.stopped -= 1;
            link.connection.pause(now, false);
            self.actions.push_back(Action::Resume { conn });
        }
    }

    /// Where the next bytes of a connection go.
    pub(super) fn landing(&mut self, conn: ConnId) -> Landing {
        let stalled = self.stalled;
        let link = self.get(conn).filter(|link| !link.held && !stalled);
        let Some(link) = link else { return Landing::default() };
        let landing = link.connection.landing();
        link.landing = landing.place.is_some();
        landing
    }

    /// A buffer that was out comes back.
    pub(super) fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let Some(link) = self.table.get_mut(conn) else { return };
        link.landing = false;
        link.heard = now;
        link.connection.landed(now, place, filled);
        if link.over {
            self.forget(now, conn);
        }
    }

    /// Bytes came in.
    pub(super) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        let mut intake = Intake { pool: &self.pool, taken: 0 };
        link.heard = now;
        link.connection.received(now, bytes, &mut intake);
        let taken = intake.taken;
        if taken > 0 {
            self.take_in(conn, taken);
            self.wake_by(Some(now + INTAKE_PATIENCE));
        }
    }

    /// Payloads have begun to come in. Memory from the allocator is taken by and by, as they do come: a payload that is
    /// held takes next to none.
    fn take_in(&mut self, conn: ConnId, bytes: usize) {
        let Some(link) = self.table.get_mut(conn) else { return };
        link.intake += bytes;
        if self.intake > 0 && self.intake + bytes > INTAKE_LIMIT && !link.held {
            link.held = true;
            self.intake -= link.intake - bytes;
            self.held.push_back(conn);
        } else if !link.held {
            self.intake += bytes;
        }
    }

    /// Payloads are here, or given up.
    fn let_go(&mut self, now: Time, conn: ConnId, bytes: usize) {
        let Some(link) = self.table.get_mut(conn).filter(|_| bytes > 0) else { return };
        link.intake -= bytes;
        if !link.held {
            self.intake -= bytes;
        }
        self.admit(now);
    }

    /// Lets payloads come in that waited for room.
    fn admit(&mut self, now: Time) {
        while let Some(&conn) = self.held.front() {
            if let Some(link) = self.table.get_mut(conn).filter(|link| link.held) {
                if self.intake > 0 && self.intake + link.intake > INTAKE_LIMIT {
                    return;
                }
                self.intake += link.intake;
                link.held = false;
                link.heard = now;
                self.actions.push_back(Action::Resume { conn });
            }
            self.held.pop_front();
        }
    }

    /// The next event of a connection.
    pub(super) fn poll(&mut self, now: Time, conn: ConnId) -> Option<Event> {
        let event = self.table.get_mut(conn)?.connection.poll()?;
        if let Event::Message(Message { placed: Some(place), .. }) | Event::Unplaced(_, place) = &event {
            self.let_go(now, conn, place.len());
        }
        Some(event)
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
        let Some(link) = self.table.get_mut(conn) else { return };
        link.over = true;
        link.connection.closed();
        let landing = link.landing;
        self.count_queue(now, conn);
        if !landing {
            self.forget(now, conn);
        }
    }

    fn forget(&mut self, now: Time, conn: ConnId) {
        // The places that it still has come back.
        while self.poll(now, conn).is_some() {}
        let left = self.table.get_mut(conn).map_or(0, |link| link.intake);
        self.let_go(now, conn, left);
        self.table.remove(conn);
        self.admit(now);
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
        self.wakeup
    }

    /// Tells the connections the time, and returns those that may have something to say.
    pub(super) fn timeout(&mut self, now: Time) -> Due {
        let mut due = Due::default();
        if self.wakeup.is_none_or(|wakeup| now < wakeup) {
            return due;
        }
        self.wakeup = None;
        for (conn, link) in self.table.iter_mut().filter(|(_, link)| !link.over) {
            if link.connection.deadline().is_some_and(|deadline| deadline <= now) {
                link.connection.timeout(now);
                due.told.push(conn);
            }
            let patience = (link.intake > 0 && !link.held).then_some(link.heard + INTAKE_PATIENCE);
            if patience.is_some_and(|end| end <= now) {
                due.stalled.push(conn);
            }
            self.wakeup = self.wakeup.into_iter().chain(link.connection.deadline()).chain(patience).min();
        }
        due.told.iter().for_each(|conn| self.announce(*conn));
        due
    }
}

/// Connections whose time has come.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// They may have something to say.
    pub(super) told: Vec<ConnId>,
    /// Nothing comes any more of the payload that they have begun to send.
    pub(super) stalled: Vec<ConnId>,
}
