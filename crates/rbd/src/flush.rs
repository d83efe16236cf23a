//! Tracks the writes that a flush waits for: those submitted before it.

use std::collections::VecDeque;

/// In-flight writes of an image, in epochs. A flush ends an epoch, and is done once all writes up to its end are.
#[derive(Debug)]
pub(crate) struct Writes<T> {
    first: u64,
    epochs: VecDeque<Epoch<T>>,
}

#[derive(Debug)]
struct Epoch<T> {
    writes: usize,
    flush: Option<T>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteEpoch(u64);

impl<T> Default for Writes<T> {
    fn default() -> Self {
        Self { first: 0, epochs: VecDeque::new() }
    }
}

impl<T> Writes<T> {
    #[inline]
    pub(crate) fn begin(&mut self) -> WriteEpoch {
        if self.epochs.back().is_none_or(|epoch| epoch.flush.is_some()) {
            self.epochs.push_back(Epoch { writes: 0, flush: None });
        }
        let last = self.epochs.len() - 1;
        self.epochs[last].writes += 1;
        WriteEpoch(self.first + last as u64)
    }

    /// Ends a write. Returns the flushes that are done with it.
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

    /// Registers a flush. Returns its token if no write is in flight.
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
    fn a_flush_waits_for_earlier_writes_only() {
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
