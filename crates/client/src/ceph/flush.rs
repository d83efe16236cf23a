//! What a flush waits for: the writes that were submitted before it.

use super::done::ReplyTo;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The writes of an image that are in flight, in epochs: a flush ends an epoch, and is done when all writes up to
/// its end are.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    // Only the reactor's thread takes the lock, so it is never contended.
    state: Mutex<FlushState>,
}

#[derive(Debug, Default)]
struct FlushState {
    /// Number of the first epoch.
    first: u64,
    epochs: VecDeque<Epoch>,
}

#[derive(Debug, Default)]
struct Epoch {
    writes: usize,
    flush: Option<ReplyTo<()>>,
}

/// The epoch that a write belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteEpoch(u64);

impl Writes {
    fn lock(&self) -> MutexGuard<'_, FlushState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write begins.
    pub(crate) fn begin(&self) -> WriteEpoch {
        let mut state = self.lock();
        if state.epochs.back().is_none_or(|epoch| epoch.flush.is_some()) {
            state.epochs.push_back(Epoch::default());
        }
        let last = state.epochs.len() - 1;
        state.epochs[last].writes += 1;
        WriteEpoch(state.first + last as u64)
    }

    /// A write has ended. Returns the flushes that are done with it.
    pub(crate) fn end(&self, epoch: WriteEpoch) -> Vec<ReplyTo<()>> {
        let mut state = self.lock();
        let index = (epoch.0 - state.first) as usize;
        state.epochs[index].writes -= 1;
        let mut done = Vec::new();
        while let Some(epoch) = state.epochs.pop_front_if(|epoch| epoch.writes == 0) {
            state.first += 1;
            done.extend(epoch.flush);
        }
        done
    }

    /// A flush begins. Returns it at once if nothing is in flight.
    pub(crate) fn flush(&self, done: ReplyTo<()>) -> Option<ReplyTo<()>> {
        let mut state = self.lock();
        if state.epochs.is_empty() {
            return Some(done);
        }
        if state.epochs.back().is_some_and(|epoch| epoch.flush.is_some()) {
            state.epochs.push_back(Epoch::default());
        }
        if let Some(last) = state.epochs.back_mut() {
            last.flush = Some(done);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(done: Vec<ReplyTo<()>>) -> Vec<u64> {
        done.into_iter()
            .map(|done| if let ReplyTo::Tag(tag) = done { tag } else { panic!("not a tag") })
            .collect()
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_alone() {
        let writes = Writes::default();
        assert!(writes.flush(ReplyTo::Tag(0)).is_some());
        let (a, b) = (writes.begin(), writes.begin());
        assert!(writes.flush(ReplyTo::Tag(1)).is_none());
        let c = writes.begin();
        assert!(writes.flush(ReplyTo::Tag(2)).is_none());
        assert!(writes.flush(ReplyTo::Tag(3)).is_none());
        assert!(writes.end(a).is_empty());
        assert!(writes.end(c).is_empty());
        assert_eq!(tags(writes.end(b)), [1, 2, 3]);
        assert!(writes.flush(ReplyTo::Tag(4)).is_some());
    }
}
