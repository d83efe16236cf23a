//! Cluster log (ceph `src/messages/MLog.h`, `src/common/LogEntry.{h,cc}`).

use crate::types::{EntityName, Utime, Uuid};
use onego_buf::List;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::AuthName;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_msgr::types::{Payload, kind};
use onego_msgr::types::{decode_service_head, encode_service_head};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// Severity of an entry (`clog_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[allow(missing_docs)]
pub enum LogLevel {
    #[default]
    Debug = 0,
    Info = 1,
    Security = 2,
    Warning = 3,
    Error = 4,
}

impl LogLevel {
    const ALL: [Self; 5] = [Self::Debug, Self::Info, Self::Security, Self::Warning, Self::Error];

    /// Returns the level with that name, as used by commands and subscriptions.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "debug" => Some(Self::Debug),
            "info" => Some(Self::Info),
            "sec" | "security" => Some(Self::Security),
            "warn" | "warning" => Some(Self::Warning),
            "error" | "err" => Some(Self::Error),
            _ => None,
        }
    }

    /// Returns the tag of the level in a line: `[INF]`.
    pub fn tag(self) -> &'static str {
        ["[DBG]", "[INF]", "[SEC]", "[WRN]", "[ERR]"][self as usize]
    }
}

/// Entry of the cluster log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEntry {
    /// Authentication name of the writer.
    pub name: AuthName,
    /// Entity name of the writer.
    pub rank: EntityName,
    /// Addresses of the writer.
    pub addrs: AddrVec,
    /// Time of the entry.
    pub stamp: Utime,
    /// Sequence number of the writer.
    pub seq: u64,
    /// Severity.
    pub level: LogLevel,
    /// Message.
    pub text: String,
    /// Channel: "cluster" or "audit".
    pub channel: String,
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 5, 5, |w| {
            self.name.encode(w);
            self.rank.encode(w);
            self.addrs.encode(w);
            self.stamp.encode(w);
            w.u64(self.seq);
            w.u16(self.level as u16);
            w.string(&self.text);
            w.string(&self.channel);
        });
    }
}

impl Decode for LogEntry {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "log entry";
        envelope(r, 5, WHAT, |version, r| {
            if version < 5 {
                return Err(DecodeError::TooOld { what: WHAT, version, oldest: 5 });
            }
            let (name, rank, addrs) = (AuthName::decode(r)?, EntityName::decode(r)?, AddrVec::decode(r)?);
            let (stamp, seq, level) = (Utime::decode(r)?, r.u64(WHAT)?, r.u16(WHAT)?);
            let known = LogLevel::ALL.get(usize::from(level));
            let level = *known.ok_or(DecodeError::Invalid { what: "log level", value: level.into() })?;
            Ok(Self { name, rank, addrs, stamp, seq, level, text: r.string(WHAT)?, channel: r.string(WHAT)? })
        })
    }
}

/// New entries, for a client that has subscribed to them (`MLog`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Version of the log with these entries.
    pub version: u64,
    /// Entries, oldest first.
    pub entries: Vec<LogEntry>,
}

impl Payload for Log {
    const KIND: u16 = kind::LOG;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, self.version);
        self.fsid.encode(w);
        self.entries.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let version = decode_service_head(r)?;
        Ok(Self { fsid: Uuid::decode(r)?, version, entries: Vec::decode(r)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_wire() {
        let entry = LogEntry {
            name: "mon.a".parse().unwrap(),
            rank: EntityName::mon(0),
            addrs: "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]".parse().unwrap(),
            stamp: Utime { sec: 7, nsec: 8 },
            seq: 9,
            level: LogLevel::Warning,
            text: "Health check failed".into(),
            channel: "cluster".into(),
        };
        let log = Log { fsid: Uuid([7; 16]), version: 3, entries: vec![entry, LogEntry::default()] };
        let (mut front, mut data) = (Writer::new(), List::new());
        log.encode(&mut front, &mut data);
        assert_eq!(Log::decode(1, front.as_slice(), data), Ok(log));
    }

    #[test]
    fn levels_are_named_as_by_ceph() {
        for (name, tag) in [("debug", "[DBG]"), ("sec", "[SEC]"), ("warning", "[WRN]"), ("err", "[ERR]")] {
            assert_eq!(LogLevel::named(name).map(LogLevel::tag), Some(tag));
        }
        assert_eq!(LogLevel::named("loud"), None);
        assert!(LogLevel::Error > LogLevel::Warning && LogLevel::Info > LogLevel::Debug);
    }
}
