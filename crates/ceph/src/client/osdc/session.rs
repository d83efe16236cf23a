//! The connection to one OSD, and what the OSD has asked for on it.

use crate::client::config::OsdConfig;
use crate::client::error::{Blame, Error};
use crate::messages::{Backoff, OsdOp};
use crate::types::{HObject, NOSNAP, SpgId};
use onego_msgr::addr::EntityAddr;
use onego_wire::{Backoff as Retry, ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Backoffs that an OSD may have in force. It sends one a placement group, or one an object that is being recovered:
/// 250 groups are many for an OSD, and it refuses work long before it recovers this many objects at once.
const MAX_BACKOFFS: usize = 1 << 16;

/// How long a connection is used with caution at first. One that lives so long does not end as soon as requests come;
/// and an OSD may have reasons to leave a request without a reply for long.
const CAUTION: Duration = Duration::from_millis(200);

/// How often that time doubles, as long as connections end without a message: a large request takes a while to arrive
/// at an OSD that will not have it.
const MAX_CAUTION_DOUBLINGS: u32 = 5;

/// Requests that may be sent at once when caution ends: a peer does not end connections because of a number like this.
const TRUSTED: u32 = 32;

/// The session with one OSD.
#[derive(Debug)]
pub(super) struct OsdSession {
    pub(super) addr: EntityAddr,
    pub(super) conn: Option<ConnId>,
    /// Messages may flow.
    pub(super) ready: bool,
    /// Connections that have failed since one has brought a message, and the wait before the next.
    retries: Retry,
    /// Why the last of them failed.
    failure: Option<Error>,
    /// When to open the next connection.
    pub(super) retry_at: Option<Time>,
    /// When a request was last sent.
    pub(super) used_at: Time,
    pub(super) backoffs: Backoffs,
    /// Did the last connection end before a message came, though messages could flow?
    was_barren: bool,
    /// Has no message come on this connection yet?
    unheard: bool,
    caution: Option<Caution>,
}

/// Behind a connection that ended before anything came of the requests on it, the next is not given all of them at once:
/// if it broke after the same number each time, there would never be a reply. It begins with one, and gets two for each message
/// that comes.
#[derive(Debug)]
struct Caution {
    /// Requests that may be sent.
    turns: u32,
    /// When it ends, whatever comes.
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
            caution: None,
        }
    }

    /// Messages may flow.
    pub(super) fn begin(&mut self, now: Time) {
        self.ready = true;
        self.unheard = true;
        self.used_at = now;
        let patience = CAUTION * (1 << self.retries.failures().min(MAX_CAUTION_DOUBLINGS));
        self.caution = self.was_barren.then_some(Caution { turns: 1, until: now + patience });
    }

    /// A message has come: the connection is good. `true`: requests that were held back may be sent.
    #[inline]
    pub(super) fn heard(&mut self) -> bool {
        self.retries.reset();
        self.was_barren = false;
        self.unheard = false;
        let Some(caution) = &mut self.caution else { return false };
        caution.turns += 2;
        self.caution.take_if(|caution| caution.turns >= TRUSTED);
        true
    }

    /// May one more request be sent? If so, it is.
    #[inline]
    pub(super) fn take_turn(&mut self) -> bool {
        let Some(caution) = &mut self.caution else { return true };
        let is_left = caution.turns > 0;
        caution.turns = caution.turns.saturating_sub(1);
        is_left
    }

    /// When caution ends, if there is any.
    pub(super) fn careful_until(&self) -> Option<Time> {
        self.caution.as_ref().map(|caution| caution.until)
    }

    /// Ends caution whose time is over. `true`: it was.
    pub(super) fn relax(&mut self, now: Time) -> bool {
        self.caution.take_if(|caution| caution.until <= now).is_some()
    }

    /// Why the last connection failed, if none has brought a message since.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref().filter(|_| self.retries.failures() > 0)
    }

    /// May the requests that were sent be why the connection has ended with this error: could messages flow, and is it an
    /// end that the OSD chose, or that a message of its brought about?
    pub(super) fn blames_requests(&self, error: &Error) -> bool {
        let chosen = match error {
            Error::Io(_) | Error::Connection(onego_msgr::Error::Closed) => self.unheard,
            error => error.blame() == Blame::Peer,
        };
        self.ready && chosen
    }

    /// The request that ended one connection after the other is given up: what comes next starts afresh.
    pub(super) fn absolve(&mut self, now: Time) {
        self.retries.reset();
        self.retry_at = Some(now);
    }

    /// The connection is over. The OSD forgets its backoffs with it (rados-client-protocol.rst, "Backoff").
    pub(super) fn lost(&mut self, now: Time, error: Error, random: u64) {
        self.conn = None;
        let blames_peer = error.blame() == Blame::Peer;
        self.failure = Some(error);
        self.backoffs = Backoffs::default();
        self.caution = None;
        let was_ready = std::mem::take(&mut self.ready);
        self.was_barren |= was_ready && (self.retries.failures() > 0 || blames_peer);
        // The first time at once: mostly it was an accident.
        let is_first = self.retries.failures() == 0;
        let wait = self.retries.fail(random);
        self.retry_at = Some(if is_first { now } else { now + wait });
    }
}

/// The ranges of objects that an OSD does not want requests to.
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
    /// Does none apply to anything?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes one.
    pub(super) fn block(&mut self, backoff: Backoff) -> Result<(), Error> {
        if self.count >= MAX_BACKOFFS {
            return Err(Error::Mismatch("there are too many backoffs"));
        }
        let Backoff { pg, id, begin, end, .. } = backoff;
        self.ranges.entry(pg).or_default().push(Range { id, begin, end });
        self.count += 1;
        Ok(())
    }

    /// Lifts one. By its id alone: its group may have been split on the OSD.
    pub(super) fn unblock(&mut self, id: u64) {
        for ranges in self.ranges.values_mut() {
            let before = ranges.len();
            ranges.retain(|range| range.id != id);
            self.count -= before - ranges.len();
        }
        self.ranges.retain(|_, ranges| !ranges.is_empty());
    }

    /// Is a request to be held back?
    pub(super) fn hold(&self, message: &OsdOp) -> bool {
        self.ranges.get(&message.pg).is_some_and(|ranges| {
            let object = object_of(message);
            ranges.iter().any(|range| contains(&range.begin, &range.end, &object))
        })
    }
}

/// The object that a request is to, as it sorts within its group.
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

/// Is the object in the range? `begin == end` is that one object.
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
    fn a_range_has_its_begin_and_not_its_end() {
        let (a, b, c) = (object("a"), object("b"), object("c"));
        assert!(contains(&a, &c, &a) && contains(&a, &c, &b) && !contains(&a, &c, &c));
        assert!(contains(&b, &b, &b) && !contains(&b, &b, &c));
    }

    #[test]
    fn a_backoff_is_lifted_by_its_id() {
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
    fn waits_between_connections_grow_to_their_bound() {
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
            // Whether messages could flow makes no difference: none came.
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
    fn behind_a_barren_connection_requests_come_one_by_one_at_first() {
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
        let until = session.careful_until().unwrap();
        assert!(until > now + CAUTION, "caution lasts longer each time");
        assert!(!session.relax(now) && session.relax(until));
        assert_eq!(turns(&mut session), 100);
    }

    #[test]
    fn an_end_that_the_osd_chose_before_it_said_anything_is_blamed_on_the_requests() {
        let (config, now) = (OsdConfig::default(), Time::default());
        let mut session = OsdSession::new(EntityAddr::default(), now, &config);
        let silent = Error::Connection(onego_msgr::Error::Silent(CAUTION));
        let too_long = Error::Connection(onego_msgr::Error::TooLong { what: "payload", len: 2, bound: 1 });
        assert!(!session.blames_requests(&broken()), "it was not open");
        session.begin(now);
        assert!(session.blames_requests(&broken()) && session.blames_requests(&too_long));
        assert!(!session.blames_requests(&silent));
        session.heard();
        assert!(!session.blames_requests(&broken()) && session.blames_requests(&too_long));
    }
}
