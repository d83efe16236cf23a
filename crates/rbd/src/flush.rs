//! What a flush waits for: the writes that were submitted before it.

use std::collections::VecDeque;

/// The writes of an image that are in flight, in epochs: a flush ends an epoch, and is done when all writes up to
/// its end are.
#[derive(Debug)]
pub(crate) struct Writes<T> {
    /// Number of the first epoch.
    first: u64,
    epochs: VecDeque<Epoch<T>>,
}

#[derive(Debug)]
struct Epoch<T> {
    writes: usize,
    flush: Option<T>,
}

/// The epoch that a write belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteEpoch(u64);

impl<T> Default for Writes<T> {
    fn default() -> Self {
        Self { first: 0, epochs: VecDeque::new() }
    }
}

impl<T> Writes<T> {
    /// A write begins.
    #[inline]
    pub(crate) fn begin(&mut self) -> WriteEpoch {
        if self.epochs.back().is_none_or(|epoch| epoch.flush.is_some()) {
            self.epochs.push_back(Epoch { writes: 0, flush: None });
        }
        let last = self.epochs.len() - 1;
        self.epochs[last].writes += 1;
        WriteEpoch(self.first + last as u64)
    }

    /// A write has ended. Gives the flushes that are done with it.
    #[inline]
    pub(crate) fn end(&mut self, epoch: WriteEpoch) -> Vec<T> {
        let index = (epoch.0 - self.first) as usize;
        self.epochs[index].writes -= 1;
        let mut done = Vec::new();
        while let Some(epoch) = self.epochs.pop_front_if(|epoch| epoch.writes == 0) {
            self.first += 1;
            done.extend(epoch.flush);
        }
        done
    }

    /// A flush begins. Gives it back at once if nothing is in flight.
    pub(crate) fn flush(&mut self, token: T) -> Option<T> {
        if self.epochs.is_empty() {
            return Some(token);
        }
        match self.epochs.back_mut() {
            Some(last) if last.flush.is_none() => last.flush = Some(token),
            _ => self.epochs.push_back(Epoch { writes: 0, flush: Some(token) }),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_what_came_before_it_alone() {
        let mut writes = Writes::default();
        assert_eq!(writes.flush(0), Some(0));
        let (a, b) = (writes.begin(), writes.begin());
        assert_eq!(writes.flush(1), None);
        let c = writes.begin();
        assert_eq!(writes.flush(2), None);
        assert_eq!(writes.flush(3), None);
        assert!(writes.end(a).is_empty());
        assert!(writes.end(c).is_empty());
        assert_eq!(writes.end(b), [1, 2, 3]);
        assert_eq!(writes.flush(4), Some(4));
    }
}
