//! The cluster's log: what happened to the cluster, and who gave which command.
//!
//! Source: ceph `src/mon/LogMonitor.cc` (subscriptions, `log last`), `src/mon/Monitor.cc` (what is audited).

use super::Mon;
use super::first_map::MON_NAME;
use super::subscriptions::LogWish;
use super::text::stamp;
use onego_ceph::messages::{Log, LogEntry, LogLevel};
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::Message;
use onego_msgr::auth::AuthName;
use onego_wire::{ConnId, Time};
use std::collections::VecDeque;

/// What the cluster itself says.
pub(super) const CLUSTER: &str = "cluster";
/// Who gave which command.
pub(super) const AUDIT: &str = "audit";

/// Entries that outlive a restart, the newest of all channels. With [`MAX_TEXT`] that is 4 MiB at most.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// Entries for debugging: they help to follow what goes on, come with every command, and push nothing else out.
const MAX_DEBUG_ENTRIES: usize = 250;

/// Bytes of one entry's text. Commands may be longer; their beginning tells them apart.
const MAX_TEXT: usize = 4096;

/// The log, numbered: each entry is a version of its own.
#[derive(Debug, Clone, Default)]
pub(super) struct ClusterLog {
    /// By version, as those for debugging are.
    entries: VecDeque<(u64, LogEntry)>,
    debug: VecDeque<(u64, LogEntry)>,
    /// The version of the newest entry.
    version: u64,
    /// The number of the monitor's newest entry in this life.
    seq: u64,
    /// Entries for the journal.
    fresh: Vec<LogEntry>,
}

impl ClusterLog {
    /// The log of a later life, with what was kept. Versions go on where nobody has seen any yet.
    pub(super) fn restore(kept: Vec<LogEntry>, life: u32) -> Self {
        let mut log = Self::default();
        kept.into_iter().for_each(|entry| log.push(entry));
        log.version = u64::from(life) << 32;
        log
    }

    fn push(&mut self, mut entry: LogEntry) {
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

    /// Entries from a version on that somebody wants, the newest first, at most so many.
    fn newest(&self, from: u64, count: usize, wants: impl Fn(&LogEntry) -> bool) -> Vec<&LogEntry> {
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
    pub(super) fn kept(&self) -> Vec<LogEntry> {
        self.entries.iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The newest entries of a channel ("*": of all), at least of a level, the oldest first.
    pub(super) fn last(&self, count: usize, level: LogLevel, channel: &str) -> Vec<&LogEntry> {
        let wants = |entry: &LogEntry| entry.level >= level && (channel == "*" || channel == entry.channel);
        let mut last = self.newest(0, count, wants);
        last.reverse();
        last
    }

    /// Entries at least of a level from a version on; 0: the newest of them alone.
    fn since(&self, version: u64, level: LogLevel) -> Vec<LogEntry> {
        let count = if version == 0 { 1 } else { usize::MAX };
        let newest = self.newest(version, count, |entry| entry.level >= level);
        newest.into_iter().rev().cloned().collect()
    }
}

/// An entry in a line.
pub(super) fn line(entry: &LogEntry) -> String {
    let LogEntry { name, rank, stamp: when, seq, channel, level, text, .. } = entry;
    format!("{} {name} ({rank}) {seq} : {channel} {} {text}", stamp(*when), level.tag())
}

impl Mon {
    /// Writes what the cluster has to say.
    pub(super) fn log(&mut self, now: Time, level: LogLevel, text: impl Into<String>) {
        self.log_to(now, CLUSTER, level, text);
    }

    pub(super) fn log_to(&mut self, now: Time, channel: &str, level: LogLevel, text: impl Into<String>) {
        self.log.seq += 1;
        let entry = LogEntry {
            name: AuthName { kind: EntityName::MON, id: MON_NAME.into() },
            rank: EntityName::mon(0),
            addrs: self.monmap.by_rank(0).map(|mon| mon.public_addrs.clone()).unwrap_or_default(),
            stamp: Utime::from(now),
            seq: self.log.seq,
            level,
            text: text.into(),
            channel: channel.to_owned(),
        };
        self.add_to_log(entry);
    }

    /// Writes an entry, and tells it to all that want to know.
    pub(super) fn add_to_log(&mut self, entry: LogEntry) {
        if entry.level > LogLevel::Debug {
            self.log.fresh.push(entry.clone());
        }
        self.log.push(entry);
        let ids: Vec<ConnId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.send_log(id);
        }
    }

    /// Sends what is new to a client that wants it.
    pub(super) fn send_log(&mut self, id: ConnId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(LogWish { level, next, once }) = session.log else { return };
        let version = self.log.version;
        if next > version {
            return;
        }
        let entries = self.log.since(next, level);
        session.log = Some(LogWish { level, next: version + 1, once });
        if entries.is_empty() {
            return;
        }
        if once {
            session.log = None;
        }
        let log = Log { fsid: self.fsid, version, entries };
        self.out.push_back((id, Message::of(0, &log)));
    }

    /// The entries that were written since this was last asked, as far as they are to be kept.
    pub(crate) fn take_log(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.log.fresh)
    }

    /// The entries that are kept.
    pub(crate) fn kept_log(&self) -> Vec<LogEntry> {
        self.log.kept()
    }
}
