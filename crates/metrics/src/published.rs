use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a reader waits for an answer. A thread that is busy for longer is described as it was before.
const PATIENCE: Duration = Duration::from_millis(100);

/// A snapshot of what a thread keeps in plain memory, which the thread makes when another one has asked for it. That costs the
/// thread one load of a flag where it looks.
#[derive(Debug, Default)]
pub struct Published<T> {
    asked: AtomicBool,
    latest: Mutex<Latest<T>>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Latest<T> {
    value: T,
    /// How many came.
    number: u64,
}

impl<T: Clone> Published<T> {
    /// Makes a snapshot if one was asked for. For the thread that has the figures, once each time that it is woken.
    #[inline]
    pub fn answer(&self, make: impl FnOnce() -> T) {
        if self.asked.load(Ordering::Relaxed) {
            self.publish(make());
        }
    }

    /// Publishes a snapshot, asked for or not.
    #[cold]
    pub fn publish(&self, value: T) {
        // Before: who asks from now on wants another one.
        self.asked.store(false, Ordering::SeqCst);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Latest { value, number: latest.number + 1 };
        self.came.notify_all();
    }

    /// Asks for a snapshot: `wake` makes the thread look. After a tenth of a second it gives the one of before.
    pub fn ask(&self, wake: impl FnOnce()) -> T {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let number = latest.number;
        self.asked.store(true, Ordering::SeqCst);
        wake();
        let is_old = |latest: &mut Latest<T>| latest.number == number;
        let waited = self.came.wait_timeout_while(latest, PATIENCE, is_old);
        waited.unwrap_or_else(PoisonError::into_inner).0.value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_snapshot_is_made_when_somebody_asks_and_only_then() {
        let published = Published::<u32>::default();
        let (wake, woken) = channel::<()>();
        published.answer(|| unreachable!("nobody has asked"));
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
        published.answer(|| unreachable!("nobody asks any more"));
    }

    #[test]
    fn a_thread_that_does_not_answer_is_described_as_it_was() {
        let published = Published::<u32>::default();
        published.publish(7);
        assert_eq!(published.ask(|| ()), 7);
    }
}
