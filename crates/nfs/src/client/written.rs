//! What there is to know of a file that is written: which writes are under way, what is to be committed, and which
//! syncs wait for that.

use super::error::Error;
use super::unstable::Unstable;
use crate::v3::{Stability, Verifier};
use onego_buf::List;
use std::collections::{BTreeSet, VecDeque};

/// Bytes of one file that wait to be committed when a commit is begun without being asked for.
const COMMIT_AT: usize = 64 << 20;

/// Bytes of one file that wait to be committed when no more writes of it are begun.
const WRITES_WAIT_AT: usize = 2 * COMMIT_AT;

/// A write that waits until fewer bytes of its file are to be committed.
#[derive(Debug)]
pub(super) struct Parked<T> {
    pub(super) offset: u64,
    pub(super) data: List,
    pub(super) stable: Stability,
    pub(super) ticket: T,
}

/// What there is to know of a file that is written.
#[derive(Debug)]
pub(super) struct Written<T> {
    pub(super) unstable: Unstable,
    /// Number of the next write.
    next: u64,
    /// Writes that are under way.
    in_flight: BTreeSet<u64>,
    /// Syncs that wait for the writes before that number to be durable.
    pub(super) syncs: VecDeque<(u64, T)>,
    commit: Committing<T>,
    pub(super) parked: VecDeque<Parked<T>>,
    /// A commit that nobody asked for has failed.
    error: Option<Error>,
    /// Commits in a row that found something lost.
    losses: u32,
}

/// How far the commit of a file is.
#[derive(Debug)]
enum Committing<T> {
    No,
    /// Of the runs before the mark, for those who wait.
    Asked(u64, Vec<T>),
    /// The server had lost some, which is sent again once no write is under way: by this number of calls now.
    Again(usize, Option<Error>, Vec<T>),
}

impl<T> Default for Written<T> {
    fn default() -> Self {
        Self {
            unstable: Unstable::default(),
            next: 0,
            in_flight: BTreeSet::new(),
            syncs: VecDeque::new(),
            commit: Committing::No,
            parked: VecDeque::new(),
            error: None,
            losses: 0,
        }
    }
}

/// How far a server is with what it had lost.
pub(super) enum Again {
    /// It is being given more.
    More,
    /// It has taken all of it again.
    Done,
    /// It has not.
    Failed(Error),
}

impl<T> Written<T> {
    /// Must new writes wait? While the server is given again what it has lost, they must: else the old bytes could come
    /// after the new.
    pub(super) fn is_full(&self) -> bool {
        self.unstable.bytes() >= WRITES_WAIT_AT || matches!(self.commit, Committing::Again(..))
    }

    /// Is there nothing to remember?
    pub(super) fn is_quiet(&self) -> bool {
        self.unstable.is_empty()
            && self.in_flight.is_empty()
            && self.syncs.is_empty()
            && self.parked.is_empty()
            && self.error.is_none()
            && matches!(self.commit, Committing::No)
    }

    /// The number of the next write.
    pub(super) fn next(&self) -> u64 {
        self.next + self.parked.len() as u64
    }

    /// A write begins: its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.in_flight.insert(self.next);
        self.next += 1;
        self.next - 1
    }

    /// A write has ended.
    pub(super) fn end(&mut self, number: u64) {
        self.in_flight.remove(&number);
    }

    /// A write that need not wait any more.
    pub(super) fn unpark(&mut self) -> Option<Parked<T>> {
        if self.is_full() { None } else { self.parked.pop_front() }
    }

    /// Takes out the tickets that are `unwanted`: of writes that were not begun, with their data, and of those who wait for
    /// writes to be durable.
    pub(super) fn cancel_where(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut tickets = Vec::new();
        for at in (0..self.parked.len()).rev() {
            if !unwanted(&self.parked[at].ticket) {
                continue;
            }
            tickets.extend(self.parked.remove(at).map(|parked| parked.ticket));
            // The writes behind it move up, and with them what is to be durable after them.
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
        if let Committing::Asked(_, waiting) | Committing::Again(_, _, waiting) = &mut self.commit {
            tickets.extend(waiting.extract_if(.., |ticket| unwanted(ticket)));
        }
        tickets
    }

    /// Is a commit to be sent now? Then it counts as sent.
    pub(super) fn begin_commit(&mut self) -> bool {
        if !matches!(self.commit, Committing::No) {
            return false;
        }
        let waiting = self.ready_syncs();
        let begins = !waiting.is_empty() || self.unstable.bytes() >= COMMIT_AT;
        if begins {
            self.commit = Committing::Asked(self.unstable.mark(), waiting);
        }
        begins
    }

    /// The syncs that wait for nothing but a commit.
    fn ready_syncs(&mut self) -> Vec<T> {
        let begun = self.in_flight.first().copied().unwrap_or(self.next);
        let mut ready = Vec::new();
        while let Some((_, ticket)) = self.syncs.pop_front_if(|(before, _)| *before <= begun) {
            ready.push(ticket);
        }
        ready
    }

    /// The server has committed what it took under that verifier. Has it lost something?
    pub(super) fn committed(&mut self, verifier: Verifier) -> bool {
        let Committing::Asked(mark, waiting) = &mut self.commit else { return false };
        let lost = self.unstable.committed(*mark, verifier);
        self.losses = if lost { self.losses + 1 } else { 0 };
        if lost {
            self.commit = Committing::Again(0, None, std::mem::take(waiting));
        }
        lost
    }

    /// What the server has lost and is to be given now. Writes that are under way may be newer than that, and have come to
    /// the server before: they are waited for, and what they have replaced is not given again.
    pub(super) fn take_due(&mut self) -> Option<Vec<(u64, List)>> {
        let waits = matches!(self.commit, Committing::Again(0, ..)) && self.in_flight.is_empty();
        waits.then(|| self.unstable.take_lost())
    }

    /// Stability of writes that the server is given again. A server whose verifier changes with every commit would lose
    /// unstable writes again and again, without end.
    pub(super) fn stability_again(&self) -> Stability {
        if self.losses > 1 { Stability::FileSync } else { Stability::Unstable }
    }

    /// The server is given something again.
    pub(super) fn write_again(&mut self) {
        if let Committing::Again(calls, ..) = &mut self.commit {
            *calls += 1;
        }
    }

    /// The server has taken something again, or not. Once it is through with all of it, those who wait need another
    /// commit.
    pub(super) fn wrote_again(&mut self, failed: Option<Error>) -> Again {
        let Committing::Again(calls, error, waiting) = &mut self.commit else { return Again::More };
        *calls = calls.saturating_sub(1);
        if error.is_none() {
            *error = failed;
        }
        if *calls > 0 {
            return Again::More;
        }
        if let Some(error) = error.take() {
            return Again::Failed(error);
        }
        // They waited for no more than what is with the server now.
        for ticket in std::mem::take(waiting).into_iter().rev() {
            self.syncs.push_front((0, ticket));
        }
        self.commit = Committing::No;
        Again::Done
    }

    /// A commit has ended, and so have those who waited for it; with an error if it, or one that nobody waited for, has
    /// failed.
    pub(super) fn end_commit(&mut self, failed: Option<&Error>) -> (Vec<T>, Option<Error>) {
        let (mark, waiting) = match std::mem::replace(&mut self.commit, Committing::No) {
            Committing::Asked(mark, waiting) => (mark, waiting),
            Committing::Again(_, _, waiting) => (0, waiting),
            Committing::No => return (Vec::new(), None),
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
    fn what_is_to_be_durable_after_a_write_that_is_cancelled_waits_for_those_before_it() {
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
        assert!(!written.begin_commit(), "a write is under way");
        written.end(number);
        assert!(written.begin_commit());
        assert_eq!(written.end_commit(None), (vec![3], None));
        assert!(written.is_quiet());
    }

    #[test]
    fn a_commit_that_nobody_waits_for_any_more_goes_on() {
        let mut written = Written::default();
        written.syncs.push_back((written.next(), 1));
        assert!(written.begin_commit());
        assert_eq!(written.cancel_where(|_| true), [1]);
        assert!(!written.begin_commit(), "it is under way");
        assert_eq!(written.end_commit(None), (vec![], None));
    }
}
