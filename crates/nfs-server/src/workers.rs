//! Threads that carry calls out where the file system may block.

use super::directory::Directory;
use super::job::{Done, Job};
use onego_engine::Waker;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Calls that are carried out at a time: enough that a few which wait for a disk do not hold up the others.
const THREADS: usize = 8;

/// How often files are closed that nobody has used in between.
const SWEEP: Duration = Duration::from_secs(5);

/// What there is to do.
enum Next {
    Job(Job),
    /// Time to close files.
    Sweep,
}

/// Where the threads find it, one at a time.
struct Inbox {
    jobs: Receiver<Job>,
    sweep_at: Instant,
}

impl Inbox {
    /// Waits for something to do. `None`: there will be nothing more.
    fn next(&mut self) -> Option<Next> {
        let left = self.sweep_at.saturating_duration_since(Instant::now());
        // Calls that never end must not keep files open.
        if !left.is_zero() {
            match self.jobs.recv_timeout(left) {
                Ok(job) => return Some(Next::Job(job)),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.sweep_at = Instant::now() + SWEEP;
        Some(Next::Sweep)
    }
}

/// The threads. They end with this value, after the calls that they have.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts them. `waker` wakes whoever waits for what they have done.
    pub(super) fn start(fs: &Directory, waker: &Waker) -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel();
        let inbox = Arc::new(Mutex::new(Inbox { jobs: inbox, sweep_at: Instant::now() + SWEEP }));
        let start = |_| {
            let (mut fs, waker, outbox, inbox) =
                (fs.clone(), waker.clone(), outbox.clone(), Arc::clone(&inbox));
            let next = move || inbox.lock().unwrap_or_else(PoisonError::into_inner).next();
            let body = move || {
                while let Some(next) = next() {
                    match next {
                        Next::Job(job) => {
                            // Nobody may be there any more to be told.
                            let _ = outbox.send(job.carry_out(&mut fs));
                            waker.wake();
                        }
                        Next::Sweep => fs.sweep(),
                    }
                }
            };
            std::thread::Builder::new().name("onego-nfs-io".into()).spawn(body)
        };
        let threads = (0..THREADS).map(start).collect::<Result<_, _>>()?;
        Ok(Self { jobs: Some(jobs), done, threads })
    }

    /// Has a call carried out.
    pub(super) fn carry_out(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The threads end only with this value.
            let _ = jobs.send(job);
        }
    }

    /// What has been done, until there is nothing more.
    pub(super) fn result(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // Its panic, if it had one, was reported where it happened.
            let _ = thread.join();
        }
    }
}
