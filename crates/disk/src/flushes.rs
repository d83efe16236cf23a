//! Flushes, none of which succeeds after one has failed.
//!
//! The kernel reports lost data once per open file, and the device its own failure once. Later syncs succeed although
//! the data is lost. A disk has several clients, each of which relies on its own flush. The first failure is therefore
//! kept until the disk is reopened, like in qemu-nbd.

use onego_service::{SharedSync, SyncExtent};
use rustix::io::Errno;
use std::fs::File;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Flushes {
    /// Opened only for flushes, so that no write consumes a report of lost data. `None` if reopening failed.
    file: Option<File>,
    shared: SharedSync<Errno>,
    failed: OnceLock<Errno>,
    /// Injects a failure into the next sync.
    #[cfg(test)]
    pub(crate) fault: std::sync::Mutex<Option<Errno>>,
}

impl Flushes {
    /// Creates the state; `file` is the disk, opened only for flushes.
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

    /// Makes all earlier writes durable. `file` is used if the disk could not be reopened.
    pub(crate) fn flush(&self, file: &File) -> Result<(), Errno> {
        self.shared.run(SyncExtent::Data, |_| {
            self.check()?;
            self.sync(self.file.as_ref().unwrap_or(file)).inspect_err(|error| self.note_failure(*error))
        })
    }

    pub(crate) fn check(&self) -> Result<(), Errno> {
        self.failed.get().map_or(Ok(()), |error| Err(*error))
    }

    pub(crate) fn note_failure(&self, error: Errno) {
        if self.failed.set(error).is_ok() {
            tracing::error!(%error, "flush failed: all later flushes of the disk will fail");
        }
    }
}
