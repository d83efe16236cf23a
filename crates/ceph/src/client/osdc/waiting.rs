//! Targets and causes of requests' waits.

use super::objects::Objecter;
use super::table::{NOBODY, Owner, PendingOp};
use crate::client::awaited::Awaited;
use crate::client::error::{Error, Waiting};
use crate::osdmap::pool_flag;
use onego_wire::Time;

impl<T> Objecter<T> {
    pub(crate) fn waiting(&self, now: Time) -> Option<Waiting> {
        let of_somebody = |op: &&PendingOp<T>| !matches!(op.owner, Owner::Nobody | Owner::Ping(_));

        let oldest = self.table.iter().filter(of_somebody).min_by_key(|op| op.since);
        oldest.map(|op| self.explain(now, op))
    }

    /// Returns whether a reply is expected from an OSD that is reachable, as far as known.
    pub(crate) fn expects_reply(&self) -> bool {
        self.table.iter().any(|op| match self.awaited(op) {
            (Awaited::Reply { .. }, _) => true,
            (Awaited::Osd { .. }, failure) => failure.is_none(),
            _ => false,
        })
    }

    pub(super) fn explain(&self, now: Time, op: &PendingOp<T>) -> Waiting {
        let (target, cause) = self.awaited(op);
        let cause = cause.cloned().map(Box::new);
        Waiting { target, elapsed: now.since(op.since), cause }
    }

    fn awaited(&self, op: &PendingOp<T>) -> (Awaited, Option<&Error>) {
        let (osd, pg) = (op.osd, op.message.pg.pg);
        if self.targets.map().is_none() {
            return (Awaited::OsdMap, None);
        }
        if op.no_pool {
            return (Awaited::Pool(op.pool), None);
        }
        if osd == NOBODY {
            return (Awaited::Primary(pg), None);
        }
        if op.paused {
            return (self.pause(pg.pool), None);
        }
        let addr = self.targets.addr(osd);
        let session = usize::try_from(osd).ok().and_then(|at| self.sessions.get(at)?.as_deref());
        let failure = session.and_then(|session| session.failure());
        match session {
            Some(session) if session.ready && op.sent_on.is_some() => (Awaited::Reply { osd, addr }, failure),
            Some(session) if session.ready && session.backoffs.hold(&op.message) => {
                (Awaited::Backoff { osd, pg }, None)
            }
            _ => (Awaited::Osd { osd, addr }, failure),
        }
    }

    fn pause(&self, pool: i64) -> Awaited {
        let map = self.targets.map();
        match map.and_then(|map| Some((map.pool_names.get(&pool)?, map.pools.get(&pool)?))) {
            Some((name, known)) if self.targets.is_full(pool) => {
                Awaited::Room { pool: name.clone(), quota: known.flags & pool_flag::FULL_QUOTA != 0 }
            }
            _ => Awaited::Unpause,
        }
    }
}
