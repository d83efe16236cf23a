//! The monitor writes to the cluster's log, and sends it.

use super::state::{Mon, Outgoing};
use crate::mon::cluster_log::CLUSTER;
use crate::mon::first_map::MON_NAME;
use crate::mon::session::LogWish;
use onego_ceph::messages::{Log, LogEntry, LogLevel};
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::Message;
use onego_msgr::auth::AuthName;
use onego_wire::{ConnId, Time};

impl Mon {
    /// Writes what the cluster has to say.
    pub(in crate::mon) fn log(&mut self, now: Time, level: LogLevel, text: impl Into<String>) {
        self.log_to(now, CLUSTER, level, text);
    }

    pub(in crate::mon) fn log_to(
        &mut self,
        now: Time,
        channel: &str,
        level: LogLevel,
        text: impl Into<String>,
    ) {
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
    pub(in crate::mon) fn add_to_log(&mut self, entry: LogEntry) {
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
    pub(in crate::mon) fn send_log(&mut self, id: ConnId) {
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
        self.out.push_back((id, Outgoing::Message(Message::of(0, &log))));
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
