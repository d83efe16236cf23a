//! Futures that run on the threads that wake them: mostly the reactor's, which has just brought what they wait for.
//!
//! So an answer needs no other thread to become a completion. Nothing in such a future may block.

use super::lock::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

struct Task<F> {
    /// Wake-ups that the future has not been polled for. The thread that adds the first one polls.
    wakes: AtomicUsize,
    /// `None`: it has ended. Only the thread that polls takes the lock.
    future: Mutex<Option<F>>,
}

/// Begins a future at once, on this thread.
pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) {
    begin(future);
}

/// The same; what is returned ends it before its time.
pub(super) fn begin<F: Future<Output = ()> + Send + 'static>(future: F) -> Arc<dyn Cancel> {
    let task = Arc::new(Task { wakes: AtomicUsize::new(0), future: Mutex::new(Some(future)) });
    Arc::clone(&task).wake();
    task
}

/// Something under way that can be ended.
pub(super) trait Cancel: Send + Sync {
    /// Drops the future, if it has not ended.
    fn cancel(&self);
}

impl<F: Future<Output = ()> + Send> Cancel for Task<F> {
    fn cancel(&self) {
        // Where it is, because it is pinned. What it holds calls nobody: completions are given to the thread for that.
        *lock(&self.future) = None;
    }
}

impl<F: Future<Output = ()> + Send + 'static> Wake for Task<F> {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let waker = Waker::from(Arc::clone(&self));
        let mut seen = 1;
        loop {
            self.poll(&waker);
            match self.wakes.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(more) => seen = more,
            }
        }
    }
}

impl<F: Future<Output = ()>> Task<F> {
    fn poll(&self, waker: &Waker) {
        let mut slot = lock(&self.future);
        let Some(future) = slot.as_mut() else { return };
        // SAFETY: the future stays in its place in the `Arc` until it is dropped there.
        let future = unsafe { Pin::new_unchecked(future) };
        // A future that panics has ended: what it holds says so when it is dropped.
        let polled =
            catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(waker)).is_ready()));
        if polled.unwrap_or(true) {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicBool;
    use std::task::Poll;

    #[test]
    fn a_future_that_is_woken_while_it_runs_runs_again() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        spawn(poll_fn(move |cx| {
            if counted.fetch_add(1, Ordering::Relaxed) < 4 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        assert_eq!(runs.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_future_that_is_cancelled_is_dropped_once() {
        let held = Arc::new(());
        let holder = Arc::clone(&held);
        let task = begin(async move {
            std::future::pending::<()>().await;
            drop(holder);
        });
        assert_eq!(Arc::strong_count(&held), 2);
        task.cancel();
        task.cancel();
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_future_is_dropped_when_it_ends_also_by_a_panic() {
        struct Tell(Arc<AtomicBool>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let tell = Tell(Arc::clone(&dropped));
        spawn(async move {
            let _tell = tell;
            panic!("this is a test");
        });
        assert!(dropped.load(Ordering::Relaxed));
    }
}
