//! What a client can wait for.

use crate::types::{EntityName, PgId};
use onego_msgr::addr::EntityAddr;
use std::fmt;

/// Monitors that a sentence names; of the rest it tells the number.
const NAMED: usize = 4;

/// What a client can wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// A session with one of these monitors.
    Monitor(Vec<EntityAddr>),
    /// A map of the OSDs. Monitors without a quorum send none.
    OsdMap,
    /// The monitors' answer to a command or question.
    MonitorReply,
    /// To know whether there is a pool with this number.
    Pool(i64),
    /// An OSD that serves this placement group: those that should are down.
    Primary(PgId),
    /// Room in this pool.
    Room {
        /// The pool's name.
        pool: String,
        /// Its quota is used up, rather than the cluster full.
        quota: bool,
    },
    /// The end of a pause of reads or writes (`ceph osd unpause`).
    Unpause,
    /// The exclusive lock of an image.
    ImageLock {
        /// The image's id.
        image: String,
        /// The client that holds it.
        owner: EntityName,
        /// Its address.
        addr: EntityAddr,
    },
    /// A connection to an OSD.
    Osd {
        /// Its number.
        osd: i32,
        /// Where it should be.
        addr: Option<EntityAddr>,
    },
    /// An OSD that has asked for patience with a placement group: it is peering or recovering.
    Backoff {
        /// Its number.
        osd: i32,
        /// The placement group.
        pg: PgId,
    },
    /// The reply of an OSD that has the request.
    Reply {
        /// Its number.
        osd: i32,
        /// Where it is.
        addr: Option<EntityAddr>,
    },
}

impl Awaited {
    /// Can only a monitor bring it, by a new map?
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

/// An address as people write it.
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
                // A monitor of unknown protocol is tried in both versions at one address.
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
