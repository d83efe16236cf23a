//! Durable length of an unfinished copy, recorded after each sync.
//!
//! A file's size says nothing of its bytes after a power cut: file systems may commit the size first. So the file is synced
//! while it is written, in a thread, and the record names the length only then.

use super::record::{Record, SLOT};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Amount of progress after which a copy is synced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncEvery {
    pub(crate) bytes: u64,
    /// For copies that need long for these bytes.
    pub(crate) time: Duration,
}

impl Default for SyncEvery {
    fn default() -> Self {
        Self { bytes: 64 << 20, time: Duration::from_secs(5) }
    }
}

/// Longest wait for the last sync of an interrupted copy: a disk may hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file and its record.
pub(super) struct Recorded {
    pub(super) file: File,
    pub(super) record: File,
    pub(super) noted: Record,
    /// The slot that is written next.
    pub(super) slot: u64,
    /// The directory of both, until their names are durable.
    pub(super) directory: Option<PathBuf>,
}

impl Recorded {
    /// Makes the first `done` bytes durable, and then records that.
    fn sync(&mut self, done: u64) -> io::Result<()> {
        if done <= self.noted.synced {
            return Ok(());
        }
        self.file.sync_data()?;
        self.noted.synced = done;
        // In turn: what the other slot says stays true.
        self.record.write_all_at(self.noted.slot().as_bytes(), self.slot * SLOT as u64)?;
        self.slot = 1 - self.slot;
        self.record.sync_data()?;
        if let Some(directory) = self.directory.take() {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }
}

/// State shared by a copy and its syncs.
pub(super) struct Shared {
    /// All bytes before this one are written.
    done: AtomicU64,
    recorded: Mutex<Recorded>,
}

impl Shared {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self) -> io::Result<()> {
        let mut recorded = self.recorded();
        let done = self.done.load(Ordering::Acquire);
        recorded.sync(done)
    }

    /// Records what an interrupted copy has come to. Best effort: an earlier length is as true.
    pub(super) fn sync_last(self: Arc<Self>) {
        let (ended, end) = mpsc::channel();
        let last = thread::Builder::new().spawn(move || {
            let _ = self.sync();
            let _ = ended.send(());
        });
        if last.is_ok() {
            let _ = end.recv_timeout(PATIENCE);
        }
    }
}

/// Syncs of a copy in progress.
pub(super) struct Durable {
    shared: Arc<Shared>,
    running: Option<JoinHandle<io::Result<()>>>,
    every: SyncEvery,
    /// When, and after how many bytes, the last sync began.
    since: Instant,
    begun_at: u64,
}

impl Durable {
    pub(super) fn new(recorded: Recorded, every: SyncEvery) -> Self {
        let begun_at = recorded.noted.synced;
        let shared = Shared { done: AtomicU64::new(begun_at), recorded: Mutex::new(recorded) };
        Self { shared: Arc::new(shared), running: None, every, since: Instant::now(), begun_at }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Syncs in the background now and then. Fails if an earlier sync failed: the system reports that once.
    pub(super) fn written(&mut self, done: u64) -> io::Result<()> {
        self.shared.done.store(done, Ordering::Release);
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return Ok(());
        }
        self.wait()?;
        let is_due = done >= self.begun_at + self.every.bytes
            || done > self.begun_at && self.since.elapsed() >= self.every.time;
        if is_due {
            (self.begun_at, self.since) = (done, Instant::now());
            let shared = self.shared();
            self.running = Some(thread::Builder::new().spawn(move || shared.sync())?);
        }
        Ok(())
    }

    /// Waits for a sync in progress, which also keeps the file locked.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        running.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs ended early")))
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}
