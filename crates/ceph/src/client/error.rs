//! Why a request failed.

use super::awaited::Awaited;
use crate::osdmap::MapError;
use crate::types::Epoch;
use onego_wire::DecodeError;
use std::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Whose fault an [`enum@Error`] is, and so who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller asked nonsense, or took the request back: change the call.
    Caller,
    /// The cluster understood and refused: change what is asked, or the cluster.
    Refused,
    /// The peer does not keep to the protocol: asking again will not help; report it.
    Peer,
    /// Nothing, or nothing whole, comes through: ask again, or look at the network and the daemons.
    Transport,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The request makes no sense. Change the call.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// A name is longer than any OSD takes.
    #[error("the name of {what} has {len} bytes, the most is {bound}")]
    NameTooLong {
        /// Kind of the name.
        what: &'static str,
        /// Its bytes.
        len: usize,
        /// The most bytes.
        bound: usize,
    },
    /// The request was taken back before its reply came. An operation that changes something may have been applied.
    #[error("cancelled")]
    Cancelled,
    /// The client is closed. Open a new one.
    #[error("the client is closed")]
    Closed,
    /// A bound of the client is reached. Wait for completions.
    #[error("{what} is at its bound of {bound}: wait for completions")]
    Busy {
        /// What is full.
        what: &'static str,
        /// Its bound.
        bound: u64,
    },

    /// The cluster refused the request with an error number.
    #[error("{}", Answered(*.errno))]
    Refused {
        /// A negative errno.
        errno: i32,
    },
    /// The newest map has no such pool: it was deleted, or never was.
    #[error("there is no pool {0}")]
    NoPool(i64),
    /// The watch of an object is lost: its OSD timed it out, or the object was deleted. Notifications may have been
    /// missed: look at the object again and watch anew.
    #[error("the watch is lost: {}", io::Error::from_raw_os_error(-*.errno))]
    WatchLost {
        /// A negative errno, mostly -ENOTCONN.
        errno: i32,
    },

    /// The request is larger than any OSD takes. Cut it.
    #[error("{what} of {len} bytes is too large, the most is {bound}: cut it into smaller ones")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its bytes.
        len: u64,
        /// The most bytes.
        bound: u64,
    },
    /// An OSD ends each connection on which it gets this request, and nothing else. A change may have been applied.
    #[error("osd.{osd} has ended {tries} connections in a row, each when it had this request alone: {error}")]
    Rejected {
        /// The OSD.
        osd: i32,
        /// Connections that it ended.
        tries: u32,
        /// How the last one ended.
        error: Box<Error>,
    },

    /// A reply that cannot be decoded. A change may have been applied.
    #[error("the reply cannot be decoded: {0}")]
    BadReply(#[from] DecodeError),
    /// A reply that does not fit its request. A change may have been applied.
    #[error("the reply does not fit the request: {0}")]
    Mismatch(&'static str),
    /// A map that cannot be decoded or applied. Until a whole map comes that can, nothing that needs it goes on.
    #[error("the OSD map of epoch {epoch} cannot be used: {error}")]
    BadMap {
        /// The map's epoch.
        epoch: Epoch,
        /// What is wrong with it.
        error: MapError,
    },

    /// No reply came in time. A change may have been applied.
    #[error("no reply within {after:?}{}", waiting.as_ref().map(|waiting| format!(": {waiting}")).unwrap_or_default())]
    Timeout {
        /// The time that the request had.
        after: Duration,
        /// What it was waiting for when its time was over.
        waiting: Option<Box<Waiting>>,
    },
    /// A connection failed by its protocol.
    #[error("connection failed: {0}")]
    Connection(#[from] onego_msgr::Error),
    /// A connection could not be opened, or broke.
    #[error("connection failed: {}", io::Error::from(*.0))]
    Io(io::ErrorKind),
}

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

impl Waiting {
    /// Something that is waited for.
    pub fn new(target: Awaited, elapsed: Duration, cause: Option<Error>) -> Self {
        Self { target, elapsed, cause: cause.map(Box::new) }
    }
}

impl Error {
    /// Whose fault it is.
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

    /// The error as librados would say it: a negative errno.
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

/// What a cluster answered, a negative errno, in words, and with what to do about it where that is known.
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
            // On the wire this number says that a client is blocklisted (EBLOCKLISTED), and nothing else.
            errno::ESHUTDOWN => {
                return write!(
                    f,
                    "the cluster has shut this client out (blocklisted, error {errno}), and some of its writes may \
                     not be done: `ceph osd blocklist ls` shows it; connect anew once what took over is done"
                );
            }
            _ => "",
        };
        write!(f, "{}{advice}", io::Error::from_raw_os_error(-errno))
    }
}

/// Error numbers as they are on the wire: Linux's, negative, on every platform.
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
    use onego_msgr::addr::EntityAddr;

    #[test]
    fn answers_say_what_to_do() {
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
