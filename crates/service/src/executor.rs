//! Threads for operations that block, so that the thread that moves bytes never does.

use onego_engine::Waker;
use std::io;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Threads that carry out jobs of type `J` and give results of type `R`. They end with this value, after the jobs that they
/// have.
#[derive(Debug)]
pub struct Executor<J, R> {
    jobs: Option<Sender<J>>,
    results: Receiver<R>,
    threads: Vec<JoinHandle<()>>,
}

/// Where the threads of an executor find their jobs.
#[derive(Debug)]
pub struct Jobs<J>(Arc<Mutex<Receiver<J>>>);

/// Where the threads of an executor leave their results.
#[derive(Debug)]
pub struct Outcomes<R> {
    results: Sender<R>,
    waker: Waker,
}

impl<J: Send + 'static, R: Send + 'static> Executor<J, R> {
    /// Starts a thread of that name for each of `bodies`. A body takes jobs until there are none any more. `waker` is woken
    /// when there are results.
    pub fn start<B>(name: &str, waker: &Waker, bodies: impl IntoIterator<Item = B>) -> io::Result<Self>
    where
        B: FnOnce(Jobs<J>, Outcomes<R>) + Send + 'static,
    {
        let (jobs, inbox) = channel();
        let (outbox, results) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        // Dropped if a thread cannot be started, which ends those that run.
        let mut executor = Self { jobs: Some(jobs), results, threads: Vec::new() };
        for body in bodies {
            let (jobs, waker) = (Jobs(Arc::clone(&inbox)), waker.clone());
            let outcomes = Outcomes { results: outbox.clone(), waker };
            let thread = std::thread::Builder::new().name(name.into());
            executor.threads.push(thread.spawn(move || body(jobs, outcomes))?);
        }
        Ok(executor)
    }
}

impl<J, R> Executor<J, R> {
    /// Has a job carried out.
    pub fn submit(&self, job: J) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended by itself has left the reason among the results.
            let _ = jobs.send(job);
        }
    }

    /// The next result, if there is one.
    pub fn result(&self) -> Option<R> {
        self.results.try_recv().ok()
    }
}

impl<J, R> Drop for Executor<J, R> {
    fn drop(&mut self) {
        // Without a sender the threads find that there are no more jobs, and end.
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Its panic, if it had one, was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl<J> Jobs<J> {
    /// One thread waits for a job at a time; the others wait for their turn.
    fn inbox(&self) -> MutexGuard<'_, Receiver<J>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job. An error: there will be none any more.
    pub fn take(&self) -> Result<J, RecvError> {
        self.inbox().recv()
    }

    /// Waits for a job until a time. Once that has passed, jobs stay for the next thread that asks.
    pub fn take_before(&self, end: Instant) -> Result<J, RecvTimeoutError> {
        let inbox = self.inbox();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RecvTimeoutError::Timeout);
        }
        inbox.recv_timeout(left)
    }

    /// The next job, if there is one already.
    pub fn take_ready(&self) -> Option<J> {
        self.inbox().try_recv().ok()
    }
}

impl<R> Clone for Outcomes<R> {
    fn clone(&self) -> Self {
        Self { results: self.results.clone(), waker: self.waker.clone() }
    }
}

impl<R> Outcomes<R> {
    /// Leaves a result, and wakes the pump.
    pub fn put(&self, result: R) {
        // The executor may be gone already, and its results with it.
        let _ = self.results.send(result);
        self.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_engine::{Engine as _, EngineKind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Doubles numbers until there are none any more, and counts those.
    fn double(count: &Arc<AtomicUsize>) -> impl FnOnce(Jobs<u32>, Outcomes<u32>) + Send + 'static {
        let count = Arc::clone(count);
        move |jobs, outcomes| {
            while let Ok(job) = jobs.take() {
                outcomes.put(job * 2);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn threads_share_the_jobs_and_end_after_the_last() {
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let bodies = (0..4).map(|_| double(&done));
        let executor = Executor::start("test", &engine.waker(), bodies).unwrap();
        (0..100).for_each(|job| executor.submit(job));
        let mut results = Vec::new();
        while results.len() < 50 {
            results.extend(executor.result());
        }
        assert!(results.iter().all(|result| result % 2 == 0));
        drop(executor);
        assert_eq!(done.load(Ordering::Relaxed), 100, "what was handed over is carried out");
    }

    #[test]
    fn a_time_that_has_passed_comes_before_jobs() {
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let body = |jobs: Jobs<u32>, outcomes: Outcomes<Result<u32, RecvTimeoutError>>| {
            let soon = || Instant::now() + Duration::from_secs(60);
            outcomes.put(jobs.take_before(soon()));
            outcomes.put(jobs.take_before(Instant::now()));
            outcomes.put(jobs.take_ready().ok_or(RecvTimeoutError::Timeout));
        };
        let executor = Executor::start("test", &engine.waker(), [body]).unwrap();
        executor.submit(1);
        executor.submit(2);
        let next = || std::iter::repeat_with(|| executor.result()).flatten().next().unwrap();
        assert_eq!([next(), next()], [Ok(1), Err(RecvTimeoutError::Timeout)]);
        assert_eq!(next(), Ok(2));
    }
}
