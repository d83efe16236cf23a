//! RPC over RDMA, version 1 (RFC 8166, with RFC 8797; for NFS RFC 8267).
//!
//! [`Requester`] is the client side and [`Responder`] the server side, each over any
//! [`QueuePair`](onego_rdma::QueuePair). Like a [`Stream`](super::Stream), they send and receive messages as a front
//! and a payload.
//!
//! - Messages that fit are sent inline, gathered without a copy.
//! - The payload of a call is registered, and the server reads it directly into the buffer that its
//!   [`Splitter`](super::Splitter) returns (a Read chunk). The server writes the payload of a reply directly from its
//!   source into memory that the client offers with its call (a Write chunk).
//! - A call that is still too long is read by the server as a whole (a Read chunk at position zero). A reply that may
//!   be too long is written as a whole (a Reply chunk).
//!
//! # Bounds
//! The server's credits limit a client's calls in flight, and the server allocates no memory for more: it posts another
//! receive only after it has answered a call. [`Config::reading_max`] limits the server's concurrent reads, however
//! long the announced chunks are.

mod error;
mod header;
mod limits;
mod message;
mod requester;
mod responder;
mod work;

pub use error::Error;
pub use header::{
    Chunks, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, Unreadable, WriteChunk,
};
pub use limits::Config;
pub use requester::{Answer, Requester, Unanswered};
pub use responder::Responder;
