//! iWARP in software: MPA, DDP and RDMAP over a byte stream, as a state machine without I/O.
//!
//! A [`Connection`] is one end of a connection, of a client or of a server, and a [`QueuePair`](crate::QueuePair). It
//! speaks revisions 1 and 2 of MPA (RFC 5044, RFC 6581), with checksums or without, and without markers; DDP and
//! RDMAP are those of RFC 5041 and RFC 5040.
//!
//! - **Where bytes go.** Payload of RDMA Writes, of answers to RDMA Reads and of messages goes right into registered
//!   memory, sinks and posted receives ([`Connection::landing`]) where enough of a segment is to come; what came
//!   together with headers is copied there.
//! - **Where bytes come from.** A gathered list is sent as it is, between headers that lie together in blocks: many
//!   segments make one send. Payload is not copied, but for pieces of up to 1 KiB.
//! - **Violations.** A segment is checked before a byte of its payload is placed. What breaks a rule is answered by a
//!   Terminate message that says which one ([`Violation`]), and ends the connection. A checksum comes behind the
//!   payload: where it is wrong bytes were placed, within the bounds of what the peer may write, but nothing
//!   completes with them.

mod config;
mod connection;
mod error;
mod handshake;
mod header;
mod inbound;
mod mpa;
mod nudge;
mod place;
mod queue_pair;
mod receive;
mod regions;
mod send;
mod violation;
mod work;

pub use config::Config;
pub use connection::{Connection, Established, Event};
pub use error::{Blame, Error};
pub use mpa::ReadyToReceive;
pub use regions::Entropy;
pub use violation::{Code, Violation};
