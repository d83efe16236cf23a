//! Carries out a journal's jobs on the files of a data directory.
//!
//! A failed write or sync leaves a file of which nobody knows what it has. Nothing is tried again on it: whoever gets an
//! error stops.

use super::files::{Files, PART, checkpoint_name, log_name, numbers};
use super::log::Append;
use super::record::seal;
use super::snapshot::Snapshot;
use onego_buf::List;
use std::io::{self, Write};

/// Parts of a gathered write, at most (Linux: `UIO_MAXIOV`).
const MAX_PARTS: usize = 1024;

/// Bytes of a checkpoint that are written before they are synced, so that the log's syncs do not have to wait for many.
const CHECKPOINT_STEP: u64 = 8 << 20;

/// Writes the log.
#[derive(Debug)]
pub struct Writer<F: Files> {
    log: F::File,
}

impl<F: Files> Writer<F> {
    /// Begins a log whose first record has this number. All before must be durable.
    pub fn begin(files: &F, first: u64) -> io::Result<Self> {
        let log = files.create(&log_name(first))?;
        files.sync(&log)?;
        files.sync_names()?;
        Ok(Self { log })
    }

    /// Appends to the log, and syncs it once for all if any of it asks for that. Returns the last record that is durable
    /// then, if that may be told.
    pub fn append(
        &mut self,
        files: &F,
        appends: impl IntoIterator<Item = Append>,
    ) -> io::Result<Option<u64>> {
        let (mut bytes, mut end, mut sync) = (List::new(), 0, false);
        for append in appends {
            bytes.append(append.bytes);
            end = append.last;
            sync |= append.sync;
        }
        write_gathered(&mut self.log, bytes)?;
        if !sync {
            return Ok(None);
        }
        files.sync(&self.log)?;
        Ok(Some(end))
    }

    /// Ends the log and begins the next one, whose first record has this number.
    pub fn rotate(&mut self, files: &F, first: u64) -> io::Result<()> {
        files.sync(&self.log)?;
        *self = Self::begin(files, first)?;
        Ok(())
    }
}

fn write_gathered(file: &mut impl Write, mut bytes: List) -> io::Result<()> {
    while !bytes.is_empty() {
        let parts: Vec<io::IoSlice<'_>> = bytes.io_slices(MAX_PARTS).collect();
        match file.write_vectored(&parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes.advance(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a checkpoint, and removes the logs and checkpoints that it stands for. Returns its size.
pub fn write_checkpoint<F: Files>(files: &F, snapshot: Snapshot) -> io::Result<u64> {
    let before = snapshot.before;
    let name = checkpoint_name(before);
    let part = format!("{name}{PART}");
    let mut file = files.create(&part)?;
    let (mut size, mut synced) = (0, 0);
    for (sequence, entry) in (1..).zip(snapshot.into_entries()) {
        let body = entry.encode();
        let record = seal(sequence, sequence - 1, body.front, body.payload);
        size += record.len() as u64;
        write_gathered(&mut file, record)?;
        if size - synced >= CHECKPOINT_STEP {
            files.sync(&file)?;
            synced = size;
        }
    }
    files.sync(&file)?;
    files.rename(&part, &name)?;
    files.sync_names()?;
    remove_old(files, before)?;
    Ok(size)
}

/// Removes what a checkpoint stands for: everything of before the record of this number.
pub(super) fn remove_old<F: Files>(files: &F, before: u64) -> io::Result<()> {
    let names = files.names()?;
    for first in numbers(&names, "log").into_iter().filter(|first| *first < before) {
        files.remove(&log_name(first))?;
    }
    for older in numbers(&names, "checkpoint").into_iter().filter(|other| *other < before) {
        files.remove(&checkpoint_name(older))?;
    }
    Ok(())
}
