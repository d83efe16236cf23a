use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Maximum time to wait for a new snapshot. If the thread stays busy for longer, the previous snapshot is returned.
const PATIENCE: Duration = Duration::from_millis(100);

/// A snapshot of data in a thread's plain memory, taken by that thread when another one requests it. Checking for
/// requests costs the thread a single load.
#[derive(Debug, Default)]
pub struct Published<T> {
    asked: AtomicBool,
    latest: Mutex<Latest<T>>,
    published: Condvar,
}

#[derive(Debug, Default)]
struct Latest<T> {
    value: T,
    /// Number of snapshots so far.
    number: u64,
}

impl<T: Clone> Published<T> {
    /// Publishes a snapshot if one was requested. To be called by the owning thread, once per wake-up.
    #[inline]
    pub fn answer(&self, make: impl FnOnce() -> T) {
        if self.asked.load(Ordering::Relaxed) {
            self.publish(make());
        }
    }

    /// Publishes a snapshot unconditionally.
    #[cold]
    pub fn publish(&self, value: T) {
        // Cleared first: later requests need another snapshot.
        self.asked.store(false, Ordering::SeqCst);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Latest { value, number: latest.number + 1 };
        self.published.notify_all();
    }

    /// Requests a snapshot; `wake` must wake the owning thread. Returns the previous snapshot after 100 ms.
    pub fn ask(&self, wake: impl FnOnce()) -> T {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let number = latest.number;
        self.asked.store(true, Ordering::SeqCst);
        wake();
        let is_old = |latest: &mut Latest<T>| latest.number == number;
        let waited = self.published.wait_timeout_while(latest, PATIENCE, is_old);
        waited.unwrap_or_else(PoisonError::into_inner).0.value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_snapshot_is_only_taken_on_request() {
        let published = Published::<u32>::default();
        let (wake, woken) = channel::<()>();
        published.answer(|| unreachable!("no request"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (number, ()) in (1..).zip(woken) {
                    published.answer(|| number);
                }
            });
            let ask = || published.ask(|| wake.send(()).unwrap());
            assert_eq!((ask(), ask()), (1, 2));
            drop(wake);
        });
        published.answer(|| unreachable!("no further request"));
    }

    #[test]
    fn an_unresponsive_thread_yields_the_previous_snapshot() {
        let published = Published::<u32>::default();
        published.publish(7);
        assert_eq!(published.ask(|| ()), 7);
    }
}
