//! The Network Block Device protocol, without I/O.
//!
//! - [`client`] is a client as a state machine.
//! - [`codec`] encodes and decodes messages, [`Inbound`] splits received bytes into them, and [`tls`] encrypts
//!   connections, for servers and clients.
//!
//! Comments cite the specification, `doc/proto.md` of the repository NetworkBlockDevice/nbd, as "nbd proto.md, 'Section
//! name'"; for extended headers, its branch `extension-ext-header`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod client;
pub mod codec;
mod inbound;
pub mod tls;

pub use inbound::{HEADER_MAX, Inbound, LARGE};
