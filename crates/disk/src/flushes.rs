//! Flushes, of which none succeeds after one has failed.
//!
//! The kernel reports lost data once for each open file, and the device its own failure once. Later syncs succeed, though
//! the data is gone. A disk has several clients, and each relies on its own flush: so the first failure is kept until the
//! disk is opened again, as qemu-nbd does.

use onego_service::{SharedSync, SyncExtent};
use rustix::io::Errno;
use std::fs::File;
use std::sync::OnceLock;

/// The flushes of a disk, for all of its clients.
#[derive(Debug)]
pub(crate) struct Flushes {
    /// Open for these alone, so that no write takes a report of lost data away. `None`: the file could not be opened again.
    file: Option<File>,
    shared: SharedSync<Errno>,
    failed: OnceLock<Errno>,
    /// Fails the next sync.
    #[cfg(test)]
    pub(crate) fault: std::sync::Mutex<Option<Errno>>,
}

impl Flushes {
    /// `file` is the disk, opened for nothing else.
    pub(crate) fn new(file: Option<File>) -> Self {
        Self {
            file,
            shared: SharedSync::default(),
            failed: OnceLock::new(),
            #[cfg(test)]
            fault: std::sync::Mutex::default(),
        }
    }

    fn sync(&self, file: &File) -> Result<(), Errno> {
        #[cfg(test)]
        if let Some(fault) = self.fault.lock().unwrap().take() {
            return Err(fault);
        }
        rustix::fs::fdatasync(file)
    }

    /// Makes everything durable that was written before this call. `file` serves where the disk could not be opened again.
    pub(crate) fn flush(&self, file: &File) -> Result<(), Errno> {
        self.shared.run(SyncExtent::Data, |_| {
            self.check()?;
            self.sync(self.file.as_ref().unwrap_or(file)).inspect_err(|error| self.note_failure(*error))
        })
    }

    /// Returns the error of an earlier flush.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        self.failed.get().map_or(Ok(()), |error| Err(*error))
    }

    /// Makes all later flushes fail.
    pub(crate) fn note_failure(&self, error: Errno) {
        if self.failed.set(error).is_ok() {
            tracing::error!(%error, "a flush of a disk failed: all later ones fail, too");
        }
    }
}
