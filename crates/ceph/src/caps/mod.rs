//! Capabilities of users, one text per service, in the syntax of `ceph auth caps`.
//!
//! Sources of the grammar and its meaning: ceph `src/mon/MonCap.cc`, `src/osd/OSDCap.cc`; of the syntax for
//! users: `doc/rados/operations/user-management.rst`.
//!
//! A text is parsed once, at the start of its owner's session. [`OsdCap::in_pool`] then precomputes the grants that an OSD checks
//! for each request.

mod error;
mod mon;
mod network;
mod osd;
mod scan;

pub use error::{CapError, MAX_LEN};
pub use mon::{MonAccess, MonCap};
pub use osd::{Call, OsdAccess, OsdCap, Place, PoolGrants};
