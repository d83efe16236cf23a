//! The methods that change what a header holds about snapshots.

use super::snapshot::SnapshotNamespace;
use crate::cls::methods;

/// Whether a snapshot may be removed (`RBD_PROTECTION_STATUS_*`).
pub mod protection {
    /// It may be removed.
    pub const UNPROTECTED: u8 = 0;
    /// It is checked for clones; if there are none, it may be removed.
    pub const UNPROTECTING: u8 = 1;
    /// It may not: there may be clones.
    pub const PROTECTED: u8 = 2;
}

methods! { "rbd":
    /// Adds a snapshot of what the image is now. ESTALE: the id is older than one that was used before; EEXIST: there is one with
    /// this id, or with this name for the same purpose; EDQUOT: the image has as many as it may.
    "snapshot_add" SnapshotAdd {
        /// Its name.
        name: String,
        /// Its id, as the pool gave it out.
        snap: u64,
        /// What it is made for.
        namespace: SnapshotNamespace = SnapshotNamespace::User,
    } -> ();
    /// Removes a snapshot. EBUSY: it is protected, or has clones.
    "snapshot_remove" SnapshotRemove {
        /// The snapshot.
        snap: u64,
    } -> ();
    /// Gives a user's snapshot another name. EEXIST: another one has it; EINVAL: it is no user's.
    "snapshot_rename" SnapshotRename {
        /// The snapshot.
        snap: u64,
        /// Its name from now on.
        name: String,
    } -> ();
    /// Hides a snapshot that clones still need. EBUSY: it is protected; EEXIST: it is hidden.
    "snapshot_trash_add" SnapshotTrashAdd {
        /// The snapshot.
        snap: u64,
    } -> ();
    /// Protects a snapshot, or ends that.
    "set_protection_status" SetProtectionStatus {
        /// The snapshot.
        snap: u64,
        /// See [`protection`].
        status: u8,
    } -> ();
}
