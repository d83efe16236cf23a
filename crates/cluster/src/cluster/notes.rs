//! The journal of a cluster, and what of the daemons is in it.

use crate::journal::{Entry, Journal, Life, Restored};
use crate::mon::{Mon, MonSettings};
use onego_ceph::types::Epoch;

/// How the state of a cluster is kept.
#[derive(Debug)]
pub struct Keeping {
    /// What is kept already.
    pub restored: Restored,
    /// Bytes of a log from which on it is given up for a checkpoint, if the last checkpoint is not larger.
    pub log_limit: u64,
}

/// The journal, and what of the daemons is in it.
pub(super) struct Notes {
    pub(super) journal: Journal,
    /// The epoch of the newest map in the journal, and the record that it is in.
    pub(super) epoch: Epoch,
    pub(super) maps: u64,
    /// What else of the monitor is in it.
    pub(super) settings: MonSettings,
    pub(super) life: Life,
}

impl Notes {
    /// Begins to keep a cluster, or goes on, `mon` being its monitor.
    pub(super) fn begin(keeping: &Keeping, is_new: bool, life: Life, mon: &Mon) -> Self {
        let Restored { log, sizes, many_logs, .. } = keeping.restored;
        let mut journal = Journal::new(log, sizes, keeping.log_limit, many_logs);
        let settings = mon.settings();
        if is_new {
            let maps = mon.maps().kept();
            journal.append(&Entry::Monitor { maps, settings: settings.clone() });
            journal.append(&Entry::Maps(Vec::new()));
        }
        let maps = journal.append(&Entry::Started(life.clone()));
        Self { journal, epoch: mon.maps().epoch(), maps, settings, life }
    }

    /// The record that comes next.
    pub(super) fn next(&self) -> u64 {
        self.journal.next()
    }

    pub(super) fn add(&mut self, entry: &Entry) -> u64 {
        self.journal.append(entry)
    }

    /// The record that has to be durable.
    pub(super) fn record(&self, durability: Durability) -> u64 {
        match durability {
            Durability::Record(record) => record,
            Durability::NewestMap => self.maps,
            Durability::Everything => u64::MAX,
        }
    }
}

/// What has to be durable before a reply is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// A record.
    Record(u64),
    /// The newest map.
    NewestMap,
    /// All that was done so far.
    Everything,
}
