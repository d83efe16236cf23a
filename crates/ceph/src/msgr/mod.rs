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

mod banner;
mod body;
#[cfg(test)]
mod capture_tests;
mod codec;
mod compression;
mod config;
mod connection;
mod control;
mod either;
mod error;
mod frame;
mod fronts;
mod handshake;
mod liveness;
mod memory;
mod message;
mod outbox;
mod pack;
mod part;
mod peer;
mod place;
mod policy;
mod queue;
mod receive;
mod secure;
mod secure_receive;
mod send;
mod session;
#[cfg(test)]
mod session_tests;
mod unpack;
mod v1;

pub use crate::features;
pub use compression::{Compression, Method, SETTINGS as COMPRESSION_SETTINGS};
pub use config::{Config, Keepalive, Limits};
pub use connection::Event;
pub use either::Connection;
pub use error::{Blame, Error};
pub use frame::Tag;
pub use message::{Header, Message, NoPlacer, PRIORITY_DEFAULT, Placer};
pub use peer::{Peer, Target, Visitor};
pub use policy::Policy;
pub use session::{Accepted, Session};
