//! Snapshots of images.

mod change;
mod kinds;
mod list;

pub(super) use change::quiesce;
