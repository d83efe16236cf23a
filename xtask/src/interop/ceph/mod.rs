//! Our client on real Ceph, and what is tested in both directions.

pub(super) mod cephx;
pub(super) mod compression;
pub(super) mod images;
pub(super) mod load;
pub(super) mod upkeep;
pub(super) mod users;
