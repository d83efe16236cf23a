use onego_rdma::PostError;
use thiserror::Error;

/// An error after which the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The transport lacks a required capability.
    #[error("the transport does not carry RPC over RDMA: {0}")]
    Transport(#[from] PostError),
    /// The server sent a message that cannot be decoded or is not a reply.
    #[error("the server sent a message that is not a reply")]
    NoReply,
    /// The server invalidated memory outside of the call that it answered.
    #[error("the server invalidated memory that does not belong to call {0:#010x}, which it answered")]
    Invalidated(u32),
    /// The server reports writes outside of the memory that it was offered.
    #[error("the server reports writes outside of the memory offered with call {0:#010x}")]
    Written(u32),
    /// The payload length in a reply differs from the number of bytes written.
    #[error("the server's reply to call {xid:#010x} announces {told} bytes, but {written} were written")]
    Length {
        /// Xid of the call.
        xid: u32,
        /// Payload length in the reply, in bytes.
        told: usize,
        /// Number of bytes written.
        written: usize,
    },
    /// The server answered a call but is still writing to its memory.
    #[error("the server still writes to memory of call {0:#010x} after its reply")]
    StillWriting(u32),
}
