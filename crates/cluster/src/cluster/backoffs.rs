//! Clients that are asked to wait while a placement group cannot serve them.
//!
//! Requests to such a group are dropped, not kept: the client keeps them anyway, and sends them again when it is told
//! to. Source: ceph `doc/dev/rados-client-protocol.rst`, "Backoff"; `src/osd/PG.cc` (`add_backoff`,
//! `release_backoffs`), `src/osd/osd_types.h` (`struct Backoff`).

use onego_ceph::messages::{Backoff, BackoffOp};
use onego_ceph::types::{HObject, PgId, SpgId};

/// One client's groups that it must leave alone.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    /// The last number that was given.
    last: u64,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    pg: PgId,
    /// The group that must serve again first: `pg` itself, or one that holds what a request to `pg` copies.
    until: PgId,
    range: (HObject, HObject),
    /// The client has said that it knows.
    known: bool,
    /// The client was told to go on. Until it says that it had known to wait, requests still come that it sent before:
    /// they would be done before others that were dropped, which it sends again.
    over: bool,
}

impl Backoffs {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Is a request to this group to be dropped?
    pub(super) fn drops(&self, pg: PgId) -> bool {
        self.waiting.iter().any(|waiting| waiting.pg == pg)
    }

    /// The client is to leave a group alone, whose objects are in this range. What is to be sent to it.
    pub(super) fn block(&mut self, pg: PgId, until: PgId, range: (HObject, HObject), epoch: u32) -> Backoff {
        self.last += 1;
        self.waiting.push(Waiting {
            id: self.last,
            pg,
            until,
            range: range.clone(),
            known: false,
            over: false,
        });
        let (begin, end) = range;
        Backoff { pg: SpgId::whole(pg), epoch, op: BackoffOp::Block, id: self.last, begin, end }
    }

    /// The client says that it knows.
    pub(super) fn known(&mut self, id: u64) {
        self.waiting.retain_mut(|waiting| {
            waiting.known |= waiting.id == id;
            !(waiting.known && waiting.over)
        });
    }

    /// A group serves again, or elsewhere: returns the next message to a client that was asked to wait for it.
    pub(super) fn release(&mut self, until: PgId, epoch: u32) -> Option<Backoff> {
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.until == until && !waiting.over)?;
        waiting.over = true;
        let (begin, end) = waiting.range.clone();
        let (id, pg) = (waiting.id, waiting.pg);
        self.waiting.retain(|waiting| !(waiting.known && waiting.over));
        Some(Backoff { pg: SpgId::whole(pg), epoch, op: BackoffOp::Unblock, id, begin, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PG: PgId = PgId { pool: 1, seed: 3 };

    fn blocked() -> Backoffs {
        let mut backoffs = Backoffs::default();
        let block = backoffs.block(PG, PG, (HObject::min(), HObject::max()), 7);
        assert_eq!((block.op, block.id), (BackoffOp::Block, 1));
        backoffs
    }

    #[test]
    fn a_group_is_left_alone_until_it_is_released() {
        let mut backoffs = blocked();
        backoffs.known(1);
        assert!(backoffs.drops(PG) && !backoffs.drops(PgId { seed: 4, ..PG }));
        assert_eq!(backoffs.release(PG, 9).map(|unblock| unblock.id), Some(1));
        assert!(!backoffs.drops(PG) && backoffs.release(PG, 9).is_none());
    }

    #[test]
    fn all_groups_are_released_that_wait_for_another() {
        let mut backoffs = Backoffs::default();
        let (to, from) = ([PG, PgId { seed: 4, ..PG }], PgId { pool: 2, ..PG });
        for pg in to {
            backoffs.block(pg, from, (HObject::min(), HObject::max()), 7);
        }
        assert!(to.iter().all(|pg| backoffs.drops(*pg) && backoffs.release(*pg, 9).is_none()));
        let released = std::iter::from_fn(|| backoffs.release(from, 9));
        assert_eq!(released.map(|unblock| unblock.pg.pg).collect::<Vec<_>>(), to);
    }

    #[test]
    fn what_was_sent_before_the_client_knew_is_dropped_after_the_release_too() {
        let mut backoffs = blocked();
        assert!(backoffs.release(PG, 9).is_some());
        assert!(backoffs.drops(PG) && backoffs.release(PG, 9).is_none());
        backoffs.known(1);
        assert!(!backoffs.drops(PG));
    }
}
