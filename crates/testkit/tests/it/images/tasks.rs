//! Futures of a client, which run between the steps of a simulation.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Has a future something to do?
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task<J, R> {
    job: J,
    future: Pin<Box<dyn Future<Output = R>>>,
    flag: Arc<Flag>,
}

/// Futures that give an `R`, each with what it is for.
pub(crate) struct Tasks<J, R>(Vec<Task<J, R>>);

impl<J, R> Default for Tasks<J, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<J, R> Tasks<J, R> {
    pub(crate) fn start(&mut self, job: J, future: impl Future<Output = R> + 'static) {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.0.push(Task { job, future: Box::pin(future), flag });
    }

    /// Runs those that have something to do, until the first that is done.
    pub(crate) fn run(&mut self) -> Option<(J, R)> {
        for index in 0..self.0.len() {
            let task = &mut self.0[index];
            if !task.flag.0.swap(false, Ordering::Relaxed) {
                continue;
            }
            let waker = Waker::from(Arc::clone(&task.flag));
            if let Poll::Ready(result) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some((self.0.swap_remove(index).job, result));
            }
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &J> {
        self.0.iter().map(|task| &task.job)
    }
}
