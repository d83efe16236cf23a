//! What a caller of the verbs may do wrong.

use crate::memory::Key;
use std::fmt;
use thiserror::Error;

/// Why a verb refused what it was asked. All of these are the caller's affair; what goes wrong on the connection is told
/// by its provider, and ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PostError {
    /// A queue holds as much as its bound allows: poll completions first.
    #[error("the {queue} holds {depth} entries, which is its bound: poll completions, or configure more")]
    QueueFull {
        /// Which one.
        queue: &'static str,
        /// Its bound.
        depth: usize,
    },
    /// More bytes than the operation can carry.
    #[error("{len} bytes are more than the {bound} that {what} can have")]
    TooLong {
        /// The operation.
        what: &'static str,
        /// Bytes asked for.
        len: usize,
        /// The bound.
        bound: usize,
    },
    /// Offsets within the region would go beyond 2^64.
    #[error("{len} bytes from offset {offset:#x} on go beyond the last offset there is")]
    OffsetWraps {
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// No memory is registered under the key.
    #[error("no memory is registered under key {0}")]
    UnknownKey(Key),
    /// The two sides did not agree on RDMA Reads in this direction, or not yet.
    #[error(
        "the peer allows no RDMA Reads, or the connection is not established, with which they are agreed on"
    )]
    NoReads,
    /// The provider takes it only once the connection is established.
    #[error("the connection is not established yet")]
    NotEstablished,
    /// The device, or its driver, refused.
    #[error("the device would not {what}: {}{}", std::io::Error::from_raw_os_error(*.errno), hint(*.errno))]
    Device {
        /// What it was asked.
        what: &'static str,
        /// The system's number of the error.
        errno: i32,
    },
    /// The connection is over, or was never accepted.
    #[error("the connection is over")]
    Over,
}

impl PostError {
    /// Is there room in a queue of that depth with `used` entries in use?
    pub fn unless_room(queue: &'static str, used: usize, depth: usize) -> Result<(), Self> {
        if used >= depth { Err(Self::QueueFull { queue, depth }) } else { Ok(()) }
    }

    /// Has the operation no more bytes than its bound?
    pub fn unless_short(what: &'static str, len: usize, bound: usize) -> Result<(), Self> {
        if len > bound { Err(Self::TooLong { what, len, bound }) } else { Ok(()) }
    }
}

/// What to do about an error of the system's: to pin memory counts against a limit, which most users have set low.
fn hint(errno: i32) -> &'static str {
    match std::io::Error::from_raw_os_error(errno).kind() {
        std::io::ErrorKind::OutOfMemory => " (it may need more locked memory than allowed: see `ulimit -l`)",
        _ => "",
    }
}

/// A verb refused: nothing happened, and what was given for it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// Why.
    pub error: PostError,
    /// What was given.
    pub given: T,
}

impl<T> Refused<T> {
    /// Gives on what was given for a verb, unless there is a reason to refuse.
    pub fn unless(checked: Result<(), PostError>, given: T) -> Result<T, Self> {
        match checked {
            Ok(()) => Ok(given),
            Err(error) => Err(Self { error, given }),
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refused({:?})", self.error)
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for Refused<T> {}
