//! Exports of block devices to clients, as machines without sockets.
//!
//! - [`nbd::Server`] serves any [`onego_block::Device`] by the Network Block Device protocol.
//! - [`ublk::Target`] serves one as a block device of the kernel.
#![forbid(unsafe_code)]

pub mod nbd;
pub mod ublk;
