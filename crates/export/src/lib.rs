//! Exports of block devices to clients, as machines without sockets.
//!
//! - [`nbd::Server`] serves any [`onego_block::Device`] by the Network Block Device protocol.
//! - [`ublk::Target`] serves one as a block device of the kernel.
//! - [`vhost_user::DiskServer`] serves one to a virtual machine, as its disk.
#![forbid(unsafe_code)]

pub mod nbd;
mod operations;
pub mod ublk;
pub mod vhost_user;

pub use operations::REQUESTS;
