//! The Ceph protocols without I/O.
#![forbid(unsafe_code)]

pub mod addr;
pub mod auth;
pub mod caps;
pub mod client;
pub mod cls;
pub mod crush;
pub mod encoding;
pub mod features;
pub mod hash;
pub mod messages;
pub mod mgrmap;
mod mon;
pub mod monmap;
pub mod msgr;
pub mod ops;
mod osdc;
pub mod osdmap;
pub mod outputs;
pub mod rbd;
pub mod types;
