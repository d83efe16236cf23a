//! A client of the monitor, and what it subscribes to.

use super::services::ServiceDaemon;
use onego_ceph::caps::MonCap;
use onego_ceph::messages::LogLevel;
use onego_ceph::types::Epoch;
use onego_msgr::Peer;
use std::sync::Arc;

/// The daemon that a client has connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Monitor,
    Manager,
}

/// A client, and what is sent to it when it changes.
#[derive(Debug)]
pub(in crate::mon) struct Session {
    pub(in crate::mon) peer: Peer,
    /// The daemon that the client has connected to.
    pub(in crate::mon) role: Role,
    /// What the client may ask for.
    pub(in crate::mon) cap: Arc<MonCap>,
    pub(in crate::mon) osdmap: Option<MapWish>,
    pub(in crate::mon) config: bool,
    /// Entries of the log that are sent to the client.
    pub(in crate::mon) log: Option<LogWish>,
    /// The daemon that the client has registered.
    pub(in crate::mon) service: Option<ServiceDaemon>,
}

/// The entries of the log that a client wants: from a version on, 0 being the newest, and at least of a level.
#[derive(Debug, Clone, Copy)]
pub(in crate::mon) struct LogWish {
    pub(in crate::mon) level: LogLevel,
    pub(in crate::mon) next: u64,
    /// One message is enough.
    pub(in crate::mon) once: bool,
}

/// The next epoch of the OSD map that a client wants.
#[derive(Debug, Clone, Copy)]
pub(in crate::mon) struct MapWish {
    pub(in crate::mon) next: Epoch,
    /// One update is enough.
    pub(in crate::mon) once: bool,
}

impl Session {
    pub(in crate::mon) fn new(peer: Peer, cap: MonCap, role: Role) -> Self {
        Self { peer, role, cap: Arc::new(cap), osdmap: None, config: false, log: None, service: None }
    }
}
