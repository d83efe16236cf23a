//! The version that the daemons tell.

/// What the daemons say they are. Programs look for the words "ceph version" and a number that they know.
pub(crate) const VERSION_TEXT: &str =
    concat!("ceph version 16.2.0-onego-", env!("CARGO_PKG_VERSION"), " pacific (embedded)");
