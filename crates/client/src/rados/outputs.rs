use onego_ceph::ops::{self, Omap};
use onego_ceph::outputs;
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use std::fmt;
use std::time::{Duration, SystemTime};

/// Metadata of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification.
    pub modified: SystemTime,
}

impl From<ops::Stat> for Stat {
    fn from(stat: ops::Stat) -> Self {
        let age = Duration::new(stat.mtime.sec.into(), stat.mtime.nsec);
        Self { size: stat.size, modified: SystemTime::UNIX_EPOCH + age }
    }
}

/// A page of omap entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    /// Keys and values.
    pub entries: Omap,
    /// Whether more entries exist: continue after the last key.
    pub more: bool,
}

/// A watch of an object, as its OSD lists it. Displays as "client.4123 at 192.0.2.1:0/17".
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Watcher {
    /// Entity name of the client.
    pub name: EntityName,
    /// Address of the client.
    pub addr: EntityAddr,
    /// Name of the watch, chosen by the client.
    pub cookie: u64,
    /// Time without a sign of life after which the OSD drops the watch.
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
