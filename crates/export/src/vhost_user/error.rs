//! What a front end, or its guest, did wrong.

use super::limits::{MESSAGE_MAX, QUEUE_SIZE_MAX};
use onego_guest_memory::{MapError, MemoryError};
use onego_wire::DecodeError;
use thiserror::Error;

/// Why a message of a front end is not carried out.
#[derive(Debug, Error)]
pub(super) enum MessageError {
    #[error("a message cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    #[error("a message of version {0}: this is version 1 of the protocol")]
    Version(u32),
    #[error("a message of {0} bytes: the longest that is known has at most {MESSAGE_MAX}")]
    TooLong(u32),
    #[error("message {0} is not known here, or its feature was not offered")]
    Unknown(u32),
    #[error("{came} descriptors of files came with a message that has {wanted}")]
    Descriptors { came: usize, wanted: usize },
    #[error("features {0:#x} were not offered")]
    Features(u64),
    #[error("there is no queue {index}: this device has {queues}")]
    NoQueue { index: u32, queues: usize },
    #[error("a queue of {0} descriptors: use a power of two, at most {QUEUE_SIZE_MAX}")]
    QueueSize(u32),
    #[error("the queue runs: stop it before it is changed")]
    Runs,
    #[error("the ring of a queue is not in the memory of the guest, or is not aligned")]
    Ring,
    #[error("the record of requests in flight does not fit the queues: {0}")]
    Record(&'static str),
    #[error("{0} of the configuration cannot be written")]
    Configuration(&'static str),
    #[error("memory of the guest: {0}")]
    Memory(#[from] MemoryError),
    #[error("a descriptor of a file cannot be used: {0}")]
    Descriptor(#[from] std::io::Error),
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Why a queue is served no longer: what is on it can neither be carried out nor answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueError {
    /// More chains than the ring has room for.
    #[error("{0} chains are available, more than the ring holds")]
    TooMany(u16),
    /// A chain begins outside of the table.
    #[error("a chain begins at descriptor {0}, which the table does not have")]
    Head(u16),
    /// A chain is made available that is in use.
    #[error("the chain at descriptor {0} is made available again before it was used")]
    Twice(u16),
    /// The chain has no end, or leaves the table.
    #[error("a chain of descriptors has no end, or leaves the table")]
    Endless,
    /// A table of indirect descriptors is none.
    #[error("a table of indirect descriptors that is not allowed, or not in memory")]
    Indirect,
    /// There is nowhere to put the status.
    #[error("a request without room for its status")]
    NoStatus,
    /// The order of descriptors.
    #[error("a descriptor to be read comes behind one to be written")]
    Order,
}
