//! Errors of requests.

use super::awaited::Awaited;
use crate::osdmap::MapError;
use crate::types::Epoch;
use onego_wire::DecodeError;
use std::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Party responsible for an [`enum@Error`], and so able to fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller made an invalid request, or cancelled it: change the call.
    Caller,
    /// The cluster understood and refused the request: change the request, or the cluster.
    Refused,
    /// The peer violates the protocol: a retry will not help; report it.
    Peer,
    /// The network or a daemon failed: retry, or check both.
    Transport,
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The request is invalid. Change the call.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// A name exceeds the limit of all OSDs.
    #[error("the name of {what} has {len} bytes, which exceeds the limit of {bound}")]
    NameTooLong {
        /// Kind of the name.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit.
        bound: usize,
    },
    /// The request was cancelled before its reply. A change may have been applied.
    #[error("cancelled")]
    Cancelled,
    /// The client is closed. Open a new one.
    #[error("the client is closed")]
    Closed,
    /// A limit of the client is reached. Wait for completions.
    #[error("{what} reached the limit of {bound}: wait for completions")]
    Busy {
        /// The limited resource.
        what: &'static str,
        /// The limit.
        bound: u64,
    },

    /// The cluster refused the request with an errno.
    #[error("{}", Answered(*.errno))]
    Refused {
        /// A negative errno.
        errno: i32,
    },
    /// The newest map has no such pool: it was deleted, or never existed.
    #[error("there is no pool {0}")]
    NoPool(i64),
    /// The watch of an object is lost: its OSD timed it out, or the object was deleted. Notifications may have been
    /// missed: read the object again and establish a new watch.
    #[error("the watch is lost: {}", io::Error::from_raw_os_error(-*.errno))]
    WatchLost {
        /// A negative errno, usually -ENOTCONN.
        errno: i32,
    },

    /// The request exceeds the limit of all OSDs. Split it.
    #[error("{what} of {len} bytes is too large, the most is {bound}: cut it into smaller ones")]
    TooLarge {
        /// The oversized part.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The limit.
        bound: u64,
    },
    /// An OSD ends each connection on which it receives only this request. A change may have been applied.
    #[error(
        "osd.{osd} has ended {tries} connections in a row on which it received only this request: {error}"
    )]
    Rejected {
        /// The OSD.
        osd: i32,
        /// Number of connections that it ended.
        tries: u32,
        /// Error of the last one.
        error: Box<Error>,
    },

    /// The reply cannot be decoded. A change may have been applied.
    #[error("the reply cannot be decoded: {0}")]
    BadReply(#[from] DecodeError),
    /// The reply does not match its request. A change may have been applied.
    #[error("the reply does not match the request: {0}")]
    Mismatch(&'static str),
    /// A map cannot be decoded or applied. Requests that need it wait for a valid full map.
    #[error("the OSD map of epoch {epoch} is invalid: {error}")]
    BadMap {
        /// Epoch of the map.
        epoch: Epoch,
        /// The defect.
        error: MapError,
    },

    /// No reply arrived in time. A change may have been applied.
    #[error("no reply within {after:?}{}", waiting.as_ref().map(|waiting| format!(": {waiting}")).unwrap_or_default())]
    Timeout {
        /// The timeout.
        after: Duration,
        /// Target of the wait when the timeout expired.
        waiting: Option<Box<Waiting>>,
    },
    /// A connection failed in its protocol.
    #[error("connection failed: {0}")]
    Connection(#[from] onego_msgr::Error),
    /// A connection could not be opened, or was reset.
    #[error("connection failed: {}", io::Error::from(*.0))]
    Io(io::ErrorKind),
}

/// Target, duration and cause of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Target of the wait.
    pub target: Awaited,
    /// Age of the oldest request that waits for it.
    pub elapsed: Duration,
    /// Error of the last attempt, if one has failed.
    pub cause: Option<Box<Error>>,
}

impl Waiting {
    /// Creates a wait.
    pub fn new(target: Awaited, elapsed: Duration, cause: Option<Error>) -> Self {
        Self { target, elapsed, cause: cause.map(Box::new) }
    }
}

impl Error {
    /// Returns the party responsible for the error.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Invalid(_)
            | Self::NameTooLong { .. }
            | Self::TooLarge { .. }
            | Self::Cancelled
            | Self::Closed
            | Self::Busy { .. } => Blame::Caller,
            Self::Refused { .. } | Self::NoPool(_) | Self::WatchLost { .. } => Blame::Refused,
            Self::BadReply(_) | Self::Mismatch(_) | Self::BadMap { .. } | Self::Rejected { .. } => {
                Blame::Peer
            }
            Self::Timeout { .. } | Self::Io(_) => Blame::Transport,
            Self::Connection(error) => match error.blame() {
                onego_msgr::Blame::Peer => Blame::Peer,
                onego_msgr::Blame::Mismatch => Blame::Refused,
                onego_msgr::Blame::Transport => Blame::Transport,
            },
        }
    }

    /// Returns the negative errno that librados would report.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Refused { errno } | Self::WatchLost { errno } => *errno,
            Self::NoPool(_) => errno::ENOENT,
            Self::Invalid(_) => errno::EINVAL,
            Self::NameTooLong { .. } => errno::ENAMETOOLONG,
            Self::TooLarge { .. } => errno::EMSGSIZE,
            Self::Cancelled => errno::ECANCELED,
            Self::Closed => errno::ESHUTDOWN,
            Self::Busy { .. } => errno::EAGAIN,
            Self::Timeout { .. } => errno::ETIMEDOUT,
            Self::BadReply(_)
            | Self::Mismatch(_)
            | Self::BadMap { .. }
            | Self::Connection(_)
            | Self::Rejected { .. }
            | Self::Io(_) => errno::EIO,
        }
    }
}

/// Formats a negative errno from the cluster, with advice where there is some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered(pub i32);

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(errno) = *self;
        let advice = match errno {
            errno::EPERM | errno::EACCES => {
                ": the user's capabilities do not allow it (`ceph auth get` shows them, `ceph auth caps` changes them)"
            }
            errno::ENOSPC => ": the cluster or the pool is full (`ceph df`): remove something, or add OSDs",
            errno::EDQUOT => ": the pool's quota is used up (`ceph osd pool get-quota`)",
            // On the wire this errno is EBLOCKLISTED and has no other meaning.
            errno::ESHUTDOWN => {
                return write!(
                    f,
                    "the cluster has blocklisted this client (error {errno}), and some of its writes may be lost: \
                     `ceph osd blocklist ls` shows it; connect again once the client that took over is done"
                );
            }
            _ => "",
        };
        write!(f, "{}{advice}", io::Error::from_raw_os_error(-errno))
    }
}

/// Error numbers on the wire: Linux's, negated, on every platform.
#[allow(missing_docs)]
pub mod errno {
    pub const EPERM: i32 = -1;
    pub const ENOENT: i32 = -2;
    pub const EIO: i32 = -5;
    pub const ENXIO: i32 = -6;
    pub const EAGAIN: i32 = -11;
    pub const EACCES: i32 = -13;
    pub const EBUSY: i32 = -16;
    pub const EEXIST: i32 = -17;
    pub const EINVAL: i32 = -22;
    pub const ENOSPC: i32 = -28;
    pub const EROFS: i32 = -30;
    pub const ERANGE: i32 = -34;
    pub const EOVERFLOW: i32 = -75;
    pub const ENAMETOOLONG: i32 = -36;
    pub const EMSGSIZE: i32 = -90;
    pub const EOPNOTSUPP: i32 = -95;
    pub const ENOTCONN: i32 = -107;
    pub const ESHUTDOWN: i32 = -108;
    pub const ETIMEDOUT: i32 = -110;
    pub const EDQUOT: i32 = -122;
    pub const ECANCELED: i32 = -125;
}

/// Formats the wait for users: "waiting for osd.0 at 10.0.0.1:6800, because ...".
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
    use onego_msgr::addr::EntityAddr;

    #[test]
    fn errors_of_the_cluster_include_advice() {
        for (errno, said) in [
            (errno::EPERM, "capabilities"),
            (errno::ENOSPC, "full"),
            (errno::ESHUTDOWN, "blocklist"),
            (errno::EIO, "os error 5"),
        ] {
            let text = Error::Refused { errno }.to_string();
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_wait_is_formatted_with_target_and_cause() {
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
