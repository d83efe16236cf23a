//! Capabilities: what somebody may do, in the words that `ceph auth caps` takes, one text a service.
//!
//! Source for the grammar and for what is allowed by what: ceph `src/mon/MonCap.cc`, `src/osd/OSDCap.cc`; for the words
//! that users write, `doc/rados/operations/user-management.rst`.
//!
//! A text is parsed once, when its owner's session begins; [`OsdCap::in_pool`] then makes what an OSD looks at for each
//! request.

mod error;
mod mon;
mod network;
mod osd;
mod scan;

pub use error::{CapError, MAX_LEN};
pub use mon::{MonAccess, MonCap};
pub use osd::{Call, OsdAccess, OsdCap, Place, PoolGrants};
