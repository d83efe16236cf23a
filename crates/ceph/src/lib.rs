//! The Ceph protocols without I/O.
#![forbid(unsafe_code)]

pub mod addr;
pub mod encoding;
pub mod hash;
pub mod types;
