//! Version 2.1 of the messenger protocol, in crc and secure mode.
//!
//! Source: ceph `doc/dev/msgr2.rst`, `src/msg/async/{frames_v2,ProtocolV2}.cc`; linux `net/ceph/messenger_v2.c`.

mod agreement;
mod banner;
#[cfg(test)]
mod capture_tests;
mod control;
mod frame;
mod handshake;
mod header;
mod input;
mod pack;
mod protocol;
mod receive;
mod secure;
mod secure_receive;
mod send;
mod unpack;

#[cfg(test)]
pub(crate) use frame::control_frame;
pub(crate) use protocol::Version2;
