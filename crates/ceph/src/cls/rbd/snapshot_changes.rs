//! Methods that change the snapshots in a header.

use super::snapshot::SnapshotNamespace;
use crate::cls::methods;

/// Protection of a snapshot (`RBD_PROTECTION_STATUS_*`).
pub mod protection {
    /// It may be removed.
    pub const UNPROTECTED: u8 = 0;
    /// It is checked for clones; without any, it may be removed.
    pub const UNPROTECTING: u8 = 1;
    /// It may not be removed: it may have clones.
    pub const PROTECTED: u8 = 2;
}

methods! { "rbd":
    /// Adds a snapshot of the current image. ESTALE: the id is older than a previous one; EEXIST: the id is in use, or the
    /// name for the same purpose; EDQUOT: the limit of snapshots is reached.
    "snapshot_add" SnapshotAdd {
        /// Name.
        name: String,
        /// Id, allocated by the pool.
        snap: u64,
        /// Purpose.
        namespace: SnapshotNamespace = SnapshotNamespace::User,
    } -> ();
    /// Removes a snapshot. EBUSY: it is protected, or has clones.
    "snapshot_remove" SnapshotRemove {
        /// Snapshot.
        snap: u64,
    } -> ();
    /// Renames a user's snapshot. EEXIST: the name is in use; EINVAL: it is not a user's snapshot.
    "snapshot_rename" SnapshotRename {
        /// Snapshot.
        snap: u64,
        /// New name.
        name: String,
    } -> ();
    /// Hides a snapshot that clones still need. EBUSY: it is protected; EEXIST: it is already hidden.
    "snapshot_trash_add" SnapshotTrashAdd {
        /// Snapshot.
        snap: u64,
    } -> ();
    /// Changes the protection of a snapshot.
    "set_protection_status" SetProtectionStatus {
        /// Snapshot.
        snap: u64,
        /// See [`protection`].
        status: u8,
    } -> ();
}
