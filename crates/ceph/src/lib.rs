//! The Ceph protocols without I/O.
#![forbid(unsafe_code)]

pub mod encoding;
