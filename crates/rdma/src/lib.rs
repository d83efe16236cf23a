//! Remote direct memory access without I/O: the verbs as a trait, and a provider in software.
//!
//! - [`QueuePair`] is the user's view of one end of a connection: it registers memory for the peer, posts work and
//!   polls completions. NFS over RDMA uses it.
//! - [`iwarp`] is a provider: MPA, DDP and RDMAP (RFC 5044, 5041, 5040, with 6581) as a state machine over a byte
//!   stream. It interoperates with Linux's `siw` driver, and with itself.
//! - [`Provider`] is the interface of a provider that does its own I/O, as devices do. [`AnyConnection`] is an end of
//!   either kind.
//!
//! # Memory
//! There is no unsafe code here, because memory crosses the interface by ownership. Memory that the peer may write is a
//! [`SegmentMut`](onego_buf::SegmentMut) that the queue pair owns for as long as it is registered; it is not read while
//! the peer may write it, and a registration cannot outlive its use. Memory that the peer may read is a
//! [`List`](onego_buf::List), immutable and shared. All memory comes back exactly once: by a completion, by
//! [`QueuePair::invalidate`], or flushed when the connection ends.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod any;
mod error;
pub mod iwarp;
mod memory;
mod provider;
mod verbs;

pub use any::{AnyConnection, ConnectionError, ConnectionEvent};
pub use error::{PostError, Refused};
pub use memory::{Key, Memory, Remote};
pub use provider::{Asked, Endpoint, EndpointError, EndpointEvent, Listener, Provider};
pub use verbs::{CompletedWork, Completion, QueuePair, SendFlags, Status};
