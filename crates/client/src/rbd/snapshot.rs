//! What is known of a snapshot.

use crate::ceph::error::Error;
pub use onego_ceph::cls::rbd::SnapshotNamespace as SnapshotKind;
use onego_ceph::cls::rbd::protection;
use onego_rbd::notify::SnapshotName;
use std::time::SystemTime;

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its number, which no other snapshot of the pool of its data has.
    pub id: u64,
    /// Its name, which no other one of its kind has at that image.
    pub name: String,
    /// What it was made for.
    pub kind: SnapshotKind,
    /// Bytes of the image when it was made.
    pub size: u64,
    /// When it was made, if the cluster remembers.
    pub created: Option<SystemTime>,
    /// Clones that it counts itself.
    pub children: u32,
    /// Bytes of the parent that show through; `None`: there is no parent.
    pub overlap: Option<u64>,
    pub(crate) protection: u8,
    /// See `onego_ceph::cls::rbd::image_flag`.
    pub flags: u64,
}

impl Snapshot {
    /// Did a user ask for it?
    pub fn is_users(&self) -> bool {
        self.kind == SnapshotKind::User
    }

    /// Must it not be removed?
    pub fn is_protected(&self) -> bool {
        self.protection == protection::PROTECTED
    }
}

/// A user's snapshot, for the owner of the image.
pub(super) fn users(name: &str) -> SnapshotName {
    SnapshotName { name: name.to_owned(), namespace: SnapshotKind::User }
}

/// Says which snapshot is there already, if that is what is wrong.
pub(super) fn taken(error: Error, image: &str, name: &str) -> Error {
    match error {
        Error::Exists { .. } => Error::Exists { what: format!("snapshot {image}@{name}") },
        error => error,
    }
}
