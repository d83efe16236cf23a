//! Names of what is measured, in rows and reports.

/// The program that is built here, with the embedded cluster.
pub(super) const OURS: &str = "onego, embedded cluster";
/// What the machine can do at the most.
pub(super) const FLOOR: &str = "floor (bare sockets)";
/// Peers.
pub(super) const LIBRBD_OURS: &str = "librbd, embedded cluster";
pub(super) const LIBRBD_CEPH: &str = "librbd, Ceph memstore OSD";
/// What the names of earlier builds begin with.
pub(super) const BASELINE: &str = "baseline";
