//! Flushes, of which none succeeds after one has failed.
//!
//! The kernel reports lost data once for each open file, and the device its own failure once. Later syncs succeed, though
//! the data is gone. A disk has several clients, and each relies on its own flush: so the first failure is kept until the
//! disk is opened again, as qemu-nbd does.

use crate::disk::{Opened, reopen};
use onego_block::Error;
use onego_service::{SharedSync, SyncExtent};
use rustix::fs::OFlags;
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
    pub(crate) fn new(file: &File, access: OFlags) -> Self {
        Self {
            file: reopen(file, access).ok(),
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
}

impl Opened {
    /// Makes everything durable that was written before this call.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let Flushes { file, shared, failed, .. } = &self.flushes;
        let result = shared.run(SyncExtent::Data, |_| {
            if let Some(error) = failed.get() {
                return Err(*error);
            }
            let result = self.flushes.sync(file.as_ref().unwrap_or(&self.file));
            result.inspect_err(|error| self.note_failure(*error))
        });
        result.map_err(|error| self.flush_failed(error))
    }

    /// The result of a write. One that should have been durable and was not says as much as a flush: the device may have
    /// lost what others wrote, too.
    pub(crate) fn written(&self, result: Result<(), Errno>, fua: bool) -> Result<(), Error> {
        let flushes = &self.flushes;
        if let (true, Some(error)) = (fua, flushes.failed.get()) {
            return Err(self.flush_failed(*error));
        }
        result.map_err(|error| {
            if fua && error == Errno::IO {
                self.note_failure(error);
            }
            self.failed(error)
        })
    }

    fn note_failure(&self, error: Errno) {
        if self.flushes.failed.set(error).is_ok() {
            tracing::error!(path = %self.path.display(), %error, "a flush failed: all later ones fail, too");
        }
    }

    fn flush_failed(&self, error: Errno) -> Error {
        let text = format!(
            "{}: a flush failed ({}), and data that was written before may be lost: check it, and open it again",
            self.path.display(),
            std::io::Error::from(error)
        );
        Error::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::Disk;
    use crate::operation::Operation;
    use onego_block::{Error, Flags, Op};
    use onego_buf::{List, Pool};
    use rustix::io::Errno;

    fn run(disk: &Disk, op: Op, fua: bool) -> Result<(), Error> {
        let flags = Flags { fua, ..Flags::default() };
        Operation { offset: 0, op, flags }.run(disk.opened(), &Pool::new(1 << 20)).map(drop)
    }

    fn write() -> Op {
        Op::Write { data: List::from(vec![1; 512]) }
    }

    #[test]
    fn no_client_flushes_a_disk_after_a_flush_failed_until_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, [0; 8192]).unwrap();
        for first in [Op::Flush, Op::Trim { length: 4096 }, Op::Zero { length: 4096 }] {
            let disk = Disk::open(&path, false).unwrap();
            let other = disk.clone();
            run(&disk, write(), false).unwrap();
            *disk.opened().flushes.fault.lock().unwrap() = Some(Errno::IO);
            let text = run(&disk, first, true).unwrap_err().to_string();
            assert!(text.contains("a flush failed (Input/output error"), "{text}");
            for (op, fua) in [(Op::Flush, false), (write(), true), (Op::Zero { length: 512 }, true)] {
                run(&other, op, fua).expect_err("a flush that relies on lost data");
            }
            // These promise nothing.
            run(&other, write(), false).unwrap();
            run(&other, Op::Read { length: 512 }, false).unwrap();
        }
        let disk = Disk::open(&path, false).unwrap();
        run(&disk, Op::Flush, false).unwrap();
        run(&disk, write(), true).unwrap();
    }
}
