//! Our client on real Ceph, and what is tested in both directions.

pub(super) mod beside;
pub(super) mod cephx;
pub(super) mod compression;
pub(super) mod images;
pub(super) mod krbd;
pub(super) mod load;
mod masks;
pub(super) mod migration;
pub(super) mod owner;
pub(super) mod shared_images;
pub(super) mod streams;
pub(super) mod upkeep;
pub(super) mod users;
