//! Replies that wait: a connection with too many of them is stopped until some are gone.
//!
//! Which ones are too many for one connection is the protocol's. What all connections may hold together is
//! [`Allowance::may_answer`]'s.

use super::connection::ServerConnection;
use super::entry::{Allowance, State};
use super::table::Connections;
use onego_wire::{ConnId, Time};

impl<C: ServerConnection> Connections<C> {
    /// Counts again what waits to be sent on a connection. Returns the connection, and what it may still take.
    #[inline]
    pub fn count_replies(&mut self, now: Time, conn: ConnId) -> Option<(&C, Allowance<'_>)> {
        let entry = self.table.get_mut(conn).filter(|entry| entry.is_open())?;
        let waiting = entry.connection.unsent() + entry.given;
        self.admission.count_replies(now, &mut entry.account, waiting, entry.connection.to_come());
        Some((&entry.connection, Allowance { admission: &self.admission, account: &entry.account }))
    }

    /// Do replies take so little memory that no connection has to stop for it?
    #[inline]
    pub fn has_room_for_replies(&self) -> bool {
        self.admission.has_room_for_replies()
    }

    /// Bytes of all replies that wait, as they were counted last, and of those that are still to be made.
    pub fn replies(&self) -> usize {
        self.admission.replies()
    }

    /// Stops a connection: nothing is read from it.
    pub fn stop(&mut self, now: Time, conn: ConnId) {
        let Some(entry) = self.open(conn).filter(|entry| entry.state == State::Reading) else { return };
        entry.state = State::Stopped;
        entry.connection.settle();
        entry.connection.stopped(now, true);
        self.stopped += 1;
        self.admission.watch(now);
    }

    /// Is that connection stopped?
    pub fn is_stopped(&self, conn: ConnId) -> bool {
        self.table.get(conn).is_some_and(|entry| entry.state == State::Stopped)
    }

    /// Is any connection stopped?
    #[inline]
    pub fn has_stopped(&self) -> bool {
        self.stopped > 0
    }

    /// All connections that are stopped.
    pub fn all_stopped(&self) -> Vec<ConnId> {
        if self.stopped == 0 {
            return Vec::new();
        }
        let stopped = self.table.iter().filter(|(_, entry)| entry.state == State::Stopped);
        stopped.map(|(conn, _)| conn).collect()
    }

    /// Replies of `conn` are gone. The stopped connections that this may let go on: all if there was no room for replies
    /// before (`had_room`) and is now, else itself. They are to be [resumed](Self::resume).
    pub fn all_to_resume(&self, conn: ConnId, had_room: bool) -> Vec<ConnId> {
        match !had_room && self.has_room_for_replies() {
            true => self.all_stopped(),
            false => self.is_stopped(conn).then_some(conn).into_iter().collect(),
        }
    }

    /// Lets a connection that is stopped go on if it `may`, and says whether it does. Then messages that are here are to be
    /// handled, and it is to be [read again](Self::read_again).
    pub fn resume(&mut self, now: Time, conn: ConnId, may: impl FnOnce(&C, Allowance<'_>) -> bool) -> bool {
        let Some(entry) = self.table.get_mut(conn).filter(|entry| entry.state == State::Stopped) else {
            return false;
        };
        let allowance = Allowance { admission: &self.admission, account: &entry.account };
        let goes_on = may(&entry.connection, allowance);
        if goes_on {
            entry.state = State::Reading;
            entry.connection.stopped(now, false);
            self.stopped -= 1;
        }
        goes_on
    }
}
