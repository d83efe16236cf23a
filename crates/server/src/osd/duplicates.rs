//! What became of recent writes, so that one that is sent again is answered again and not done again.
//!
//! A client sends a request again whenever it cannot know that it was done: after its connection broke, after the map
//! changed. As in Ceph, the outcomes belong to a placement group (`osd_pg_log_dups_tracked`: 3,000 of them, ceph
//! `src/osd/PGLog.h`), because any of its OSDs may be asked next; within it they are kept for each client, because that
//! is who sends again.

use onego_ceph::encoding::{Decode, Encode};
use onego_ceph::messages::OpResult;
use onego_ceph::types::{EVersion, EntityName, ReqId};
use onego_wire::{Decoded, Reader, Writer};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Outcomes kept for a client. It can send again only what is not answered, and Ceph's clients have at most 1,024
/// requests under way (`objecter_inflight_ops`).
const PER_CLIENT: usize = 4096;

/// Clients remembered, and outcomes of all of them together. A client that is forgotten was silent while others wrote.
const CLIENTS: usize = 256;
const ALL: usize = 4 * PER_CLIENT;

/// What became of a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    pub(crate) result: i32,
    pub(crate) version: EVersion,
    pub(crate) user_version: u64,
    /// What each operation gave, if the client wanted to know.
    pub(crate) ops: Option<Box<SmallVec<[OpResult; 2]>>>,
}

#[derive(Clone, Default)]
struct Client {
    /// By number. Clients count up, so what is new goes to the end, or close to it.
    done: VecDeque<(u64, Done)>,
    /// Counts up with each write of anybody.
    used: u64,
}

/// Outcomes of recent writes.
#[derive(Clone, Default)]
pub(crate) struct Duplicates {
    clients: FxHashMap<(EntityName, i32), Client>,
    /// Outcomes of all of them.
    len: usize,
    clock: u64,
}

impl Duplicates {
    /// What became of a request, if it was done before.
    pub(crate) fn find(&self, id: &ReqId) -> Option<&Done> {
        let done = &self.clients.get(&(id.name, id.inc))?.done;
        if done.back().is_none_or(|(newest, _)| *newest < id.tid) {
            return None;
        }
        let found = done.binary_search_by_key(&id.tid, |(tid, _)| *tid).ok()?;
        Some(&done[found].1)
    }

    /// Remembers what became of a request.
    pub(crate) fn record(&mut self, id: &ReqId, done: Done) {
        self.clock += 1;
        let key = (id.name, id.inc);
        let crowded = self.clients.len() >= CLIENTS && !self.clients.contains_key(&key);
        if crowded || self.len >= ALL {
            let others = self.clients.iter().filter(|(other, _)| **other != key);
            let oldest = others.min_by_key(|(_, client)| client.used).map(|(key, _)| *key);
            let forgotten = oldest.and_then(|oldest| self.clients.remove(&oldest));
            self.len -= forgotten.map_or(0, |client| client.done.len());
        }
        let client = self.clients.entry(key).or_default();
        client.used = self.clock;
        if client.done.len() == PER_CLIENT {
            client.done.pop_front();
            self.len -= 1;
        }
        self.len += 1;
        let behind = client.done.iter().rev().take_while(|(tid, _)| *tid > id.tid).count();
        client.done.insert(client.done.len() - behind, (id.tid, done));
    }

    /// Remembers what another group remembers too.
    pub(crate) fn merge(&mut self, other: Self) {
        for ((name, inc), client) in other.clients {
            for (tid, done) in client.done {
                self.record(&ReqId { name, tid, inc }, done);
            }
        }
    }
}

impl Encode for Duplicates {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.clock);
        w.count(self.clients.len());
        for ((name, inc), client) in &self.clients {
            name.encode(w);
            w.i32(*inc);
            w.u64(client.used);
            w.count(client.done.len());
            client.done.iter().for_each(|(tid, done)| {
                w.u64(*tid);
                done.encode(w);
            });
        }
    }
}

impl Decode for Duplicates {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let mut all = Self { clock: r.u64("clock")?, ..Self::default() };
        for _ in 0..r.count(1, "clients of a group")? {
            let key = (EntityName::decode(r)?, r.i32("incarnation of a client")?);
            let used = r.u64("clock of a client")?;
            let count = r.count(1, "outcomes of a client")?;
            let done = (0..count).map(|_| Ok((r.u64("number of a request")?, Done::decode(r)?)));
            let done = done.collect::<Decoded<VecDeque<_>>>()?;
            all.len += done.len();
            all.clients.insert(key, Client { done, used });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, tid: u64) -> ReqId {
        ReqId { name: EntityName::client(client), tid, inc: 0 }
    }

    fn done(result: i32) -> Done {
        Done { result, version: EVersion::default(), user_version: 0, ops: None }
    }

    #[test]
    fn a_request_is_recognised_among_later_ones_and_other_clients() {
        let mut duplicates = Duplicates::default();
        for tid in [1, 3, 2, 9] {
            duplicates.record(&id(1, tid), done(-(tid as i32)));
        }
        assert_eq!(duplicates.find(&id(1, 2)).map(|done| done.result), Some(-2));
        assert!(duplicates.find(&id(1, 4)).is_none());
        assert!(duplicates.find(&id(1, 10)).is_none());
        assert!(duplicates.find(&id(2, 2)).is_none());
        assert!(duplicates.find(&ReqId { inc: 1, ..id(1, 2) }).is_none());
    }

    #[test]
    fn both_bounds_hold_and_the_oldest_goes_first() {
        let mut duplicates = Duplicates::default();
        for tid in 0..=PER_CLIENT as u64 {
            duplicates.record(&id(1, tid), done(0));
        }
        assert!(duplicates.find(&id(1, 0)).is_none());
        assert!(duplicates.find(&id(1, 1)).is_some());
        for client in 2..=CLIENTS as u64 + 1 {
            duplicates.record(&id(client, 1), done(0));
        }
        assert_eq!(duplicates.clients.len(), CLIENTS);
        assert_eq!(duplicates.len, CLIENTS);
        assert!(duplicates.find(&id(1, 1)).is_none());
        assert!(duplicates.find(&id(2, 1)).is_some());
    }
}
