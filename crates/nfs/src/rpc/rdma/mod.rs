//! RPC over RDMA, version 1 (RFC 8166, with RFC 8797; for NFS RFC 8267): how calls and replies go over the verbs.
//!
//! [`Requester`] is the end of a client, [`Responder`] that of a server, each over any
//! [`QueuePair`](onego_rdma::QueuePair). They take and give what a [`Stream`](super::Stream) does: a front and a payload.
//!
//! - What fits in one message is sent in one, gathered from where it lies.
//! - The payload of a call is registered and read by the server (a Read chunk) right to where the server's
//!   [`Splitter`](super::Splitter) says. The payload of a reply is written by the server, from where it lies, right to
//!   memory that the client offers with its call (a Write chunk).
//! - A call that is too long in spite of that is read by the server as a whole (a Read chunk at position zero), and a
//!   reply that may be is written as a whole (a Reply chunk).
//!
//! # Bounds
//! A client has as many calls under way as the server grants it credits, and the server has no memory for more: a receive
//! is posted anew only when a call was answered. What the server reads at a time is bounded, too
//! ([`Config::reading_max`]), however long the chunks are that it was told of.

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
