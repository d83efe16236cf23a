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

/// How long to wait behind a connection on which messages could flow but none came: an OSD that ends each as soon as
/// requests come is not to keep this side busy.
const BARREN: Duration = Duration::from_millis(10);

/// The session with one OSD.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) addr: EntityAddr,
    pub(super) conn: Option<ConnId>,
    /// Messages may flow.
    pub(super) ready: bool,
    /// Connections that have failed since one has brought a message.
    failures: u32,
    /// When to open the next connection.
    pub(super) retry_at: Option<Time>,
    /// When a request was last sent.
    pub(super) used_at: Time,
    pub(super) backoffs: Backoffs,
}

impl Session {
    pub(super) fn new(addr: EntityAddr, now: Time) -> Self {
        Self {
            addr,
            conn: None,
            ready: false,
            failures: 0,
            retry_at: None,
            used_at: now,
            backoffs: Backoffs::default(),
        }
    }

    /// A message has come: the connection is good.
    pub(super) fn heard(&mut self) {
        self.failures = 0;
    }

    /// The connection is over. The OSD forgets its backoffs with it (rados-client-protocol.rst, "Backoff").
    pub(super) fn lost(&mut self, now: Time, config: &OsdConfig) {
        self.conn = None;
        self.backoffs = Backoffs::default();
        let was_ready = std::mem::take(&mut self.ready);
        // The first time at once: mostly it was an accident.
        let wait = match self.failures {
            0 => Duration::ZERO,
            _ if was_ready => BARREN,
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
            session.lost(Time::default(), &config);
            session.retry_at.unwrap().since(Time::default())
        };
        assert_eq!([wait(), wait(), wait()], [0, 1, 2].map(|n| config.reconnect * n));
        for _ in 0..40 {
            wait();
        }
        assert_eq!(wait(), config.reconnect_max);
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
            session.lost(Time::default(), &config);
            session.retry_at.unwrap().since(Time::default())
        };
        assert_eq!(
            [wait(true, false), wait(true, true), wait(true, false)],
            [Duration::ZERO, Duration::ZERO, BARREN]
        );
        assert_eq!([wait(true, false), wait(false, false)], [BARREN, config.reconnect]);
        assert_eq!([wait(false, false), wait(true, false)], [config.reconnect * 2, BARREN]);
    }
}
