//! Reads what a data directory keeps: the newest checkpoint, and the logs since.

use super::entry::{Entry, Life};
use super::error::DataError;
use super::files::{Files, LogId, NEWEST_LOG, PART, checkpoint_name, checkpoints, newest_log};
use super::log::Sizes;
use super::record::{Next, Record, Records};
use super::snapshot::Kept;
use super::writer::remove_old;
use crate::mon::MapHistory;
use crate::osd;
use onego_ceph::types::Uuid;
use onego_msgr::auth::Keyring;
use onego_wire::{DecodeError, Decoded};

/// Logs that may be left of short lives before they are given up for a checkpoint.
const FEW_LOGS: usize = 8;

/// What a data directory keeps.
pub struct Restored {
    /// Nothing, if the directory is new.
    pub(crate) kept: Option<Kept>,
    /// The log that comes next.
    pub(crate) log: LogId,
    pub(crate) sizes: Sizes,
    /// There are too many logs: a checkpoint should replace them, however short they are.
    pub(crate) many_logs: bool,
}

impl std::fmt::Debug for Restored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Restored({})", self.log)
    }
}

impl Restored {
    /// The log that comes next.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// The cluster's id, if there is one.
    pub fn fsid(&self) -> Option<Uuid> {
        self.kept.as_ref().map(|kept| kept.maps.newest().fsid)
    }

    /// The names of its OSDs' stores.
    pub(crate) fn osds(&self) -> Option<Vec<Uuid>> {
        self.kept.as_ref().map(|kept| kept.maps.newest().osd_uuid.clone())
    }

    /// Its last life, unless that ended before it had begun.
    pub(crate) fn life(&self) -> Option<&Life> {
        self.kept.as_ref().map(|kept| &kept.life).filter(|life| life.number > 0)
    }

    /// The users and their keys; none: nobody needs one, or there is no cluster.
    pub(crate) fn keyring(&self) -> Option<Keyring> {
        self.kept.as_ref()?.settings.keyring.clone()
    }

    /// Keys that are kept although clients need none.
    pub(crate) fn unchecked(&self) -> Option<Keyring> {
        self.kept.as_ref()?.settings.unchecked.clone()
    }

    /// What is kept in a directory. `memory_limit`: bytes that each OSD may hold; none: as many as it could in its last
    /// life. What a crash has left of a record at the end of the last log is cut off; all that is
    /// read is durable then. `salt`: a random number that no client can know, for the log that comes next.
    pub fn load<F: Files>(files: &F, memory_limit: Option<u64>, salt: u64) -> Result<Self, DataError> {
        // Whatever it holds fitted then.
        let memory_limit = memory_limit.unwrap_or(u64::MAX);
        let config = osd::Config { memory_limit, null_writes: false, transactions: true };
        let failed = |what: &'static str| move |source| DataError::Files { what, source };
        let names = files.names().map_err(failed("listing the directory"))?;
        for part in names.iter().filter(|name| name.ends_with(PART)) {
            files.remove(part).map_err(failed("removing what is not finished"))?;
        }
        let mut loader = Loader { files, config, kept: None, sizes: Sizes::default() };
        let before = checkpoints(&names).last().copied();
        if let Some(before) = before {
            loader.checkpoint(&checkpoint_name(before))?;
            remove_old(files, before).map_err(failed("removing what is old"))?;
        }
        let mut next = before.unwrap_or(1);
        let mut logs = LogId::of(&names);
        logs.retain(|log| log.first >= next);
        let missing = |first| Err(DataError::Missing { file: format!("log.{first:016x}.*") });
        // A checkpoint is begun together with the log after it.
        if before.is_some() && logs.is_empty() {
            return missing(next);
        }
        let newest = newest_log(files, &names);
        let newest =
            newest.map_err(|source| DataError::File { what: "read", file: NEWEST_LOG.to_owned(), source })?;
        // It may be empty, and be begun again with another salt.
        if let Some(first) =
            newest.filter(|first| *first >= next && !logs.iter().any(|log| log.first == *first))
        {
            return missing(first);
        }
        for (at, log) in logs.iter().enumerate() {
            if log.first != next {
                return missing(next);
            }
            next = loader.log(*log, at + 1 == logs.len())?;
        }
        files.sync_names().map_err(failed("syncing the directory"))?;
        let Loader { kept, sizes, .. } = loader;
        Ok(Self { kept, log: LogId { first: next, salt }, sizes, many_logs: logs.len() > FEW_LOGS })
    }
}

struct Loader<'a, F> {
    files: &'a F,
    config: osd::Config,
    kept: Option<Kept>,
    sizes: Sizes,
}

impl<F: Files> Loader<'_, F> {
    fn checkpoint(&mut self, name: &str) -> Result<(), DataError> {
        let failed = |source| DataError::File { what: "read", file: name.to_owned(), source };
        let (file, len) = self.files.open(name).map_err(failed)?;
        self.sizes.checkpoint = len;
        let (mut records, mut whole) = (Records::new(file, len, 0, 1), false);
        loop {
            match records.next().map_err(failed)? {
                Next::Record(record) => whole = self.record(name, record)?,
                Next::End if whole => return Ok(()),
                // It was made durable before it was given its name.
                Next::End => return Err(corrupt(name, len, "the checkpoint ends in the middle")),
                Next::Damage(offset) => {
                    return Err(corrupt(name, offset, "the checksum of a record is wrong"));
                }
            }
        }
    }

    /// Goes on by a log. Returns the number of the record behind its last one.
    fn log(&mut self, log: LogId, is_last: bool) -> Result<u64, DataError> {
        let name = log.to_string();
        let failed = |source| DataError::File { what: "read", file: name.clone(), source };
        let (file, len) = self.files.open(&name).map_err(failed)?;
        let mut records = Records::new(file, len, log.salt, log.first);
        let (next, end) = loop {
            match records.next().map_err(failed)? {
                Next::Record(record) => drop(self.record(&name, record)?),
                Next::End => break (records.sequence(), len),
                Next::Damage(offset) => {
                    let next = records.sequence();
                    if !is_last || records.was_durable().map_err(failed)? {
                        return Err(corrupt(&name, offset, "a record that was acknowledged is damaged"));
                    }
                    break (next, offset);
                }
            }
        };
        if is_last {
            if end < len {
                tracing::info!(file = name, offset = end, "the torn end of a log is cut off");
            }
            // What the last process wrote may be in memory only, and the clients served from now on rely on it.
            let failed = |source| DataError::File { what: "cut and sync", file: name.clone(), source };
            self.files.cut(&name, end).map_err(failed)?;
        }
        self.sizes.log += end;
        Ok(next)
    }

    /// Does what a record says. Returns whether it is the end of a checkpoint.
    fn record(&mut self, name: &str, record: Record) -> Result<bool, DataError> {
        let Record { offset, body, .. } = record;
        let entry = Entry::decode(&body).and_then(|entry| {
            let is_end = matches!(entry, Entry::End);
            self.apply(entry)?;
            Ok(is_end)
        });
        let is_end = entry.map_err(|error| corrupt(name, offset, &error.to_string()))?;
        if let Some((osd, usage)) = self.kept.as_ref().and_then(Kept::overfull) {
            let was = self.kept.as_ref().map_or(0, |kept| kept.life.memory_limit);
            return Err(DataError::TooLarge { osd, limit: usage.limit, was });
        }
        Ok(is_end)
    }

    fn apply(&mut self, entry: Entry) -> Decoded<()> {
        match (&mut self.kept, entry) {
            (kept @ None, Entry::Monitor { maps, settings }) => {
                *kept = Some(Kept::new(MapHistory::restore(&maps)?, settings, &self.config));
                Ok(())
            }
            (None, _) => Err(DecodeError::Invalid { what: "kind of the first record", value: 0 }),
            (Some(kept), entry) => kept.apply(entry),
        }
    }
}

fn corrupt(file: &str, offset: u64, what: &str) -> DataError {
    DataError::Corrupt { file: file.to_owned(), offset, what: what.to_owned() }
}
