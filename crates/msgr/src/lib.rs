//! Ceph's messenger, version 2.1 in crc and in secure mode, and version 1: frames, handshake, messages, without I/O.
//!
//! Source: ceph `doc/dev/msgr2.rst`, `src/msg/async/{frames_v2,ProtocolV2}.cc`; linux `net/ceph/messenger_v2.c`.
//!
//! [`Connection`] is one end of one connection. What it is made of, from the wire up: the banner and the frames, the
//! payloads of control frames, the handshake; beside them a receiver that takes the stream of bytes apart and a
//! sender that puts it together. Version 1 has its own of all of these. What they are made of is shared: the queue of
//! messages and the memory that these are sent from, the parts of a message and the place of its payload, signs of
//! life, and who is at the two ends.
//!
//! A connection is lossy unless a [`Session`] has it, which outlives its connections and loses nothing.
#![forbid(unsafe_code)]

pub mod auth;
mod claim;
mod compression;
mod config;
mod connection;
mod dialect;
mod error;
mod event;
mod liveness;
mod message;
mod peer;
mod policy;
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
mod verdict;

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
