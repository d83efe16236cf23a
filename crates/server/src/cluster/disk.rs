//! The threads that carry out the jobs of a cluster's journal: one for the log, and one for a checkpoint while it is
//! written.

use crate::journal::{Append, DataError, Directory, Done, Job, Snapshot, Writer, write_checkpoint};
use onego_engine::Waker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time without a job after which the log's thread writes what need not be durable. Before, a write would only be in the way
/// of the next sync.
const IDLE: Duration = Duration::from_millis(20);

/// Carries out jobs. What was handed over is still written when this is dropped.
pub(super) struct Disk {
    jobs: Option<Sender<Job>>,
    results: Receiver<Result<Done, DataError>>,
    thread: Option<JoinHandle<()>>,
}

impl Disk {
    /// Begins a log in a directory, whose first record has this number. `waker` is woken when there are results.
    pub(super) fn start(directory: Directory, first: u64, waker: Waker) -> Result<Self, DataError> {
        let failed = |source| DataError::Files { what: "beginning a log", source };
        let writer = Writer::begin(&directory, first).map_err(failed)?;
        let (jobs, inbox) = channel();
        let (results, outbox) = channel();
        let tell = Tell { results, waker };
        let body =
            move || Thread { directory: Arc::new(directory), writer, tell, checkpoint: None }.run(&inbox);
        let thread = std::thread::Builder::new().name("onego-log".into()).spawn(body);
        let thread =
            thread.map_err(|source| DataError::Files { what: "starting the log's thread", source })?;
        Ok(Self { jobs: Some(jobs), results: outbox, thread: Some(thread) })
    }

    /// Hands a job over.
    pub(super) fn carry_out(&self, job: Job) {
        // A thread that has failed has said so: see `result`.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    /// What became of a job, if any has come to an end. After an error nothing is carried out any more.
    pub(super) fn result(&self) -> Option<Result<Done, DataError>> {
        self.results.try_recv().ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Tells results.
#[derive(Clone)]
struct Tell {
    results: Sender<Result<Done, DataError>>,
    waker: Waker,
}

impl Tell {
    /// Returns whether all is well.
    fn tell(&self, what: &'static str, result: io::Result<Option<Done>>) -> bool {
        let result = result.map_err(|source| DataError::Files { what, source });
        let is_well = result.is_ok();
        if let Some(result) = result.transpose() {
            // Whoever is not there any more need not know.
            let _ = self.results.send(result);
            self.waker.wake();
        }
        is_well
    }
}

/// The log's thread.
struct Thread {
    directory: Arc<Directory>,
    writer: Writer<Directory>,
    tell: Tell,
    /// The last checkpoint's thread.
    checkpoint: Option<JoinHandle<()>>,
}

impl Thread {
    fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(first) = self.next(jobs) {
            // All that has come while the last sync ran goes into the next one.
            let (mut appends, mut checkpoint) = (Vec::new(), None);
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Append(append) => appends.push(append),
                    Job::Checkpoint(snapshot) => {
                        checkpoint = Some(snapshot);
                        break;
                    }
                }
                next = jobs.try_recv().ok();
            }
            if !self.append(appends) || !checkpoint.is_none_or(|snapshot| self.begin_checkpoint(*snapshot)) {
                break;
            }
        }
        if let Some(thread) = self.checkpoint.take() {
            let _ = thread.join();
        }
    }

    /// Waits for a job. `None`: there will be none any more, or the log has failed.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        if self.writer.is_unflushed() {
            match jobs.recv_timeout(IDLE) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {
                    let flushed = self.writer.flush();
                    if !self.tell.tell("writing to the log", flushed.map(|()| None)) {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        let job = jobs.recv().ok();
        if job.is_none() {
            // A log that is not finished is as good, but longer, and takes a moment more to be read.
            let finished = self.writer.finish(&self.directory);
            self.tell.tell("ending the log", finished.map(|()| None));
        }
        job
    }

    fn append(&mut self, appends: Vec<Append>) -> bool {
        if appends.is_empty() {
            return true;
        }
        let written = self.writer.append(&*self.directory, appends);
        self.tell.tell("writing to the log", written.map(|durable| durable.map(Done::Durable)))
    }

    fn begin_checkpoint(&mut self, snapshot: Snapshot) -> bool {
        let begun = self.writer.rotate(&*self.directory, snapshot.before());
        if !self.tell.tell("beginning a log", begun.map(|()| None)) {
            return false;
        }
        let (directory, tell) = (Arc::clone(&self.directory), self.tell.clone());
        let body = move || {
            let written = write_checkpoint(&*directory, snapshot);
            tell.tell("writing a checkpoint", written.map(|size| Some(Done::Checkpoint(size))));
        };
        // Only one is under way at a time, so that the thread of the one before has ended.
        match std::thread::Builder::new().name("onego-ckpt".into()).spawn(body) {
            Ok(thread) => self.checkpoint = Some(thread),
            Err(error) => return self.tell.tell("starting a checkpoint", Err(error)),
        }
        true
    }
}
