//! Ceph's messenger, version 2.1 in crc and in secure mode, and version 1: frames, handshake, messages, without I/O.
//!
//! Source: ceph `doc/dev/msgr2.rst`, `src/msg/async/{frames_v2,ProtocolV2}.cc`; linux `net/ceph/messenger_v2.c`.
//!
//! [`Connection`] is one end of one connection. What it is made of, from the wire up: the banner and the frames, the
//! payloads of control frames, the handshake; beside them a receiver that takes the stream of bytes apart and a
//! sender that puts it together. Version 1 has its own of all of these; what is shared are the queue of messages and
//! the way a message's parts are received.

mod arena;
mod banner;
mod body;
#[cfg(test)]
mod capture_tests;
mod config;
mod connection;
mod control;
mod either;
mod error;
pub mod features;
mod frame;
mod fronts;
mod handshake;
mod liveness;
mod message;
mod part;
mod queue;
mod receive;
mod secure;
mod secure_receive;
mod send;
mod v1;

pub use config::{Config, Keepalive, Limits};
pub use connection::Event;
pub use either::Connection;
pub use error::{Blame, Error};
pub use frame::Tag;
pub use handshake::{Peer, Target, Visitor};
pub use message::{Header, Message, NoPlacer, PRIORITY_DEFAULT, Placer};
