//! The session with one OSD: its connection and backoffs.

use crate::client::config::OsdConfig;
use crate::client::error::{Blame, Error};
use crate::messages::{Backoff, OsdOp};
use crate::types::{HObject, NOSNAP, SpgId};
use onego_msgr::addr::EntityAddr;
use onego_wire::{Backoff as Retry, ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of backoffs of an OSD. It sends one per placement group, or one per object in recovery:
/// an OSD rarely has 250 groups, and rejects requests long before it recovers this many objects at once.
const MAX_BACKOFFS: usize = 1 << 16;

/// Initial duration of a slow start. A connection that lives longer does not end because of the first requests;
/// and an OSD may have reasons not to reply for long.
const SLOW_START: Duration = Duration::from_millis(200);

/// Doublings of that duration while connections end without a message: a large request takes a while to arrive
/// at an OSD that rejects it.
const MAX_SLOW_START_DOUBLINGS: u32 = 5;

/// Number of requests at which a slow start ends: a peer does not end connections because of that many.
const TRUSTED: u32 = 32;

#[derive(Debug)]
pub(super) struct OsdSession {
    pub(super) addr: EntityAddr,
    pub(super) conn: Option<ConnId>,
    pub(super) ready: bool,
    /// Consecutive connections that ended without a message, and the delay before the next.
    retries: Retry,
    failure: Option<Error>,
    pub(super) retry_at: Option<Time>,
    pub(super) used_at: Time,
    pub(super) backoffs: Backoffs,
    /// The last connection was ready, but ended before a message arrived.
    was_barren: bool,
    /// No message has arrived on this connection yet.
    unheard: bool,
    slow_start: Option<SlowStart>,
}

/// Slow start of a connection after one that ended without a reply: if connections always broke after the same number of
/// requests, there would never be a reply. It admits one request, and two more for each message that arrives.
#[derive(Debug)]
struct SlowStart {
    turns: u32,
    until: Time,
}

impl OsdSession {
    pub(super) fn new(addr: EntityAddr, now: Time, config: &OsdConfig) -> Self {
        Self {
            addr,
            conn: None,
            ready: false,
            retries: Retry::new(config.reconnect, config.reconnect_max),
            failure: None,
            retry_at: None,
            used_at: now,
            backoffs: Backoffs::default(),
            was_barren: false,
            unheard: true,
            slow_start: None,
        }
    }

    pub(super) fn begin(&mut self, now: Time) {
        self.ready = true;
        self.unheard = true;
        self.used_at = now;
        let patience = SLOW_START * (1 << self.retries.failures().min(MAX_SLOW_START_DOUBLINGS));
        self.slow_start = self.was_barren.then_some(SlowStart { turns: 1, until: now + patience });
    }

    /// Handles a message: the connection works. Returns whether requests that were held back may be sent.
    #[inline]
    pub(super) fn heard(&mut self) -> bool {
        self.retries.reset();
        self.was_barren = false;
        self.unheard = false;
        let Some(slow_start) = &mut self.slow_start else { return false };
        slow_start.turns += 2;
        self.slow_start.take_if(|slow_start| slow_start.turns >= TRUSTED);
        true
    }

    /// Takes a turn of the slow start. Returns whether there was one.
    #[inline]
    pub(super) fn take_turn(&mut self) -> bool {
        let Some(slow_start) = &mut self.slow_start else { return true };
        let is_left = slow_start.turns > 0;
        slow_start.turns = slow_start.turns.saturating_sub(1);
        is_left
    }

    pub(super) fn slow_start_until(&self) -> Option<Time> {
        self.slow_start.as_ref().map(|slow_start| slow_start.until)
    }

    pub(super) fn end_slow_start(&mut self, now: Time) -> bool {
        self.slow_start.take_if(|slow_start| slow_start.until <= now).is_some()
    }

    /// Returns the error of the last connection, if no message has arrived since.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref().filter(|_| self.retries.failures() > 0)
    }

    /// Returns whether the requests may be the reason for the connection's end with this error: it was ready, and the OSD
    /// closed it or sent an invalid message.
    pub(super) fn blames_requests(&self, error: &Error) -> bool {
        let chosen = match error {
            Error::Io(_) | Error::Connection(onego_msgr::Error::Closed) => self.unheard,
            error => error.blame() == Blame::Peer,
        };
        self.ready && chosen
    }

    /// Resets the backoff: the request that ended the last connections was given up.
    pub(super) fn reset_backoff(&mut self, now: Time) {
        self.retries.reset();
        self.retry_at = Some(now);
    }

    /// Handles the end of the connection. The OSD forgets its backoffs with it (rados-client-protocol.rst, "Backoff").
    pub(super) fn lost(&mut self, now: Time, error: Error, random: u64) {
        self.conn = None;
        let blames_peer = error.blame() == Blame::Peer;
        self.failure = Some(error);
        self.backoffs = Backoffs::default();
        self.slow_start = None;
        let was_ready = std::mem::take(&mut self.ready);
        self.was_barren |= was_ready && (self.retries.failures() > 0 || blames_peer);
        // At once the first time, which is usually an accident.
        let is_first = self.retries.failures() == 0;
        let wait = self.retries.fail(random);
        self.retry_at = Some(if is_first { now } else { now + wait });
    }
}

#[derive(Debug, Default)]
pub(super) struct Backoffs {
    ranges: BTreeMap<SpgId, Vec<Range>>,
    count: usize,
}

#[derive(Debug)]
struct Range {
    id: u64,
    begin: HObject,
    end: HObject,
}

impl Backoffs {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn block(&mut self, backoff: Backoff) -> Result<(), Error> {
        if self.count >= MAX_BACKOFFS {
            return Err(Error::Mismatch("there are too many backoffs"));
        }
        let Backoff { pg, id, begin, end, .. } = backoff;
        self.ranges.entry(pg).or_default().push(Range { id, begin, end });
        self.count += 1;
        Ok(())
    }

    /// Removes a backoff by its id only: the OSD may have split its group.
    pub(super) fn unblock(&mut self, id: u64) {
        for ranges in self.ranges.values_mut() {
            let before = ranges.len();
            ranges.retain(|range| range.id != id);
            self.count -= before - ranges.len();
        }
        self.ranges.retain(|_, ranges| !ranges.is_empty());
    }

    pub(super) fn hold(&self, message: &OsdOp) -> bool {
        self.ranges.get(&message.pg).is_some_and(|ranges| {
            let object = object_of(message);
            ranges.iter().any(|range| contains(&range.begin, &range.end, &object))
        })
    }
}

/// Returns a request's object, as it is sorted within its group.
pub(super) fn object_of(message: &OsdOp) -> HObject {
    HObject {
        key: message.locator.key.clone(),
        name: message.object.to_vec(),
        snap: NOSNAP,
        hash: message.hash,
        max: false,
        namespace: message.locator.namespace.clone(),
        pool: message.pg.pg.pool,
    }
}

/// Returns whether the object is in the range; `begin == end` is a range of one object.
pub(super) fn contains(begin: &HObject, end: &HObject, object: &HObject) -> bool {
    object == begin || (begin < object && object < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::BackoffOp;
    use crate::types::PgId;

    fn broken() -> Error {
        Error::Io(std::io::ErrorKind::ConnectionReset)
    }

    fn object(name: &str) -> HObject {
        HObject { name: name.into(), snap: NOSNAP, pool: 1, ..HObject::min() }
    }

    #[test]
    fn a_range_includes_its_begin_and_excludes_its_end() {
        let (a, b, c) = (object("a"), object("b"), object("c"));
        assert!(contains(&a, &c, &a) && contains(&a, &c, &b) && !contains(&a, &c, &c));
        assert!(contains(&b, &b, &b) && !contains(&b, &b, &c));
    }

    #[test]
    fn a_backoff_is_removed_by_its_id() {
        let pg = SpgId::whole(PgId { pool: 1, seed: 0 });
        let block = |id, name: &str| Backoff {
            pg,
            epoch: 1,
            op: BackoffOp::Block,
            id,
            begin: object(name),
            end: object(name),
        };
        let mut backoffs = Backoffs::default();
        backoffs.block(block(1, "a")).unwrap();
        backoffs.block(block(2, "b")).unwrap();
        backoffs.unblock(1);
        assert!(!backoffs.is_empty());
        backoffs.unblock(2);
        assert!(backoffs.is_empty());
    }

    #[test]
    fn reconnect_delays_grow_to_their_limit() {
        let (config, now) = (OsdConfig::default(), Time::default());
        let mut session = OsdSession::new(EntityAddr::default(), now, &config);
        let mut wait = |ready| {
            session.ready = ready;
            session.lost(now, broken(), u64::MAX);
            session.retry_at.unwrap().since(now)
        };
        assert_eq!(wait(true), Duration::ZERO);
        let mut last = Duration::ZERO;
        for n in 0..40 {
            // It makes no difference whether the connection was ready: no message arrived.
            let next = wait(n % 2 == 0);
            assert!(next > last / 2 && next <= config.reconnect_max, "{next:?} after {last:?}");
            last = next;
        }
        assert!(last >= config.reconnect_max / 2, "{last:?}");
        session.heard();
        session.lost(now, broken(), 0);
        assert_eq!(session.retry_at, Some(now), "after a message all is well");
    }

    #[test]
    fn a_slow_start_follows_connections_without_a_message() {
        let (config, now) = (OsdConfig::default(), Time::default());
        let mut session = OsdSession::new(EntityAddr::default(), now, &config);
        let turns = |session: &mut OsdSession| (0..100).filter(|_| session.take_turn()).count();
        session.begin(now);
        assert_eq!(turns(&mut session), 100);
        session.lost(now, broken(), 0);
        session.begin(now);
        assert_eq!(turns(&mut session), 100, "the first time it may be an accident");
        session.lost(now, broken(), 0);
        session.begin(now);
        assert_eq!(turns(&mut session), 1);
        assert!(session.heard());
        assert_eq!(turns(&mut session), 2);
        session.lost(now, broken(), 0);
        session.begin(now);
        assert_eq!(turns(&mut session), 100, "there was a reply");
        session.lost(now, broken(), 0);
        session.begin(now);
        assert_eq!(turns(&mut session), 1);
        let until = session.slow_start_until().unwrap();
        assert!(until > now + SLOW_START, "slow_start lasts longer each time");
        assert!(!session.end_slow_start(now) && session.end_slow_start(until));
        assert_eq!(turns(&mut session), 100);
    }

    #[test]
    fn an_end_by_the_osd_without_a_message_is_blamed_on_the_requests() {
        let (config, now) = (OsdConfig::default(), Time::default());
        let mut session = OsdSession::new(EntityAddr::default(), now, &config);
        let silent = Error::Connection(onego_msgr::Error::Silent(SLOW_START));
        let too_long = Error::Connection(onego_msgr::Error::TooLong { what: "payload", len: 2, bound: 1 });
        assert!(!session.blames_requests(&broken()), "it was not open");
        session.begin(now);
        assert!(session.blames_requests(&broken()) && session.blames_requests(&too_long));
        assert!(!session.blames_requests(&silent));
        session.heard();
        assert!(!session.blames_requests(&broken()) && session.blames_requests(&too_long));
    }
}
