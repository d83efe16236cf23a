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

/// Starts the threads. `waker` is woken when calls have been carried out.
pub(super) fn start(fs: &Directory, waker: &Waker) -> io::Result<Executor<Job, Done>> {
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
    Executor::start("onego-nfs-io", waker, (0..THREADS).map(body))
}
