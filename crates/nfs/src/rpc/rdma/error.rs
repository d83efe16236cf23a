//! Why a connection cannot go on.

use onego_rdma::PostError;
use thiserror::Error;

/// The connection cannot go on: end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The transport does not carry what is needed.
    #[error("the transport does not carry RPC over RDMA: {0}")]
    Transport(#[from] PostError),
    /// The server sent what cannot be read, or has what only calls have.
    #[error("the server sent a message that is no reply")]
    NoReply,
    /// The server invalidated memory that it was not to.
    #[error("the server invalidated memory that does not belong to the call {0:#010x} that it answered")]
    Invalidated(u32),
    /// The server says that it wrote what it cannot have written.
    #[error("the server says of call {0:#010x} that it wrote other memory than it was given")]
    Written(u32),
    /// A reply has a payload of another length than was written.
    #[error("the server's reply to call {xid:#010x} tells of {told} bytes, and {written} were written")]
    Length {
        /// The call.
        xid: u32,
        /// Bytes that the reply tells of.
        told: usize,
        /// Bytes that were written.
        written: usize,
    },
    /// Memory is still being written after the reply that says that it is.
    #[error("the server still writes to memory of call {0:#010x}, which it has answered")]
    StillWriting(u32),
}
