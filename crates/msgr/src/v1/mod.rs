//! Version 1 of the messenger protocol: banner, negotiation, messages with header and footer.
//!
//! Source: ceph `doc/dev/network-protocol.rst`, `src/include/msgr.h`, `src/msg/async/ProtocolV1.cc`; linux
//! `net/ceph/messenger_v1.c`. Kernels before 5.11 speak only this version, and it is the only one in which a sender may
//! omit payload checksums.
//!
//! Between peers with a session key every message is signed, in both directions, and a wrong signature ends the
//! connection. The signature is weak: it covers the checksums (CRC-32C) of header, front, middle and payload, their
//! lengths, and the low half of the message's number. An attacker on the path can choose other bytes with the same
//! checksums. The signature does not cover:
//! - the connection that a message is for: all connections opened with one ticket sign with its session key,
//! - connections to monitors, which have no session key: not even the authentication is signed,
//! - tags, acknowledgements, keepalives, and the request to close,
//! - the flag by which a sender aborts a message,
//! - a payload whose checksum the sender omits or the receiver does not check.

mod connect;
mod frame;
mod handshake;
mod mon_auth;
mod protocol;
mod receive;
mod send;

pub(crate) use protocol::Version1;
