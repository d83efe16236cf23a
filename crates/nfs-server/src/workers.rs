//! Threads that carry calls out where the file system may block.

use super::directory::Directory;
use super::job::{Done, Job};
use onego_engine::Waker;
use onego_service::{Executor, Jobs, Outcomes};
use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Calls that are carried out at a time: enough that a few which wait for a disk do not hold up the others.
const THREADS: usize = 8;

/// Calls that wait for syncs at a time, and so the most that share one.
const SYNC_THREADS: usize = 32;

/// How often files are closed that no call has used in between.
const SWEEP: Duration = Duration::from_secs(5);

/// When files are closed next, by the thread that finds that it is time.
#[derive(Clone)]
struct Sweep(Arc<Mutex<Instant>>);

impl Sweep {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now() + SWEEP)))
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it time? `true` for one thread alone.
    fn is_due(&self) -> bool {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = *at <= now;
        if is_due {
            *at = now + SWEEP;
        }
        is_due
    }
}

/// The threads of a server.
pub(super) struct Workers {
    calls: Executor<Job, Done>,
    /// Calls whose changes have to be durable before their replies. They have threads of their own, so that no sync holds up
    /// a call that needs none.
    syncing: Option<Executor<Job, Done>>,
}

impl Workers {
    /// Starts the threads. `waker` is woken when calls have been carried out.
    pub(super) fn start(fs: &Directory, waker: &Waker) -> io::Result<Self> {
        let sweep = Sweep::new();
        let body = |_| {
            let (mut fs, sweep) = (fs.clone(), sweep.clone());
            move |jobs: Jobs<Job>, outcomes: Outcomes<Done>| {
                loop {
                    // Calls that never end must not keep files open: a sweep that is due comes first.
                    match jobs.take_before(sweep.at()) {
                        Ok(job) => outcomes.put(job.carry_out(&mut fs)),
                        Err(RecvTimeoutError::Timeout) if sweep.is_due() => fs.sweep(),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            }
        };
        let calls = Executor::start("onego-nfs-io", waker, (0..THREADS).map(body))?;
        let syncing = fs
            .syncs_changes()
            .then(|| {
                let body = |_| {
                    let mut fs = fs.clone();
                    move |jobs: Jobs<Job>, outcomes: Outcomes<Done>| {
                        while let Ok(job) = jobs.take() {
                            outcomes.put(job.carry_out(&mut fs));
                        }
                    }
                };
                Executor::start("onego-nfs-sync", waker, (0..SYNC_THREADS).map(body))
            })
            .transpose()?;
        Ok(Self { calls, syncing })
    }

    /// Has a call carried out.
    pub(super) fn submit(&self, job: Job) {
        match &self.syncing {
            Some(syncing) if job.may_wait_for_sync() => syncing.submit(job),
            _ => self.calls.submit(job),
        }
    }

    /// A call that was carried out, if there is one.
    pub(super) fn result(&self) -> Option<Done> {
        self.calls.result().or_else(|| self.syncing.as_ref()?.result())
    }
}
