//! Syncs of a file, shared by the callers that wait for one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Part of a file that a sync covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncExtent {
    /// Bytes, and what is needed to read them: fdatasync(2).
    #[default]
    Data,
    /// Attributes, too: fsync(2).
    All,
}

/// The syncs of one file. Callers that wait share the next one: a sync serves every change that was made before it began.
///
/// Two syncs never run at a time. The kernel reports a failed write-back once for each descriptor, so a sync that ran next
/// to a failed one could succeed before that one's caller has told anyone.
#[derive(Debug)]
pub struct SharedSync<E> {
    turns: Mutex<Turns<E>>,
    ended: Condvar,
}

/// Syncs are numbered in their order.
#[derive(Debug)]
struct Turns<E> {
    running: bool,
    begun: u64,
    ended: u64,
    /// Extent of the next sync.
    next: SyncExtent,
    /// Number and error of the last sync that failed.
    failed: Option<(u64, E)>,
    waiting: usize,
}

impl<E> Default for SharedSync<E> {
    fn default() -> Self {
        let turns =
            Turns { running: false, begun: 0, ended: 0, next: SyncExtent::Data, failed: None, waiting: 0 };
        Self { turns: Mutex::new(turns), ended: Condvar::new() }
    }
}

impl<E: Clone> SharedSync<E> {
    fn turns(&self) -> MutexGuard<'_, Turns<E>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a sync that begins after this call. The first waiting caller carries it out with its `sync`, to the extent
    /// that one of them needs. Returns the error of that sync, or of a later one, which may have lost the same data.
    pub fn run(&self, extent: SyncExtent, sync: impl FnOnce(SyncExtent) -> Result<(), E>) -> Result<(), E> {
        let mut turns = self.turns();
        let mine = turns.begun + 1;
        if extent == SyncExtent::All {
            turns.next = extent;
        }
        turns.waiting += 1;
        while turns.running && turns.ended < mine {
            turns = self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.waiting -= 1;
        if turns.ended < mine {
            (turns.running, turns.begun) = (true, mine);
            let extent = std::mem::take(&mut turns.next);
            drop(turns);
            let result = sync(extent);
            turns = self.turns();
            (turns.running, turns.ended) = (false, mine);
            if let Err(error) = result {
                turns.failed = Some((mine, error));
            }
            self.ended.notify_all();
        }
        match &turns.failed {
            Some((failed, error)) if *failed >= mine => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn callers_that_come_during_a_sync_share_the_next_one() {
        let ((begun, begins), (end, results)) = (mpsc::channel(), mpsc::channel());
        let (shared, results) = (SharedSync::default(), Mutex::new(results));
        let sync = |extent| {
            begun.send(extent).unwrap();
            results.lock().unwrap().recv().unwrap()
        };
        let run = |extent| shared.run(extent, sync);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run(SyncExtent::Data));
            assert_eq!(begins.recv(), Ok(SyncExtent::Data));
            // They must not count on the one that runs: it may have passed by what they have changed.
            let extent = |n| if n == 7 { SyncExtent::All } else { SyncExtent::Data };
            let later: Vec<_> = (0..20).map(|n| scope.spawn(move || run(extent(n)))).collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while shared.turns().waiting < 20 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(begins.try_recv().is_err(), "two syncs ran at a time");
            end.send(Ok(())).unwrap();
            assert_eq!(first.join().unwrap(), Ok(()));
            assert_eq!(begins.recv(), Ok(SyncExtent::All), "one of them needs the attributes");
            end.send(Err("lost")).unwrap();
            assert!(later.into_iter().all(|call| call.join().unwrap() == Err("lost")));
        });
        assert!(begins.try_recv().is_err(), "one sync serves them all");
        end.send(Ok(())).unwrap();
        assert_eq!(run(SyncExtent::Data), Ok(()));
    }
}
