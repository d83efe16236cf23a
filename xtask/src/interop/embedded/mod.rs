//! Ceph's programs on our embedded cluster.

pub(super) mod bindings;
pub(super) mod blocklist;
pub(super) mod commands;
pub(super) mod dns;
pub(super) mod krbd;
pub(super) mod memory;
pub(super) mod metrics;
pub(super) mod osds;
pub(super) mod qemu_img;
pub(super) mod rbd;
pub(super) mod restart;
pub(super) mod snapshots;
pub(super) mod tools;
