//! The Network Block Device protocol, without sockets.
//!
//! - [`codec`] has the messages, [`Inbound`] the way from bytes to them, and [`tls`] what may be below, for servers and clients
//!   alike.

//!
//! Comments cite the specification, `doc/proto.md` of the repository NetworkBlockDevice/nbd, as "nbd proto.md,
//! 'Section name'"; for extended headers that of its branch `extension-ext-header`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod client;
pub mod codec;
mod inbound;
pub mod tls;

pub use inbound::{HEADER_MAX, Inbound, LARGE};
