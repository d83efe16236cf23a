//! Deadlines: those of the connections, and those of what clients hold.

use super::connection::ServerConnection;
use super::table::Connections;
use crate::admission::Look;
use onego_wire::{ConnId, Time};
use std::fmt;

/// Why a connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// Its client has stopped in the middle of a message, or sends it too slowly.
    Slow,
    /// Its client does not take its replies, and other clients need their memory.
    Stalled,
    /// Its client sends no more and does not take its replies.
    Left,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slow => "the client has stopped in the middle of a message, or sends it too slowly",
            Self::Stalled => "the client does not take its replies, and other clients need their memory",
            Self::Left => "the client has sent its last request, and has taken no replies for five minutes",
        })
    }
}

/// What a look at all connections has found.
#[derive(Debug)]
pub struct Review {
    /// Connections that are to be closed.
    pub give_up: Vec<(ConnId, GiveUp)>,
    /// Large messages that have had a slot for long enough, and since when they have it.
    turns: Vec<(Time, ConnId)>,
}

#[inline]
fn earliest(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl<C: ServerConnection> Connections<C> {
    /// Sees to it that a connection's deadline is not missed.
    #[inline]
    pub fn wake(&mut self, conn: ConnId) {
        let deadline = self.open(conn).and_then(|entry| entry.connection.deadline());
        self.wake_by(deadline);
    }

    #[inline]
    pub(super) fn wake_by(&mut self, deadline: Option<Time>) {
        self.wakeup = earliest(self.wakeup, deadline);
    }

    /// When [`timeout`](Self::timeout) and [`review`](Self::review) are to be called.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        earliest(self.wakeup, self.admission.deadline())
    }

    /// Tells the connections whose deadline has passed, and returns them: messages may have come of it, and output.
    pub fn timeout(&mut self, now: Time) -> Vec<ConnId> {
        let mut due = Vec::new();
        if self.wakeup.take_if(|wakeup| *wakeup <= now).is_none() {
            return due;
        }
        for (conn, entry) in self.table.iter_mut() {
            if !entry.is_open() || entry.is_leaving() {
                continue;
            }
            if entry.connection.deadline().is_some_and(|deadline| deadline <= now) {
                entry.connection.timeout(now);
                due.push(conn);
            }
            self.wakeup = earliest(self.wakeup, entry.connection.deadline());
        }
        due.iter().for_each(|conn| self.announce(*conn));
        due
    }

    /// Looks at all connections if it is time to. Those that are [given up](Review::give_up) are to be closed, and the
    /// review is to be [ended](Self::end_review) then.
    pub fn review(&mut self, now: Time) -> Option<Review> {
        if !self.admission.is_due(now) {
            return None;
        }
        let mut review = Review { give_up: Vec::new(), turns: Vec::new() };
        let (mut stalled, mut freed) = (Vec::new(), 0);
        for (conn, entry) in self.table.iter_mut().filter(|(_, entry)| entry.is_open()) {
            let reads = entry.reads() && !self.stalled;
            if !reads {
                entry.connection.settle();
            }
            match self.admission.look(now, &mut entry.account, reads) {
                Look::Fine => {}
                Look::Overdue => {
                    freed += entry.account.replies();
                    review.give_up.push((conn, GiveUp::Slow));
                }
                Look::Left => {
                    freed += entry.account.replies();
                    review.give_up.push((conn, GiveUp::Left));
                }
                Look::Stalled(held) => stalled.push((held, entry.account.replies(), conn)),
                Look::HadItsTurn(since) => review.turns.push((since, conn)),
            }
        }
        stalled.sort_unstable();
        while self.admission.excess_of_replies() > freed
            && let Some((_, replies, conn)) = stalled.pop()
        {
            freed += replies;
            review.give_up.push((conn, GiveUp::Stalled));
        }
        Some(review)
    }

    /// Has large messages that have had their turn make room for others. Returns the connections that are stopped: they
    /// are to be [resumed](Self::resume).
    pub fn end_review(&mut self, now: Time, mut review: Review) -> Vec<ConnId> {
        self.admission.turns_to_end(&mut review.turns);
        for (_, conn) in review.turns {
            if let Some(entry) = self.table.get_mut(conn).filter(|entry| entry.is_open()) {
                self.admission.end_turn(conn, &mut entry.account);
            }
        }
        self.admit(now);
        if self.stopped > 0 {
            self.admission.watch(now);
        }
        self.all_stopped()
    }
}
