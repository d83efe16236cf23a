//! Carries out a journal's jobs on the files of a data directory.
//!
//! A failed write or sync leaves a file whose content is unknown. Nothing is tried again on it: after an error the journal
//! stops.

use super::files::{
    Files, LogId, NEWEST_LOG, PART, SPARE_CHECKPOINT, SPARE_LOG, checkpoint_name, checkpoints,
};
use super::log::Append;
use super::record::{seal, zeros_behind};
use super::snapshot::Snapshot;
use std::io::{self, Write as _};

/// Bytes of a checkpoint that are written before they are synced, so that the log's syncs do not have to wait for many.
const CHECKPOINT_STEP: u64 = 8 << 20;

/// Makes a file, out of the spare one if there is one.
fn make<F: Files>(files: &F, spare: &str, name: &str) -> io::Result<F::File> {
    match files.reuse(spare, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => files.create(name),
        made => made,
    }
}

/// Writes the log.
#[derive(Debug)]
pub struct Writer<F: Files> {
    log: F::File,
    id: LogId,
    /// Bytes of it.
    len: u64,
    /// Something that need not be durable was written and not flushed.
    unflushed: bool,
}

impl<F: Files> Writer<F> {
    /// Begins a log. All before must be durable.
    pub fn begin(files: &F, id: LogId) -> io::Result<Self> {
        // A life that ended before its first record has left an empty log of the same number.
        let empty = LogId::of(&files.names()?).into_iter().find(|log| log.first == id.first);
        let old = empty.map_or_else(|| SPARE_LOG.to_owned(), |log| log.to_string());
        let mut log = make(files, &old, &id.to_string())?;
        files.sync(&mut log)?;
        files.sync_names()?;
        note_newest(files, id)?;
        Ok(Self { log, id, len: 0, unflushed: false })
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
            if append.aligned {
                self.fill_block()?;
            }
            self.len += append.bytes.len() as u64;
            files.append(&mut self.log, append.bytes)?;
            end = append.last;
            sync |= append.sync;
        }
        self.unflushed = !sync;
        if !sync {
            return Ok(None);
        }
        self.fill_block()?;
        files.sync(&mut self.log)?;
        Ok(Some(end))
    }

    /// Adds zeros up to the end of the block. What is durable is never written again, so nothing else comes to its block.
    fn fill_block(&mut self) -> io::Result<()> {
        let zeros = zeros_behind(self.len);
        self.len += zeros.len() as u64;
        self.log.write_all(zeros)
    }

    /// Is there something to [`flush`](Self::flush) once there is nothing else to do?
    pub fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Gives to the files what need not be durable.
    pub fn flush(&mut self) -> io::Result<()> {
        self.unflushed = false;
        self.fill_block()?;
        self.log.flush()
    }

    /// Returns whether the log has space for more records than are in flight.
    pub fn has_reserve(&mut self, files: &F) -> bool {
        files.has_reserve(&mut self.log)
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
        *self = Self::begin(files, LogId { first, ..self.id })?;
        Ok(())
    }
}

/// Notes which log is the newest, once its name is durable. Each log says where it ends, but nothing in the others says that
/// it exists.
fn note_newest<F: Files>(files: &F, id: LogId) -> io::Result<()> {
    let part = format!("{NEWEST_LOG}{PART}");
    let mut file = files.create(&part)?;
    writeln!(file, "{id}")?;
    files.finish(&mut file)?;
    files.rename(&part, NEWEST_LOG)?;
    files.sync_names()
}

/// Writes a checkpoint, and removes the logs and checkpoints that it stands for. Returns its size.
pub fn write_checkpoint<F: Files>(files: &F, snapshot: Snapshot) -> io::Result<u64> {
    let before = snapshot.before;
    let name = checkpoint_name(before);
    let part = format!("{name}{PART}");
    let mut file = make(files, SPARE_CHECKPOINT, &part)?;
    let (mut size, mut synced) = (0, 0);
    for (sequence, entry) in (1..).zip(snapshot.into_entries()) {
        let record = seal(sequence, sequence - 1, 0, size, entry.encode());
        size += record.len() as u64;
        files.append(&mut file, record)?;
        if size - synced >= CHECKPOINT_STEP {
            let zeros = zeros_behind(size);
            size += zeros.len() as u64;
            file.write_all(zeros)?;
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

/// Removes the unfinished checkpoint before the record of this number.
pub(crate) fn discard_checkpoint<F: Files>(files: &F, before: u64) -> io::Result<()> {
    files.remove(&format!("{}{PART}", checkpoint_name(before)))
}

/// Returns whether a full disk refused space, before any byte was written to it.
pub(crate) fn is_refused_space(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull && error.raw_os_error().is_none()
}

/// Removes what a checkpoint stands for: everything of before the record of this number. The newest file of each kind is kept to be
/// written anew.
pub(super) fn remove_old<F: Files>(files: &F, before: u64) -> io::Result<()> {
    let names = files.names()?;
    let logs = LogId::of(&names).into_iter().rev().filter(|log| log.first < before);
    spare(files, logs.map(|log| log.to_string()), SPARE_LOG)?;
    let checkpoints = checkpoints(&names).into_iter().rev().filter(|number| *number < before);
    spare(files, checkpoints.map(checkpoint_name), SPARE_CHECKPOINT)
}

/// Keeps the first of these files under that name, and removes the others.
fn spare<F: Files>(files: &F, mut names: impl Iterator<Item = String>, spare: &str) -> io::Result<()> {
    if let Some(newest) = names.next() {
        files.rename(&newest, spare)?;
    }
    names.try_for_each(|name| files.remove(&name))
}
