//! What operations on an object give.

use onego_ceph::ops::{self, Omap};
use onego_ceph::outputs;
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use std::fmt;
use std::time::{Duration, SystemTime};

/// What is known of an object without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// When it was last written.
    pub modified: SystemTime,
}

impl From<ops::Stat> for Stat {
    fn from(stat: ops::Stat) -> Self {
        let age = Duration::new(stat.mtime.sec.into(), stat.mtime.nsec);
        Self { size: stat.size, modified: SystemTime::UNIX_EPOCH + age }
    }
}

/// Entries of an object's map, and whether there are more behind them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    /// Keys and values.
    pub entries: Omap,
    /// There are more: ask again behind the last key.
    pub more: bool,
}

/// A watch of an object, as its OSD lists it. It is displayed as "client.4123 at 192.0.2.1:0/17".
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Watcher {
    /// The client.
    pub name: EntityName,
    /// Where it is.
    pub addr: EntityAddr,
    /// Its own name for the watch.
    pub cookie: u64,
    /// How long the OSD waits for a sign of life before the watch is lost.
    pub timeout: Duration,
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.addr)
    }
}

impl From<outputs::Watcher> for Watcher {
    fn from(watcher: outputs::Watcher) -> Self {
        let outputs::Watcher { name, cookie, timeout, addr } = watcher;
        Self { name, addr, cookie, timeout: Duration::from_secs(timeout.into()) }
    }
}
