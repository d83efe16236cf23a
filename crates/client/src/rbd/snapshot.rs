use crate::ceph::error::Error;
pub use onego_ceph::cls::rbd::SnapshotNamespace as SnapshotKind;
use onego_ceph::cls::rbd::protection;
use onego_rbd::notify::SnapshotName;
use std::time::SystemTime;

/// A snapshot of an image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Number, unique in the image's data pool.
    pub id: u64,
    /// Name, unique among the image's snapshots of the same kind.
    pub name: String,
    /// Purpose of the snapshot.
    pub kind: SnapshotKind,
    /// Size of the image at the time of the snapshot, in bytes.
    pub size: u64,
    /// Creation time, if the cluster recorded it.
    pub created: Option<SystemTime>,
    /// Number of clones that the snapshot itself counts.
    pub children: u32,
    /// Visible bytes of the parent; `None` without a parent.
    pub overlap: Option<u64>,
    pub(crate) protection: u8,
    /// Flags; see `onego_ceph::cls::rbd::image_flag`.
    pub flags: u64,
}

impl Snapshot {
    /// Returns whether a user created the snapshot.
    pub fn is_users(&self) -> bool {
        self.kind == SnapshotKind::User
    }

    /// Returns whether the snapshot is protected from removal.
    pub fn is_protected(&self) -> bool {
        self.protection == protection::PROTECTED
    }
}

/// Returns the name of a user's snapshot for a request to the image's owner.
pub(super) fn users(name: &str) -> SnapshotName {
    SnapshotName { name: name.to_owned(), namespace: SnapshotKind::User }
}

/// Adds the name of the existing snapshot to an error of the kind `Exists`.
pub(super) fn taken(error: Error, image: &str, name: &str) -> Error {
    match error {
        Error::Exists { .. } => Error::Exists { what: format!("snapshot {image}@{name}") },
        error => error,
    }
}
