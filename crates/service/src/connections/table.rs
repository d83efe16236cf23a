//! The table: connections come and go, bytes come in and go out.

use super::connection::ServerConnection;
use super::entry::{Allowance, Entry, State};
use crate::admission::{Admission, Bounds};
use onego_buf::{List, SegmentMut};
use onego_wire::{Action, ConnId, ConnTable, Landing, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// The connections of a server, and what its driver is to do.
#[derive(Debug)]
pub struct Connections<C> {
    pub(super) table: ConnTable<Entry<C>>,
    pub(super) admission: Admission,
    /// How many connections are stopped.
    pub(super) stopped: usize,
    /// Nothing is read from any connection.
    pub(super) stalled: bool,
    /// A lower bound of all connections' deadlines.
    pub(super) wakeup: Option<Time>,
    actions: VecDeque<Action>,
    /// The connection that the driver is closing: it may still ask for the last words.
    closing: Option<ConnId>,
}

impl<C: ServerConnection> Connections<C> {
    /// None yet, within these bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            table: ConnTable::default(),
            admission: Admission::new(bounds),
            stopped: 0,
            stalled: false,
            wakeup: None,
            actions: VecDeque::new(),
            closing: None,
        }
    }

    /// Sets how many connections there may be, if that is fewer than there may be anyhow.
    pub fn limit_connections(&mut self, most: usize) {
        self.admission.limit_connections(most);
    }

    /// Are there as many connections as there may be?
    pub fn is_full(&self) -> bool {
        self.admission.is_full()
    }

    /// Connections from that host's address.
    pub fn connections_of(&self, host: IpAddr) -> usize {
        self.admission.connections_of(host)
    }

    /// The connection that gives way to one from that host, of those that `may`.
    pub fn pick(&mut self, now: Time, host: IpAddr, may: impl Fn(&C) -> bool) -> Option<ConnId> {
        let account = |entry: &Entry<C>| entry.is_open() && may(&entry.connection);
        self.admission.pick(now, host, &self.table, |entry| account(entry).then_some(&entry.account))
    }

    /// Adds a connection from that host. `speaks`: it has to begin with a message soon, and has no handshake with a deadline
    /// of its own.
    pub fn add(&mut self, now: Time, host: IpAddr, speaks: bool, connection: C) -> ConnId {
        self.wake_by(connection.deadline());
        let account = self.admission.open(now, host, speaks);
        self.table.insert(Entry::new(connection, account))
    }

    /// A name that no connection ever has, for something else that the driver watches.
    pub fn reserve(&mut self) -> ConnId {
        self.table.reserve()
    }

    /// How many connections there are, with those that are over and whose receive buffers are not back.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Is there no connection?
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The connection, unless it is over.
    #[inline]
    pub fn get(&mut self, conn: ConnId) -> Option<&mut C> {
        self.open(conn).map(|entry| &mut entry.connection)
    }

    /// The connection, unless it is over, and what it may still take.
    #[inline]
    pub fn get_with_allowance(&mut self, conn: ConnId) -> Option<(&mut C, Allowance<'_>)> {
        let entry = self.table.get_mut(conn).filter(|entry| entry.is_open())?;
        Some((&mut entry.connection, Allowance { admission: &self.admission, account: &entry.account }))
    }

    /// All connections that are not over.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &C)> {
        let open = self.table.iter().filter(|(_, entry)| entry.is_open());
        open.map(|(conn, entry)| (conn, &entry.connection))
    }

    /// All connections that are not over.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut C)> {
        let open = self.table.iter_mut().filter(|(_, entry)| entry.is_open());
        open.map(|(conn, entry)| (conn, &mut entry.connection))
    }

    #[inline]
    pub(super) fn open(&mut self, conn: ConnId) -> Option<&mut Entry<C>> {
        self.table.get_mut(conn).filter(|entry| entry.is_open())
    }

    /// Has the driver do something.
    pub fn push_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// The next thing that the driver is to do. It has done what it was told before.
    #[inline]
    pub fn next_action(&mut self) -> Option<Action> {
        if let Some(closed) = self.closing.take() {
            self.forget(closed);
        }
        let action = self.actions.pop_front();
        if let Some(Action::Close { conn }) = action {
            self.closing = Some(conn);
        }
        action
    }

    /// The driver has closed the connection: its name is free once the receive buffers are back.
    fn forget(&mut self, conn: ConnId) {
        let Some(entry) = self.table.get_mut(conn) else { return };
        entry.state = State::Closed;
        if !entry.has_lent() {
            self.table.remove(conn);
        }
    }

    /// Is there nothing that the driver is to do?
    pub fn is_idle(&self) -> bool {
        self.actions.is_empty()
    }

    /// Stops to read from all connections, or goes on.
    pub fn stall(&mut self, stalled: bool) {
        if std::mem::replace(&mut self.stalled, stalled) && !stalled {
            let open = self.table.iter().filter(|(_, entry)| entry.is_open());
            self.actions.extend(open.map(|(conn, _)| Action::Resume { conn }));
        }
    }

    /// Where the next bytes of a connection go.
    #[inline]
    pub fn landing(&mut self, conn: ConnId) -> Landing {
        let stalled = self.stalled;
        let reads = |entry: &&mut Entry<C>| !stalled && entry.reads() && entry.account.is_read();
        let Some(entry) = self.table.get_mut(conn).filter(reads) else { return Landing::default() };
        let mut landing = entry.connection.landing();
        landing.ahead = landing.ahead.min(self.admission.ahead(&entry.account));
        entry.lend(landing.places());
        landing
    }

    /// A receive buffer is back. `Some`: all buffers of the connection are back, and it is not over; the number is the sum
    /// of their bytes.
    pub fn landed(&mut self, now: Time, conn: ConnId, buffer: SegmentMut, filled: usize) -> Option<usize> {
        let entry = self.table.get_mut(conn)?;
        entry.connection.landed(now, buffer, filled);
        let came = entry.take_back(filled)?;
        match entry.state {
            State::Reading | State::Stopped => Some(came),
            State::Leaving | State::Closing => None,
            State::Closed => {
                self.table.remove(conn);
                None
            }
        }
    }

    /// `came` bytes have come on a connection: counts the message that has begun in them. `whole`: messages have ended in
    /// them. `Some`: unfinished messages take too much memory, and this connection is to be closed.
    pub fn progress(&mut self, now: Time, conn: ConnId, came: usize, whole: bool) -> Option<ConnId> {
        let entry = self.table.get_mut(conn).filter(|entry| entry.is_open())?;
        let unfinished = entry.connection.unfinished();
        let is_too_much = self.admission.progress(now, conn, &mut entry.account, came, whole, unfinished);
        self.admit(now);
        if is_too_much { self.heaviest() } else { None }
    }

    #[cold]
    fn heaviest(&self) -> Option<ConnId> {
        let open = self.table.iter().filter(|(_, entry)| entry.is_open());
        self.admission.heaviest(open.map(|(conn, entry)| (conn, &entry.account)))
    }

    /// Lets messages come in that waited for a slot.
    pub(super) fn admit(&mut self, now: Time) {
        while self.admission.is_anybody_waiting()
            && let Some(next) = self.admission.next_waiting()
        {
            let Some(entry) = self.table.get_mut(next).filter(|entry| entry.is_open()) else { continue };
            self.admission.grant(now, &mut entry.account);
            self.actions.push_back(Action::Resume { conn: next });
        }
    }

    /// Reads from a connection again, unless there still is a reason not to.
    pub fn read_again(&mut self, conn: ConnId) {
        if self.open(conn).is_some_and(|entry| entry.reads()) {
            self.actions.push_back(Action::Resume { conn });
        }
    }

    /// Tells the driver, once, if the connection has something to send, or messages that wait until that is sent.
    #[inline]
    pub fn announce(&mut self, conn: ConnId) {
        let Some(entry) = self.table.get_mut(conn).filter(|entry| entry.is_open()) else { return };
        if !entry.announced && (entry.connection.defers() || entry.connection.has_output()) {
            entry.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    /// Appends what a connection has to send to `out`, about `limit` bytes of it. `false`: it is over, and these were its
    /// last words.
    pub fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) -> bool {
        let Some(entry) = self.table.get_mut(conn) else { return false };
        if !entry.is_open() {
            out.append(std::mem::take(&mut entry.last_words));
            return false;
        }
        entry.connection.transmit(out, limit);
        // The driver asks again when all of it is sent.
        entry.given = out.len();
        // Only a driver that has got as much as it asked for asks again of itself.
        entry.announced = entry.connection.has_output();
        self.announce(conn);
        self.close_if_sent(now, conn);
        true
    }

    /// Reads nothing more from a connection, and closes it once its client has taken all replies.
    pub fn finish(&mut self, now: Time, conn: ConnId) {
        let Some(entry) = self.open(conn).filter(|entry| !entry.is_leaving()) else { return };
        if std::mem::replace(&mut entry.state, State::Leaving) == State::Stopped {
            self.stopped -= 1;
        }
        if let Some(entry) = self.table.get_mut(conn) {
            entry.connection.settle();
            self.admission.leave(now, &mut entry.account);
        }
        self.announce(conn);
        self.close_if_sent(now, conn);
    }

    fn close_if_sent(&mut self, now: Time, conn: ConnId) {
        if let Some(entry) = self.open(conn).filter(|entry| entry.is_leaving())
            && entry.given == 0
            && entry.connection.unsent() == 0
        {
            let words = entry.connection.last_words();
            self.close_after(now, conn, words);
        }
    }

    /// Closes a connection.
    pub fn close(&mut self, now: Time, conn: ConnId) {
        self.close_after(now, conn, List::new());
    }

    /// Closes a connection after these last words.
    pub fn close_after(&mut self, now: Time, conn: ConnId, last_words: List) {
        let Some(entry) = self.open(conn) else { return };
        entry.last_words = last_words;
        self.actions.push_back(Action::Close { conn });
        self.release(now, conn, State::Closing);
    }

    /// A connection is gone, and with it all that it held.
    pub fn end(&mut self, now: Time, conn: ConnId) {
        self.release(now, conn, State::Closed);
    }

    /// Gives back what a connection holds that is not over. From here on it is.
    fn release(&mut self, now: Time, conn: ConnId, state: State) {
        let Some(entry) = self.table.get_mut(conn).filter(|entry| entry.is_open()) else { return };
        if std::mem::replace(&mut entry.state, state) == State::Stopped {
            self.stopped -= 1;
        }
        entry.connection.closed();
        self.admission.close(conn, &mut entry.account);
        if state == State::Closed && !entry.has_lent() {
            self.table.remove(conn);
        }
        self.admit(now);
    }
}
