//! Errors in the use of the verbs.

use crate::memory::Key;
use std::fmt;
use thiserror::Error;

/// Error of a refused verb. All of these are the caller's responsibility; the provider reports errors of the
/// connection, which end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PostError {
    /// The queue is full: poll completions first.
    #[error("the {queue} is full with {depth} entries: poll completions, or configure more")]
    QueueFull {
        /// Name of the queue.
        queue: &'static str,
        /// Its limit.
        depth: usize,
    },
    /// The operation exceeds its maximum length.
    #[error("{len} bytes exceed the {bound} of {what}")]
    TooLong {
        /// The operation.
        what: &'static str,
        /// Requested bytes.
        len: usize,
        /// Maximum bytes.
        bound: usize,
    },
    /// Offsets within the region would exceed 2^64.
    #[error("{len} bytes from offset {offset:#x} on exceed 2^64")]
    OffsetWraps {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        len: usize,
    },
    /// No memory is registered under the key.
    #[error("no memory is registered under key {0}")]
    UnknownKey(Key),
    /// The sides have not agreed on RDMA Reads in this direction, or not yet.
    #[error("the peer allows no RDMA Reads, or the connection is not established yet")]
    NoReads,
    /// The provider accepts the verb only after the connection is established.
    #[error("the connection is not established yet")]
    NotEstablished,
    /// The device or its driver refused.
    #[error("the device did not {what}: {}{}", std::io::Error::from_raw_os_error(*.errno), hint(*.errno))]
    Device {
        /// The refused operation.
        what: &'static str,
        /// The system's error number.
        errno: i32,
    },
    /// The connection has ended, or was never accepted.
    #[error("the connection is over")]
    Over,
}

impl PostError {
    /// Checks that a queue of limit `depth` with `used` entries has room for another.
    pub fn unless_room(queue: &'static str, used: usize, depth: usize) -> Result<(), Self> {
        if used >= depth { Err(Self::QueueFull { queue, depth }) } else { Ok(()) }
    }

    /// Checks that the operation's length is at most `bound`.
    pub fn unless_short(what: &'static str, len: usize, bound: usize) -> Result<(), Self> {
        if len > bound { Err(Self::TooLong { what, len, bound }) } else { Ok(()) }
    }
}

/// Returns a remedy for a system error: pinned memory counts against a limit, which is low for most users.
fn hint(errno: i32) -> &'static str {
    match std::io::Error::from_raw_os_error(errno).kind() {
        std::io::ErrorKind::OutOfMemory => " (it may exceed the limit on locked memory: see `ulimit -l`)",
        _ => "",
    }
}

/// Error of a refused verb that had no effect; returns the verb's argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// Reason.
    pub error: PostError,
    /// The verb's argument.
    pub given: T,
}

impl<T> Refused<T> {
    /// Returns the verb's argument, or refuses it with the error of `checked`.
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
