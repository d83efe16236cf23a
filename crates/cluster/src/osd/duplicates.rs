//! What became of recent writes, so that one that is sent again is answered again and not done again.
//!
//! A client sends a request again whenever it cannot know that it was done: after its connection broke, after the map
//! changed. As in Ceph, the outcomes belong to a placement group (`osd_pg_log_dups_tracked`: 3,000 of them, ceph
//! `src/osd/PGLog.h`), because any of its OSDs may be asked next. The group forgets its oldest outcome first, whichever client
//! asked for it: the newest outcomes of every client stay.

use onego_ceph::messages::OpResult;
use onego_ceph::types::{EVersion, EntityName, ReqId};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// Outcomes that a group remembers. A client can send again only what is not answered, and Ceph's clients have at most
/// 1,024 requests under way (`objecter_inflight_ops`): eight such clients can have all of theirs in one group.
const MAX: usize = 8192;

/// Memory of an outcome besides what its operations gave: its place in the ring, and among its client's requests.
const OUTCOME: u64 = 96;

/// Memory of a client that has outcomes: a client may call itself another with each request.
const CLIENT: u64 = 192;

/// Memory of an output besides its bytes.
const OUTPUT: u64 = 96;

/// Returns the bytes of memory that the outcomes of one of `groups` groups of an OSD may take: together a thirty-second of
/// what its objects may, which is what writes of data leave of that. A group has place for all requests that one of Ceph's
/// clients has in flight (1,024) nevertheless.
pub(crate) fn share(memory_limit: u64, groups: usize) -> u64 {
    const PART: u64 = 32;
    const LEAST: u64 = 128 << 10;
    (memory_limit / PART / groups.max(1) as u64).max(LEAST)
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Done {
    pub(crate) result: i32,
    pub(crate) version: EVersion,
    pub(crate) user_version: u64,
    /// What each operation gave; none: no result and no output of any.
    pub(crate) ops: Option<Box<SmallVec<[OpResult; 2]>>>,
}

impl Done {
    fn memory(&self) -> u64 {
        let Some(results) = &self.ops else { return OUTCOME };
        let spilled = if results.spilled() { size_of::<OpResult>() * results.capacity() } else { 0 };
        let outputs = results.iter().filter(|op| !op.output.is_empty());
        let outputs: u64 = outputs.map(|op| op.output.len() as u64 + OUTPUT).sum();
        OUTCOME + (size_of_val(&**results) + spilled) as u64 + outputs
    }
}

/// A life of a client.
type Client = (EntityName, i32);

fn client(id: &ReqId) -> Client {
    (id.name, id.inc)
}

/// Outcomes of recent writes.
#[derive(Clone, Default)]
pub(crate) struct Duplicates {
    /// In the order in which the requests were done: a ring, because all groups' outcomes do not fit into the processor's
    /// cache, and the outcome that is forgotten lies where the next is written.
    outcomes: VecDeque<(ReqId, Done)>,
    /// How many were forgotten: the number of the first one in the ring.
    forgotten: u64,
    /// By the client: its numbers for its requests, and the numbers of their outcomes. Clients count up, so what is new goes
    /// to the end, or close to it.
    clients: FxHashMap<Client, VecDeque<(u64, u64)>>,
    /// Memory that all of it takes.
    memory: u64,
}

impl Duplicates {
    /// Memory that the outcomes take.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Forgets the oldest outcomes until the others take `share` bytes of memory at most, or only the newest is left.
    pub(crate) fn shrink_to(&mut self, share: u64) {
        while self.memory > share && self.outcomes.len() > 1 {
            self.forget_oldest();
        }
    }

    /// What became of a request, if it was done before.
    pub(crate) fn find(&self, id: &ReqId) -> Option<&Done> {
        let at = self.position(id)?;
        Some(&self.outcomes[at].1)
    }

    fn position(&self, id: &ReqId) -> Option<usize> {
        let requests = self.clients.get(&client(id))?;
        if requests.back().is_none_or(|(newest, _)| *newest < id.tid) {
            return None;
        }
        let found = requests.binary_search_by_key(&id.tid, |(tid, _)| *tid).ok()?;
        Some((requests[found].1 - self.forgotten) as usize)
    }

    /// Remembers what became of a request.
    pub(crate) fn record(&mut self, id: &ReqId, done: Done) {
        match self.position(id) {
            Some(known) => {
                self.memory += done.memory();
                self.memory -= std::mem::replace(&mut self.outcomes[known].1, done).memory();
            }
            None => self.record_first(id, done),
        }
    }

    /// Remembers what became of a request that [`find`](Self::find) does not know.
    pub(crate) fn record_first(&mut self, id: &ReqId, done: Done) {
        if self.outcomes.len() == MAX {
            self.forget_oldest();
        }
        let number = self.forgotten + self.outcomes.len() as u64;
        self.memory += done.memory();
        let requests = match self.clients.entry(client(id)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.memory += CLIENT;
                entry.insert(VecDeque::new())
            }
        };
        match requests.back() {
            Some((newest, _)) if *newest > id.tid => {
                let at = requests.partition_point(|(tid, _)| *tid < id.tid);
                requests.insert(at, (id.tid, number));
            }
            _ => requests.push_back((id.tid, number)),
        }
        self.outcomes.push_back((*id, done));
    }

    fn forget_oldest(&mut self) {
        let Some((oldest, done)) = self.outcomes.pop_front() else { return };
        self.memory -= done.memory();
        self.forgotten += 1;
        let Entry::Occupied(mut entry) = self.clients.entry(client(&oldest)) else { return };
        let requests = entry.get_mut();
        // Nearly always it is the first.
        if requests.pop_front_if(|(tid, _)| *tid == oldest.tid).is_none()
            && let Ok(at) = requests.binary_search_by_key(&oldest.tid, |(tid, _)| *tid)
        {
            requests.remove(at);
        }
        if requests.is_empty() {
            entry.remove();
            self.memory -= CLIENT;
        }
    }

    /// What a group remembers that several groups become. Nobody knows which of two groups' outcomes is older, so the
    /// newest of each group stay. Several may know the same outcome: all groups that came out of one do.
    pub(crate) fn merged(groups: &[Self]) -> Self {
        let longest = groups.iter().map(|group| group.outcomes.len()).max().unwrap_or(0);
        let newest_first = (1..=longest).flat_map(|age| {
            groups
                .iter()
                .filter_map(move |group| Some(&group.outcomes[group.outcomes.len().checked_sub(age)?]))
        });
        let mut known = FxHashSet::default();
        let newest: Vec<_> = newest_first.filter(|(id, _)| known.insert(*id)).take(MAX).collect();
        let mut merged = Self::default();
        newest.into_iter().rev().for_each(|(id, done)| merged.record(id, done.clone()));
        merged
    }
}

impl Encode for Duplicates {
    fn encode(&self, w: &mut Writer) {
        w.count(self.outcomes.len());
        for (id, done) in &self.outcomes {
            id.encode(w);
            done.encode(w);
        }
    }
}

impl Decode for Duplicates {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let mut all = Self::default();
        for _ in 0..r.count(1, "outcomes of a group")? {
            let id = ReqId::decode(r)?;
            all.record(&id, Done::decode(r)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::types::Epoch;

    fn id(client: u64, tid: u64) -> ReqId {
        ReqId { name: EntityName::client(client), tid, inc: 0 }
    }

    fn done(result: i32) -> Done {
        Done { result, version: EVersion::default(), user_version: 0, ops: None }
    }

    fn knows(duplicates: &Duplicates, client: u64, tid: u64) -> bool {
        duplicates.find(&id(client, tid)).is_some()
    }

    #[test]
    fn a_request_is_recognised_among_later_ones_and_other_clients() {
        let mut duplicates = Duplicates::default();
        for tid in [1, 3, 2, 9] {
            duplicates.record(&id(1, tid), done(-(tid as i32)));
        }
        assert_eq!(duplicates.find(&id(1, 2)).map(|done| done.result), Some(-2));
        assert!(!knows(&duplicates, 1, 4) && !knows(&duplicates, 1, 10) && !knows(&duplicates, 2, 2));
        assert!(duplicates.find(&ReqId { inc: 1, ..id(1, 2) }).is_none());
    }

    #[test]
    fn the_oldest_outcome_goes_first_of_all_clients() {
        let mut duplicates = Duplicates::default();
        // One client is silent after its first request; the others take turns.
        duplicates.record(&id(9, 1), done(0));
        let all: Vec<(u64, u64)> = (0..MAX as u64 * 3).map(|n| (n % 5, n / 5)).collect();
        for (at, (client, tid)) in all.iter().enumerate() {
            duplicates.record(&id(*client, *tid), done(0));
            assert_eq!(knows(&duplicates, 9, 1), at + 1 < MAX);
            let recent = at.saturating_sub(MAX - 1);
            assert!(knows(&duplicates, all[recent].0, all[recent].1));
            assert!(recent == 0 || !knows(&duplicates, all[recent - 1].0, all[recent - 1].1));
        }
        assert_eq!(duplicates.outcomes.len(), MAX);
        assert_eq!(duplicates.clients.values().map(VecDeque::len).sum::<usize>(), MAX);
        assert_eq!(duplicates.clients.len(), 5, "a client without outcomes is forgotten");
    }

    #[test]
    fn requests_that_are_done_out_of_order_are_forgotten_in_that_order() {
        let mut duplicates = Duplicates::default();
        let tids = (0..MAX as u64 + 3).map(|n| n ^ 1);
        tids.for_each(|tid| duplicates.record(&id(1, tid), done(0)));
        assert!([0, 1, 3].iter().all(|tid| !knows(&duplicates, 1, *tid)) && knows(&duplicates, 1, 2));
    }

    #[test]
    fn what_is_kept_is_forgotten_in_the_same_order_after_a_restart() {
        let mut duplicates = Duplicates::default();
        let version = EVersion { version: 7, epoch: 3 as Epoch };
        for n in 0..MAX as u64 {
            duplicates.record(&id(n % 3, n ^ 1), Done { version, ..done(n as i32) });
        }
        let mut w = Writer::new();
        duplicates.encode(&mut w);
        let mut read = Duplicates::decode(&mut Reader::new(w.as_slice())).unwrap();
        assert_eq!(read.outcomes, duplicates.outcomes);
        assert_eq!(read.find(&id(2, 4)), duplicates.find(&id(2, 4)));
        read.record(&id(5, 1), done(0));
        assert!(!knows(&read, 0, 1) && knows(&read, 1, 0));
    }

    #[test]
    fn outcomes_are_forgotten_when_they_exceed_their_memory() {
        let output = |len| OpResult { output: vec![1; len].into(), ..OpResult::default() };
        let large = || Done { ops: Some(Box::new(smallvec::smallvec![output(4000)])), ..done(0) };
        let mut duplicates = Duplicates::default();
        let share = 1 << 20;
        for tid in 0..2000 {
            // Each under a new name of its client.
            duplicates.record(&ReqId { inc: tid as i32, ..id(1, tid) }, large());
            duplicates.shrink_to(share);
            assert!(duplicates.memory() <= share);
        }
        let left = duplicates.outcomes.len();
        assert!((200..256).contains(&left), "{left}");
        duplicates.record(&id(2, 1), large());
        duplicates.record(&id(2, 1), done(1));
        duplicates.shrink_to(0);
        assert!(knows(&duplicates, 2, 1) && duplicates.outcomes.len() == 1, "the newest stays");
        assert_eq!(duplicates.memory(), OUTCOME + CLIENT);
        duplicates.forget_oldest();
        assert_eq!(duplicates.memory(), 0);
        assert_eq!(super::share(64 << 20, 8), 256 << 10);
        assert_eq!(super::share(64 << 20, 500), 128 << 10, "all that a client has in flight");
    }

    #[test]
    fn groups_that_become_one_keep_the_newest_outcomes_of_each() {
        let group = |client: u64| {
            let mut group = Duplicates::default();
            (0..MAX as u64).for_each(|tid| group.record(&id(client, tid), done(0)));
            group
        };
        let merged = Duplicates::merged(&[group(1), group(2), group(2)]);
        assert_eq!(merged.outcomes.len(), MAX);
        let half = MAX as u64 / 2;
        for client in [1, 2] {
            assert!(knows(&merged, client, half) && !knows(&merged, client, half - 1));
        }
    }
}
