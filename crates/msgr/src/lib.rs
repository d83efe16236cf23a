//! Ceph's messenger without I/O: protocol version 2.1 in crc and secure mode, and version 1.
//!
//! Source: ceph `doc/dev/msgr2.rst`, `src/msg/async/{frames_v2,ProtocolV2}.cc`; linux `net/ceph/messenger_v2.c`.
//!
//! [`Connection`] is one end of one connection. It holds what both versions share and drives one of two protocols (`v1`,
//! `v2`), each with its own banner, handshake, frames, receiver and sender. Below both are the message queue (`send`),
//! the parts of an arriving message (`receive`), compression, cephx ([`auth`]), and names, addresses and encodings
//! ([`types`]).
//!
//! A connection is lossy unless it carries a [`Session`], which survives its connections and loses nothing.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod auth;
mod claim;
mod compression;
mod config;
mod connection;
mod decision;
mod error;
mod event;
mod liveness;
mod message;
mod peer;
mod policy;
mod protocol;
mod receive;
mod send;
mod session;
#[cfg(test)]
mod session_tests;
mod state;
mod tag;
pub mod types;
mod v1;
mod v2;

pub use compression::{Compression, Method, SETTINGS as COMPRESSION_SETTINGS};
pub use config::{Config, Keepalive, Limits};
pub use connection::Connection;
pub use error::{Blame, Error};
pub use event::Event;
pub use message::{Header, Message, NoPlacer, PRIORITY_DEFAULT, Placer};
pub use peer::{Peer, Target, Visitor};
pub use policy::Policy;
pub use session::{Accepted, Session};
pub use tag::Tag;
pub use types::{addr, encoding, features};
