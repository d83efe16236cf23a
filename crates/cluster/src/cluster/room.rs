//! Room for replies: a request is carried out once its reply is sure to fit.
//!
//! A request whose reply may be larger than there is room for is parked, and nothing is read from its connection
//! meanwhile. What the connection has sent counts as an unfinished message. Large replies take turns among addresses; small
//! ones are admitted by [`onego_service::admission`]. While large ones wait, connections that hardly take their replies are
//! closed.

use super::connections::{BOUNDS, ClusterConnection, ClusterConnections};
use super::requests::Request;
use onego_msgr::{Event, Message};
use onego_service::connections::Allowance;
use onego_wire::{ConnId, Time};
use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Bytes of a reply that any connection may have made at any time: acknowledgements of writes, watches and locks.
const TINY: usize = 4 << 10;

/// Bytes of all replies up to which large ones are made. The rest is for small ones. The largest reply fits.
const FOR_LARGE: usize = BOUNDS.replies / 4 * 3;
const _: () = assert!(crate::osd::MAX_REPLY <= FOR_LARGE);

/// Bytes that a connection has to take in [`STALL`]; the same rate as that of unfinished messages.
const TAKES: usize = 40 << 10;

/// Time after which a connection that takes less than [`TAKES`] gives way to large replies.
const STALL: Duration = Duration::from_secs(10);

/// Work that waits until its reply has room.
#[derive(Debug)]
pub(super) enum Work {
    Request(Box<Request>),
    Message(Box<Message>),
    /// The newest map, for a subscriber.
    Map,
}

#[derive(Debug)]
pub(super) struct Parked {
    work: Work,
    /// Bytes of its reply.
    bound: usize,
    since: Time,
}

/// Next thing to handle on a connection.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are events, and a box would cost each of them an allocation"
)]
pub(super) enum Next {
    Event(Event),
    /// It was parked, since that time.
    Again(Work, Time),
}

/// A connection's part of the room for replies.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Bytes of replies that the journal keeps.
    pub(super) promised: usize,
    /// Bytes that are counted: of replies that wait, and of those that the journal keeps.
    counted: usize,
    /// Bytes taken since then; counted from zero again when nothing waits.
    taken: usize,
    since: Time,
    pub(super) parked: Option<Parked>,
    /// Bytes received since no message waited.
    pub(super) backlog: usize,
    pub(super) counts_backlog: bool,
}

impl Holding {
    fn count(&mut self, now: Time, bytes: usize) {
        self.taken += self.counted.saturating_sub(bytes);
        if self.counted == 0 || self.taken >= TAKES {
            (self.taken, self.since) = (0, now);
        }
        self.counted = bytes;
    }

    fn is_stalled(&self, now: Time) -> bool {
        self.counted > self.promised && now.since(self.since) >= STALL
    }

    fn waits_for_large(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| is_large(parked.bound))
    }
}

fn is_large(bound: usize) -> bool {
    bound > BOUNDS.reply_max
}

/// Returns whether a large reply of `bound` bytes fits next to all `replies`.
fn fits_large(replies: usize, bound: usize) -> bool {
    replies + bound <= FOR_LARGE
}

/// Large replies that wait for room.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Connections with a large reply that waits for room.
    waiting: usize,
    /// Bytes of a large reply for which there was no room.
    wanted: Option<usize>,
}

impl ClusterConnections {
    /// Returns whether a reply of at most `bound` bytes may be made on a connection. `is_parked`: it has waited for that.
    #[inline]
    pub(super) fn may_reply(&mut self, conn: ConnId, bound: usize, is_parked: bool) -> bool {
        bound <= TINY || self.has_room(conn, bound, is_parked)
    }

    fn has_room(&mut self, conn: ConnId, bound: usize, is_parked: bool) -> bool {
        if is_large(bound) {
            let fits = (is_parked || self.room.waiting == 0) && fits_large(self.table.replies(), bound);
            self.room.wanted = if fits { self.room.wanted } else { Some(bound) };
            return fits;
        }
        self.table.get_with_allowance(conn).is_none_or(|(_, allowance)| allowance.may_answer())
    }

    /// Returns whether work of a connection waits for room.
    pub(super) fn is_parked(&mut self, conn: ConnId) -> bool {
        self.get(conn).is_some_and(|connection| connection.holding.parked.is_some())
    }

    /// Parks work until there is room for `bound` bytes of its reply.
    pub(super) fn park(&mut self, now: Time, conn: ConnId, work: Work, bound: usize, since: Time) {
        let Some(connection) = self.get(conn) else { return };
        if let Work::Request(request) = &work {
            connection.holding.backlog += request.overhead();
        }
        connection.holding.parked = Some(Parked { work, bound, since });
        self.room.waiting += usize::from(is_large(bound));
        self.table.stop(now, conn);
    }

    /// Returns what to handle next on a connection that is not stopped.
    pub(super) fn next(&mut self, conn: ConnId) -> Option<Next> {
        let connection = self.get(conn).filter(|connection| !connection.is_stopped)?;
        let Some(parked) = connection.holding.parked.take() else {
            return connection.poll().map(Next::Event);
        };
        self.room.waiting -= usize::from(is_large(parked.bound));
        Some(Next::Again(parked.work, parked.since))
    }

    /// Counts the messages that wait on a connection as unfinished, or no longer. `Some`: see
    /// [`received`](Self::received).
    pub(super) fn count_backlog(&mut self, now: Time, conn: ConnId) -> Option<ConnId> {
        let connection = self.get(conn)?;
        let waits = connection.has_work();
        let holding = &mut connection.holding;
        if !waits {
            holding.backlog = 0;
        }
        // Those that only wait for a send are handled in this turn of the driver.
        let counts = waits && connection.is_stopped;
        if !counts && !holding.counts_backlog {
            return None;
        }
        holding.counts_backlog = counts;
        self.table.progress(now, conn, 0, false)
    }

    /// Counts what a connection holds of the room for replies.
    pub(super) fn count_room(&mut self, now: Time, conn: ConnId, waiting: usize) {
        let Some(connection) = self.table.get(conn) else { return };
        let holding = &mut connection.holding;
        holding.count(now, waiting + holding.promised);
    }

    /// The journal keeps a reply of `bytes` bytes, or no longer.
    pub(super) fn promise(&mut self, now: Time, conn: ConnId, change: impl FnOnce(usize) -> usize) {
        let Some(connection) = self.table.get(conn) else { return };
        connection.holding.promised = change(connection.holding.promised);
        self.count_replies(now, conn);
    }

    /// Forgets what a connection that ends holds.
    pub(super) fn release_room(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get(conn) else { return };
        let holding = std::mem::take(&mut connection.holding);
        self.room.waiting -= usize::from(holding.waits_for_large());
    }

    /// Returns whether a stopped connection may go on.
    pub(super) fn may_resume(connection: &ClusterConnection, allowance: Allowance<'_>) -> bool {
        let is_within = connection.is_within(2);
        match &connection.holding.parked {
            Some(parked) if is_large(parked.bound) => {
                is_within && fits_large(allowance.replies(), parked.bound)
            }
            Some(parked) => is_within && (allowance.may_answer() || parked.bound <= TINY),
            None => (is_within && allowance.may_answer()) || allowance.waiting() == 0,
        }
    }

    /// Sorts connections that are stopped: those with large replies come by what their addresses hold, then by the time for
    /// which they wait.
    pub(super) fn sort_by_turn(&mut self, stopped: &mut [ConnId]) {
        if self.room.waiting < 2 {
            return;
        }
        let mut held: FxHashMap<IpAddr, usize> = FxHashMap::default();
        for (_, connection) in self.table.iter() {
            *held.entry(onego_service::admission::address(connection.from)).or_default() +=
                connection.holding.counted;
        }
        stopped.sort_by_cached_key(|conn| {
            let connection = self.table.get(*conn)?;
            let parked = connection.holding.parked.as_ref().filter(|parked| is_large(parked.bound))?;
            Some((held[&onego_service::admission::address(connection.from)], parked.since))
        });
    }

    /// Returns the connections that give way to large replies: those that hardly take theirs, the largest first, until one
    /// more reply fits.
    pub(super) fn stalled(&mut self, now: Time) -> Vec<ConnId> {
        let parked = self.table.iter().filter_map(|(_, connection)| connection.holding.parked.as_ref());
        let parked = parked.map(|parked| parked.bound).filter(|bound| is_large(*bound));
        let wanted = parked.chain(self.room.wanted.take()).min();
        let replies = self.table.replies();
        let Some(wanted) = wanted.filter(|wanted| !fits_large(replies, *wanted)) else { return Vec::new() };
        let stalled = self.table.iter().filter(|(_, connection)| connection.holding.is_stalled(now));
        let mut stalled: Vec<_> = stalled.map(|(conn, it)| (it.holding.counted, conn)).collect();
        stalled.sort_unstable();
        let mut excess = (replies + wanted).saturating_sub(FOR_LARGE);
        let mut give_way = Vec::new();
        while excess > 0
            && let Some((bytes, conn)) = stalled.pop()
        {
            excess = excess.saturating_sub(bytes);
            give_way.push(conn);
        }
        give_way
    }
}
