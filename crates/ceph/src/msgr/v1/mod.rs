//! Version 1 of the messenger's protocol: banner, negotiation, messages with a header and a footer.
//!
//! Source: ceph `doc/dev/network-protocol.rst`, `src/include/msgr.h`, `src/msg/async/ProtocolV1.cc`; linux
//! `net/ceph/messenger_v1.c`. It is all that kernels before 5.11 speak, and the only protocol in which a sender may
//! leave out the checksums of payloads.

mod connect;
mod connection;
mod frame;
mod handshake;
mod mon_auth;
mod receive;
mod send;

pub(super) use connection::{Connection, global_seq};
