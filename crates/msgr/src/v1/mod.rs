//! Version 1 of the messenger's protocol: banner, negotiation, messages with a header and a footer.
//!
//! Source: ceph `doc/dev/network-protocol.rst`, `src/include/msgr.h`, `src/msg/async/ProtocolV1.cc`; linux
//! `net/ceph/messenger_v1.c`. It is all that kernels before 5.11 speak, and the only protocol in which a sender may
//! leave out the checksums of payloads.
//!
//! Between peers with a session key every message has a signature, in both directions, and one without the right signature
//! ends the connection. What the signature covers is weak: the checksums (CRC-32C) of header, front, middle and payload,
//! their lengths, and the low half of the message's number. An attacker on the path can choose other bytes
//! with the same checksums. It does not cover:
//! - which connection a message is for: all that were opened with one ticket sign with its session key,
//! - connections to monitors, which have no session key: not even the authentication is signed,
//! - tags, acknowledgements, signs of life, and the request to close,
//! - the flag by which a sender gives a message up,
//! - a payload whose checksum its sender leaves out or its receiver does not look at.

mod connect;
mod dialect;
mod frame;
mod handshake;
mod mon_auth;
mod receive;
mod send;

pub(crate) use dialect::Version1;
