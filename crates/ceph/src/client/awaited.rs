//! Targets of a client's waits.

use crate::types::{EntityName, PgId};
use onego_msgr::addr::EntityAddr;
use std::fmt;

/// Maximum number of monitors that a message lists; the rest is counted.
const NAMED: usize = 4;

/// Target of a client's wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// A session with one of these monitors.
    Monitor(Vec<EntityAddr>),
    /// An OSD map. Monitors without a quorum send none.
    OsdMap,
    /// The monitors' answer to a command or query.
    MonitorReply,
    /// Confirmation that the pool with this number exists.
    Pool(i64),
    /// A primary OSD for this placement group, whose OSDs are down.
    Primary(PgId),
    /// Free space in this pool.
    Room {
        /// The pool's name.
        pool: String,
        /// Whether its quota is used up, rather than the cluster full.
        quota: bool,
    },
    /// The end of a pause of reads or writes (`ceph osd unpause`).
    Unpause,
    /// The exclusive lock of an image.
    ImageLock {
        /// The image's id.
        image: String,
        /// Id of the image.
        owner: EntityName,
        /// Client that holds the lock.
        addr: EntityAddr,
    },
    /// A connection to an OSD.
    Osd {
        /// Id of the OSD.
        osd: i32,
        /// Expected address.
        addr: Option<EntityAddr>,
    },
    /// The end of a backoff by an OSD whose placement group is peering or recovering.
    Backoff {
        /// Id of the OSD.
        osd: i32,
        /// Placement group.
        pg: PgId,
    },
    /// The reply of an OSD to a request that was sent.
    Reply {
        /// Id of the OSD.
        osd: i32,
        /// Address of the OSD.
        addr: Option<EntityAddr>,
    },
}

impl Awaited {
    /// Returns whether only a new map from a monitor can end the wait.
    pub(crate) fn needs_monitor(&self) -> bool {
        match self {
            Self::Monitor(_)
            | Self::OsdMap
            | Self::MonitorReply
            | Self::Pool(_)
            | Self::Primary(_)
            | Self::Room { .. }
            | Self::Unpause => true,
            Self::ImageLock { .. } | Self::Osd { .. } | Self::Backoff { .. } | Self::Reply { .. } => false,
        }
    }
}

struct At<'a>(&'a Option<EntityAddr>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.and_then(|addr| addr.sock) {
            Some(sock) => write!(f, " at {sock}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Monitor(addrs) => {
                let mut socks: Vec<_> = addrs.iter().filter_map(|addr| addr.sock).collect();
                // A monitor of unknown protocol is tried in both versions at the same address.
                socks.dedup();
                let named: Vec<String> = socks.iter().take(NAMED).map(ToString::to_string).collect();
                write!(f, "a monitor at {}", named.join(" or "))?;
                match socks.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " or {more} more"),
                }
            }
            Self::OsdMap => f.write_str("a map of the OSDs (monitors without a quorum send none)"),
            Self::MonitorReply => f.write_str("an answer of the monitors"),
            Self::Pool(pool) => write!(f, "the map that has pool {pool}"),
            Self::Primary(pg) => {
                write!(f, "an OSD that serves placement group {pg}: all of its OSDs are down")
            }
            Self::Room { pool, quota: false } => {
                write!(f, "room in pool {pool}: the cluster is full (`ceph health detail`)")
            }
            Self::Room { pool, quota: true } => {
                write!(f, "room in pool {pool}: its quota is used up (`ceph osd pool get-quota {pool}`)")
            }
            Self::Unpause => f.write_str("the end of the cluster's pause (`ceph osd unpause`)"),
            Self::ImageLock { image, owner, addr } => {
                write!(f, "the exclusive lock of the image with id {image}, which {owner}")?;
                if let Some(sock) = addr.sock {
                    write!(f, " at {sock}/{}", addr.nonce)?;
                }
                f.write_str(" holds")
            }
            Self::Osd { osd, addr } => write!(f, "osd.{osd}{}", At(addr)),
            Self::Backoff { osd, pg } => {
                write!(f, "osd.{osd}, which holds placement group {pg} back while it peers or recovers")
            }
            Self::Reply { osd, addr } => write!(f, "a reply of osd.{osd}{}", At(addr)),
        }
    }
}
