//! The Ceph protocols without I/O.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod caps;
pub mod client;
pub mod cls;
pub mod crush;
pub mod hash;
pub mod messages;
pub mod mgrmap;
pub mod monmap;
pub mod ops;
pub mod osdmap;
pub mod outputs;
pub mod rbd;
pub mod types;
