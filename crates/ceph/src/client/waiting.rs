//! What a client waits for, and why it does not go on.

use super::error::Error;
use crate::types::PgId;
use onego_msgr::addr::EntityAddr;
use std::fmt;
use std::time::Duration;

/// Monitors that a sentence names; of the rest it tells the number.
const NAMED: usize = 4;

/// What holds a client up, since when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// What is waited for.
    pub target: Awaited,
    /// How long the oldest request that needs it has waited.
    pub elapsed: Duration,
    /// Why the last attempt failed, if there was one.
    pub cause: Option<Box<Error>>,
}

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

impl Waiting {
    /// Something that is waited for.
    pub fn new(target: Awaited, elapsed: Duration, cause: Option<Error>) -> Self {
        Self { target, elapsed, cause: cause.map(Box::new) }
    }
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
            Self::Osd { .. } | Self::Backoff { .. } | Self::Reply { .. } => false,
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
                let socks = addrs.iter().filter_map(|addr| addr.sock);
                let named: Vec<String> = socks.take(NAMED).map(|sock| sock.to_string()).collect();
                write!(f, "a monitor at {}", named.join(" or "))?;
                match addrs.len().saturating_sub(NAMED) {
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
            Self::Osd { osd, addr } => write!(f, "osd.{osd}{}", At(addr)),
            Self::Backoff { osd, pg } => {
                write!(f, "osd.{osd}, which holds placement group {pg} back while it peers or recovers")
            }
            Self::Reply { osd, addr } => write!(f, "a reply of osd.{osd}{}", At(addr)),
        }
    }
}

/// The sentence that people are told: "waiting for osd.0 at 10.0.0.1:6800, because ...".
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for {}", self.target)?;
        match &self.cause {
            Some(cause) => write!(f, ", because {cause}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_sentence_says_what_is_waited_for_and_why() {
        let addr = |port| EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 0);
        let refused = Box::new(Error::Io(io::ErrorKind::ConnectionRefused));
        let say = |target, cause| Waiting { target, elapsed: Duration::from_secs(2), cause }.to_string();
        assert_eq!(
            say(Awaited::Osd { osd: 3, addr: Some(addr(6800)) }, Some(refused.clone())),
            "waiting for osd.3 at 127.0.0.1:6800, because connection failed: connection refused"
        );
        let many: Vec<EntityAddr> = (1..=6).map(addr).collect();
        let text = say(Awaited::Monitor(many), Some(refused));
        assert!(text.contains("127.0.0.1:4 or 2 more, because") && !text.contains(":5"), "{text}");
        assert_eq!(say(Awaited::Reply { osd: 1, addr: None }, None), "waiting for a reply of osd.1");
    }
}
