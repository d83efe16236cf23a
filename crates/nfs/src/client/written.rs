//! Write state of a file: writes in flight, data to commit, and syncs that wait for it.

use super::error::Error;
use super::unstable::Unstable;
use crate::v3::{Stability, Verifier};
use onego_buf::List;
use std::collections::{BTreeSet, VecDeque};

/// Uncommitted bytes of a file at which the client commits without a sync.
const COMMIT_AT: usize = 64 << 20;

/// Uncommitted bytes of a file at which new writes are parked.
const WRITES_WAIT_AT: usize = 2 * COMMIT_AT;

/// A write that waits until less data of its file is uncommitted.
#[derive(Debug)]
pub(super) struct Parked<T> {
    pub(super) offset: u64,
    pub(super) data: List,
    pub(super) stable: Stability,
    pub(super) ticket: T,
}

#[derive(Debug)]
pub(super) struct Written<T> {
    pub(super) unstable: Unstable,
    next: u64,
    in_flight: BTreeSet<u64>,
    /// Syncs, each with the number of the first write that it does not cover.
    pub(super) syncs: VecDeque<(u64, T)>,
    commit: CommitState<T>,
    pub(super) parked: VecDeque<Parked<T>>,
    /// Error of a commit that no sync waited for.
    error: Option<Error>,
    /// Consecutive commits that found lost data.
    losses: u32,
}

#[derive(Debug)]
enum CommitState<T> {
    Idle,
    /// A commit of the runs before the mark, with the syncs that wait for it.
    InFlight(u64, Vec<T>),
    /// A rewrite of data that the server lost, which starts once no write is in flight: calls in flight, first error,
    /// and waiting syncs.
    Rewriting(usize, Option<Error>, Vec<T>),
}

impl<T> Default for Written<T> {
    fn default() -> Self {
        Self {
            unstable: Unstable::default(),
            next: 0,
            in_flight: BTreeSet::new(),
            syncs: VecDeque::new(),
            commit: CommitState::Idle,
            parked: VecDeque::new(),
            error: None,
            losses: 0,
        }
    }
}

pub(super) enum RewriteProgress {
    InFlight,
    Done,
    Failed(Error),
}

impl<T> Written<T> {
    /// Returns whether new writes must wait. During a rewrite they must, or the old data could overwrite the new.
    pub(super) fn is_full(&self) -> bool {
        self.unstable.bytes() >= WRITES_WAIT_AT || matches!(self.commit, CommitState::Rewriting(..))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unstable.is_empty()
            && self.in_flight.is_empty()
            && self.syncs.is_empty()
            && self.parked.is_empty()
            && self.error.is_none()
            && matches!(self.commit, CommitState::Idle)
    }

    /// Returns the number of the next write, after all parked ones.
    pub(super) fn next(&self) -> u64 {
        self.next + self.parked.len() as u64
    }

    pub(super) fn begin(&mut self) -> u64 {
        self.in_flight.insert(self.next);
        self.next += 1;
        self.next - 1
    }

    pub(super) fn end(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    pub(super) fn unpark(&mut self) -> Option<Parked<T>> {
        if self.is_full() { None } else { self.parked.pop_front() }
    }

    /// Removes and returns the `unwanted` tickets of parked writes, with their data, and of waiting syncs.
    pub(super) fn cancel_where(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut tickets = Vec::new();
        for at in (0..self.parked.len()).rev() {
            if !unwanted(&self.parked[at].ticket) {
                continue;
            }
            tickets.extend(self.parked.remove(at).map(|parked| parked.ticket));
            // Later writes move up, and so do the syncs that cover them.
            let number = self.next + at as u64;
            self.syncs.iter_mut().filter(|(before, _)| *before > number).for_each(|(before, _)| *before -= 1);
        }
        for (before, ticket) in std::mem::take(&mut self.syncs) {
            if unwanted(&ticket) {
                tickets.push(ticket);
            } else {
                self.syncs.push_back((before, ticket));
            }
        }
        if let CommitState::InFlight(_, waiting) | CommitState::Rewriting(_, _, waiting) = &mut self.commit {
            tickets.extend(waiting.extract_if(.., |ticket| unwanted(ticket)));
        }
        tickets
    }

    /// Starts a commit if one is due. Returns whether the caller must send it.
    pub(super) fn begin_commit(&mut self) -> bool {
        if !matches!(self.commit, CommitState::Idle) {
            return false;
        }
        let waiting = self.ready_syncs();
        let begins = !waiting.is_empty() || self.unstable.bytes() >= COMMIT_AT;
        if begins {
            self.commit = CommitState::InFlight(self.unstable.mark(), waiting);
        }
        begins
    }

    fn ready_syncs(&mut self) -> Vec<T> {
        let begun = self.in_flight.first().copied().unwrap_or(self.next);
        let mut ready = Vec::new();
        while let Some((_, ticket)) = self.syncs.pop_front_if(|(before, _)| *before <= begun) {
            ready.push(ticket);
        }
        ready
    }

    /// Processes a commit under `verifier`. Returns whether the server has lost data.
    pub(super) fn committed(&mut self, verifier: Verifier) -> bool {
        let CommitState::InFlight(mark, waiting) = &mut self.commit else { return false };
        let lost = self.unstable.committed(*mark, verifier);
        self.losses = if lost { self.losses + 1 } else { 0 };
        if lost {
            self.commit = CommitState::Rewriting(0, None, std::mem::take(waiting));
        }
        lost
    }

    /// Returns the lost data that may be rewritten now. Writes in flight may be newer and may already have reached the
    /// server: the rewrite waits for them and omits what they have replaced.
    pub(super) fn take_lost(&mut self) -> Option<Vec<(u64, List)>> {
        let waits = matches!(self.commit, CommitState::Rewriting(0, ..)) && self.in_flight.is_empty();
        waits.then(|| self.unstable.take_lost())
    }

    /// Stability of rewrites. A server whose verifier changes with every commit would otherwise lose unstable rewrites
    /// endlessly.
    pub(super) fn rewrite_stability(&self) -> Stability {
        if self.losses > 1 { Stability::FileSync } else { Stability::Unstable }
    }

    pub(super) fn begin_rewrite_call(&mut self) {
        if let CommitState::Rewriting(calls, ..) = &mut self.commit {
            *calls += 1;
        }
    }

    /// Handles the end of a rewrite call. After the last one, the waiting syncs need another commit.
    pub(super) fn end_rewrite_call(&mut self, failed: Option<Error>) -> RewriteProgress {
        let CommitState::Rewriting(calls, error, waiting) = &mut self.commit else {
            return RewriteProgress::InFlight;
        };
        *calls = calls.saturating_sub(1);
        if error.is_none() {
            *error = failed;
        }
        if *calls > 0 {
            return RewriteProgress::InFlight;
        }
        if let Some(error) = error.take() {
            return RewriteProgress::Failed(error);
        }
        // These syncs cover nothing beyond the data that the server has now.
        for ticket in std::mem::take(waiting).into_iter().rev() {
            self.syncs.push_front((0, ticket));
        }
        self.commit = CommitState::Idle;
        RewriteProgress::Done
    }

    /// Ends the commit and returns the syncs that waited for it. They fail if this commit, or an earlier one without
    /// syncs, has failed.
    pub(super) fn end_commit(&mut self, failed: Option<&Error>) -> (Vec<T>, Option<Error>) {
        let (mark, waiting) = match std::mem::replace(&mut self.commit, CommitState::Idle) {
            CommitState::InFlight(mark, waiting) => (mark, waiting),
            CommitState::Rewriting(_, _, waiting) => (0, waiting),
            CommitState::Idle => return (Vec::new(), None),
        };
        if failed.is_some_and(Error::is_final) {
            self.unstable.forget(mark);
        }
        let error = self.error.take().or_else(|| failed.cloned());
        if waiting.is_empty() {
            self.error = error;
            return (waiting, None);
        }
        (waiting, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_after_a_cancelled_write_waits_for_earlier_writes() {
        let mut written = Written::default();
        let number = written.begin();
        for ticket in 1..=2 {
            let data = List::new();
            written.parked.push_back(Parked { offset: 0, data, stable: Stability::Unstable, ticket });
        }
        written.syncs.push_back((written.next(), 3));
        written.syncs.push_back((written.next(), 4));
        assert_eq!(written.cancel_where(|ticket| [1, 2, 4].contains(ticket)), [2, 1, 4]);
        assert!(written.parked.is_empty());
        assert!(!written.begin_commit(), "a write is in flight");
        written.end(number);
        assert!(written.begin_commit());
        assert_eq!(written.end_commit(None), (vec![3], None));
        assert!(written.is_idle());
    }

    #[test]
    fn a_commit_continues_after_its_syncs_are_cancelled() {
        let mut written = Written::default();
        written.syncs.push_back((written.next(), 1));
        assert!(written.begin_commit());
        assert_eq!(written.cancel_where(|_| true), [1]);
        assert!(!written.begin_commit(), "the commit is in flight");
        assert_eq!(written.end_commit(None), (vec![], None));
    }
}
