//! The cluster's log: what happened to the cluster, and who gave which command.
//!
//! Source: ceph `src/mon/LogMonitor.cc` (subscriptions, `log last`), `src/mon/Monitor.cc` (what is audited).

use super::text::stamp;
use onego_ceph::messages::{LogEntry, LogLevel};
use std::collections::VecDeque;

/// What the cluster itself says.
pub(in crate::mon) const CLUSTER: &str = "cluster";
/// The channel of commands and the users that gave them.
pub(in crate::mon) const AUDIT: &str = "audit";

/// Entries that outlive a restart, the newest of all channels. With [`MAX_TEXT`] that is 4 MiB at most.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// Entries for debugging: they help to follow what goes on, come with every command, and push nothing else out.
const MAX_DEBUG_ENTRIES: usize = 250;

/// Bytes of one entry's text. Commands may be longer; their beginning tells them apart.
const MAX_TEXT: usize = 4096;

/// The log, numbered: each entry is a version of its own.
#[derive(Debug, Clone, Default)]
pub(in crate::mon) struct ClusterLog {
    /// By version, as those for debugging are.
    pub(in crate::mon) entries: VecDeque<(u64, LogEntry)>,
    pub(in crate::mon) debug: VecDeque<(u64, LogEntry)>,
    /// The version of the newest entry.
    pub(in crate::mon) version: u64,
    /// The number of the monitor's newest entry in this life.
    pub(in crate::mon) seq: u64,
    /// Entries for the journal.
    pub(in crate::mon) fresh: Vec<LogEntry>,
}

impl ClusterLog {
    /// The log of a later life, with what was kept. Versions go on where nobody has seen any yet.
    pub(in crate::mon) fn restore(kept: Vec<LogEntry>, life: u32) -> Self {
        let mut log = Self::default();
        kept.into_iter().for_each(|entry| log.push(entry));
        log.version = u64::from(life) << 32;
        log
    }

    pub(in crate::mon) fn push(&mut self, mut entry: LogEntry) {
        if entry.text.len() > MAX_TEXT {
            entry.text.truncate(entry.text.floor_char_boundary(MAX_TEXT));
        }
        self.version += 1;
        let (entries, most) = match entry.level {
            LogLevel::Debug => (&mut self.debug, MAX_DEBUG_ENTRIES),
            _ => (&mut self.entries, MAX_ENTRIES),
        };
        if entries.len() == most {
            entries.pop_front();
        }
        entries.push_back((self.version, entry));
    }

    /// The entries that `wants` takes, from version `from` on: the newest first, up to `count` of them.
    pub(in crate::mon) fn newest(
        &self,
        from: u64,
        count: usize,
        wants: impl Fn(&LogEntry) -> bool,
    ) -> Vec<&LogEntry> {
        let (mut entries, mut debug) =
            (self.entries.iter().rev().peekable(), self.debug.iter().rev().peekable());
        let mut newest = Vec::new();
        while newest.len() < count {
            let version = |entry: Option<&&(u64, LogEntry)>| entry.map_or(0, |(version, _)| *version);
            let from_debug = version(debug.peek()) > version(entries.peek());
            let next = if from_debug { debug.next() } else { entries.next() };
            match next {
                Some((version, entry)) if *version >= from => {
                    newest.extend(Some(entry).filter(|entry| wants(entry)));
                }
                _ => break,
            }
        }
        newest
    }

    /// All that a restart needs. Entries for debugging are not among it, because the answer to each command would have to
    /// wait until they are durable.
    pub(in crate::mon) fn kept(&self) -> Vec<LogEntry> {
        self.entries.iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The newest entries of a channel ("*": of all), at least of a level, the oldest first.
    pub(in crate::mon) fn last(&self, count: usize, level: LogLevel, channel: &str) -> Vec<&LogEntry> {
        let wants = |entry: &LogEntry| entry.level >= level && (channel == "*" || channel == entry.channel);
        let mut last = self.newest(0, count, wants);
        last.reverse();
        last
    }

    /// Entries at least of a level from a version on; 0: the newest of them alone.
    pub(in crate::mon) fn since(&self, version: u64, level: LogLevel) -> Vec<LogEntry> {
        let count = if version == 0 { 1 } else { usize::MAX };
        let newest = self.newest(version, count, |entry| entry.level >= level);
        newest.into_iter().rev().cloned().collect()
    }
}

/// An entry in a line.
pub(in crate::mon) fn line(entry: &LogEntry) -> String {
    let LogEntry { name, rank, stamp: when, seq, channel, level, text, .. } = entry;
    format!("{} {name} ({rank}) {seq} : {channel} {} {text}", stamp(*when), level.tag())
}
