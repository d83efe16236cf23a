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

/// Bytes of a checkpoint that are written before they are synced, so that the log's syncs do not have to wait for many.
const CHECKPOINT_STEP: u64 = 8 << 20;

/// Writes the log.
#[derive(Debug)]
pub struct Writer<F: Files> {
    log: F::File,
    /// Something that need not be durable was written and not flushed.
    unflushed: bool,
}

impl<F: Files> Writer<F> {
    /// Begins a log whose first record has this number. All before must be durable.
    pub fn begin(files: &F, first: u64) -> io::Result<Self> {
        let mut log = files.create(&log_name(first))?;
        files.sync(&mut log)?;
        files.sync_names()?;
        Ok(Self { log, unflushed: false })
    }

    /// Appends to the log, and syncs it once for all if any of it asks for that. Returns the last record that is durable
    /// then, if that may be told.
    pub fn append(
        &mut self,
        files: &F,
        appends: impl IntoIterator<Item = Append>,
    ) -> io::Result<Option<u64>> {
        let (mut end, mut sync) = (0, false);
        for append in appends {
            write(&mut self.log, &append.bytes)?;
            end = append.last;
            sync |= append.sync;
        }
        self.unflushed = !sync;
        if !sync {
            return Ok(None);
        }
        files.sync(&mut self.log)?;
        Ok(Some(end))
    }

    /// Is there something to [`flush`](Self::flush) once there is nothing else to do?
    pub fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Gives to the files what need not be durable.
    pub fn flush(&mut self) -> io::Result<()> {
        self.unflushed = false;
        self.log.flush()
    }

    /// Ends the log.
    pub fn finish(&mut self, files: &F) -> io::Result<()> {
        self.unflushed = false;
        files.finish(&mut self.log)
    }

    /// Ends the log and begins the next one, whose first record has this number.
    pub fn rotate(&mut self, files: &F, first: u64) -> io::Result<()> {
        // Only the last log may have something behind its last record, so this one ends before the next one begins.
        self.finish(files)?;
        *self = Self::begin(files, first)?;
        Ok(())
    }
}

fn write(file: &mut impl Write, bytes: &List) -> io::Result<()> {
    bytes.segments().try_for_each(|segment| file.write_all(segment))
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
        write(&mut file, &record)?;
        if size - synced >= CHECKPOINT_STEP {
            files.sync(&mut file)?;
            synced = size;
        }
    }
    files.finish(&mut file)?;
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
