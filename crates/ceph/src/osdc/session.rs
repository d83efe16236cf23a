//! The connection to one OSD, and what the OSD has asked for on it.

use crate::addr::EntityAddr;
use crate::client::{Error, OsdConfig};
use crate::messages::{Backoff, OsdOp};
use crate::types::{HObject, NOSNAP, SpgId};
use onego_wire::{ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Backoffs that an OSD may have in force. It sends one a placement group, or one an object that is being recovered:
/// 250 groups are many for an OSD, and it refuses work long before it recovers so many objects at once.
const MAX_BACKOFFS: usize = 1 << 16;

/// How long a connection is used with caution at most. One that lives so long does not end as soon as requests come;
/// and an OSD may have reasons to leave a request without a reply for long.
const CAUTION: Duration = Duration::from_millis(200);

/// Requests that may be sent at once when caution ends: nobody ends connections that carry so many.
const TRUSTED: u32 = 32;

/// The session with one OSD.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) addr: EntityAddr,
    pub(super) conn: Option<ConnId>,
    /// Messages may flow.
    pub(super) ready: bool,
    /// Connections that have failed since one has brought a message.
    failures: u32,
    /// Why the last of them failed.
    failure: Option<Error>,
    /// When to open the next connection.
    pub(super) retry_at: Option<Time>,
    /// When a request was last sent.
    pub(super) used_at: Time,
    pub(super) backoffs: Backoffs,
    /// Did the last connection end before a message came, though messages could flow?
    was_barren: bool,
    caution: Option<Caution>,
}

/// Behind a connection that ended before anything came of the requests on it, the next is not given all of them at once:
/// if it breaks after so many each time, there would never be a reply. It begins with one, and gets two for each message
/// that comes.
#[derive(Debug)]
struct Caution {
    /// Requests that may be sent.
    turns: u32,
    /// When it ends, whatever comes.
    until: Time,
}

impl Session {
    pub(super) fn new(addr: EntityAddr, now: Time) -> Self {
        Self {
            addr,
            conn: None,
            ready: false,
            failures: 0,
            failure: None,
            retry_at: None,
            used_at: now,
            backoffs: Backoffs::default(),
            was_barren: false,
            caution: None,
        }
    }

    /// Messages may flow.
    pub(super) fn begin(&mut self, now: Time) {
        self.ready = true;
        self.used_at = now;
        self.caution = self.was_barren.then_some(Caution { turns: 1, until: now + CAUTION });
    }

    /// A message has come: the connection is good. `true`: requests that were held back may be sent.
    #[inline]
    pub(super) fn heard(&mut self) -> bool {
        self.failures = 0;
        self.was_barren = false;
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
        self.failure.as_ref().filter(|_| self.failures > 0)
    }

    /// The connection is over. The OSD forgets its backoffs with it (rados-client-protocol.rst, "Backoff").
    pub(super) fn lost(&mut self, now: Time, config: &OsdConfig, error: Error) {
        self.conn = None;
        self.failure = Some(error);
        self.backoffs = Backoffs::default();
        self.caution = None;
        let was_ready = std::mem::take(&mut self.ready);
        self.was_barren |= was_ready && self.failures > 0;
        // The first time at once: mostly it was an accident.
        let wait = match self.failures {
            0 => Duration::ZERO,
            _ if was_ready => config.reconnect,
            n => config.reconnect.saturating_mul(1 << (n - 1).min(16)).min(config.reconnect_max),
        };
        self.retry_at = Some(now + wait);
        self.failures = if was_ready { 1 } else { self.failures.saturating_add(1) };
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
        let config = OsdConfig::default();
        let mut session = Session::new(EntityAddr::default(), Time::default());
        let mut wait = || {
            session.lost(Time::default(), &config, broken());
            session.retry_at.unwrap().since(Time::default())
        };
        assert_eq!([wait(), wait(), wait()], [0, 1, 2].map(|n| config.reconnect * n));
        for _ in 0..40 {
            wait();
        }
        assert_eq!(wait(), config.reconnect_max);
    }

    #[test]
    fn behind_a_barren_connection_requests_come_one_by_one_at_first() {
        let (config, now) = (OsdConfig::default(), Time::default());
        let mut session = Session::new(EntityAddr::default(), now);
        let turns = |session: &mut Session| (0..100).filter(|_| session.take_turn()).count();
        session.begin(now);
        assert_eq!(turns(&mut session), 100);
        session.lost(now, &config, broken());
        session.begin(now);
        assert_eq!(turns(&mut session), 100, "the first time it may be an accident");
        session.lost(now, &config, broken());
        session.begin(now);
        assert_eq!(turns(&mut session), 1);
        assert!(session.heard());
        assert_eq!(turns(&mut session), 2);
        session.lost(now, &config, broken());
        session.begin(now);
        assert_eq!(turns(&mut session), 100, "there was a reply");
        session.lost(now, &config, broken());
        session.begin(now);
        assert_eq!(turns(&mut session), 1);
        assert_eq!(session.careful_until(), Some(now + CAUTION));
        assert!(!session.relax(now) && session.relax(now + CAUTION));
        assert_eq!(turns(&mut session), 100);
    }

    #[test]
    fn behind_connections_that_work_there_are_short_waits() {
        let config = OsdConfig::default();
        let mut session = Session::new(EntityAddr::default(), Time::default());
        let mut wait = |ready, heard| {
            session.ready = ready;
            if heard {
                session.heard();
            }
            session.lost(Time::default(), &config, broken());
            session.retry_at.unwrap().since(Time::default())
        };
        assert_eq!(
            [wait(true, false), wait(true, true), wait(true, false)],
            [Duration::ZERO, Duration::ZERO, config.reconnect]
        );
        assert_eq!([wait(true, false), wait(false, false)], [config.reconnect, config.reconnect]);
        assert_eq!([wait(false, false), wait(true, false)], [config.reconnect * 2, config.reconnect]);
    }
}
