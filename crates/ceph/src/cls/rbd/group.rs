//! Methods on a pool's list of groups (`rbd_group_directory`) and on a group's header (`rbd_group_header.ID`).

use super::directory::Images;
use super::header::GroupSpec;
use crate::cls::{methods, structure};

/// States of an image's membership in a group (`cls::rbd::GroupImageLinkState`).
pub mod link_state {
    /// It is a member.
    pub const ATTACHED: u8 = 0;
    /// It is being added or removed.
    pub const INCOMPLETE: u8 = 1;
}

/// States of a snapshot of a group (`cls::rbd::GroupSnapshotState`).
pub mod group_snapshot_state {
    /// Some images lack a snapshot.
    pub const INCOMPLETE: u8 = 0;
    /// All images have a snapshot.
    pub const COMPLETE: u8 = 1;
}

structure! {
    /// Image of a group (`cls::rbd::GroupImageSpec`).
    GroupImageSpec v 1 {
        /// Image.
        image_id: String,
        /// Pool of the image; -1: none.
        pool: i64,
    }
}

impl Default for GroupImageSpec {
    fn default() -> Self {
        Self { image_id: String::new(), pool: -1 }
    }
}

structure! {
    /// Image of a group, with its state (`cls::rbd::GroupImageStatus`).
    GroupImageStatus v 1 {
        /// Image.
        spec: GroupImageSpec,
        /// See [`link_state`].
        state: u8,
    }
}

structure! {
    /// Snapshot of one image (`cls::rbd::ImageSnapshotSpec`).
    ImageSnapshotSpec v 1 {
        /// Pool of the image.
        pool: i64,
        /// Image.
        image_id: String,
        /// Snapshot of the image.
        snap: u64,
    }
}

structure! {
    /// Snapshot of a group (`cls::rbd::GroupSnapshot`).
    #[derive(Default)]
    GroupSnapshot v 1 {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// See [`group_snapshot_state`].
        state: u8,
        /// Snapshot of each image.
        snaps: Vec<ImageSnapshotSpec>,
    }
}

methods! { "rbd":
    /// Lists groups by name.
    "group_dir_list" GroupDirList {
        /// Name after which to start.
        after: String,
        /// Maximum number of groups.
        max: u64,
    } -> Images;
    /// Adds a group. EEXIST: the name is in use; EBADF: the id is.
    "group_dir_add" GroupDirAdd {
        /// Name of the group.
        name: String,
        /// Id of the group.
        id: String,
    } -> ();
    /// Renames a group. ESTALE: name and id do not match.
    "group_dir_rename" GroupDirRename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
        /// Id of the group.
        id: String,
    } -> ();
    /// Removes a group. ESTALE: name and id do not match.
    "group_dir_remove" GroupDirRemove {
        /// Name of the group.
        name: String,
        /// Id of the group.
        id: String,
    } -> ();
    /// Adds an image to the group, or changes its state.
    "group_image_set" GroupImageSet {
        /// Image.
        status: GroupImageStatus,
    } -> ();
    /// Removes an image from the group.
    "group_image_remove" GroupImageRemove {
        /// Image.
        spec: GroupImageSpec,
    } -> ();
    /// Lists the images of the group.
    "group_image_list" GroupImageList {
        /// Image after which to start.
        after: GroupImageSpec,
        /// Maximum number of images.
        max: u64,
    } -> Vec<GroupImageStatus>;
    /// Records in an image's header that it belongs to a group. EEXIST: it belongs to another.
    "image_group_add" ImageGroupAdd {
        /// Group.
        group: GroupSpec,
    } -> ();
    /// Removes that record. EBADF: the image belongs to another group.
    "image_group_remove" ImageGroupRemove {
        /// Group.
        group: GroupSpec,
    } -> ();
    /// Adds or changes a snapshot of the group. EEXIST: another one has its name, or it exists and `snapshot` is incomplete.
    "group_snap_set" GroupSnapSet {
        /// Snapshot.
        snapshot: GroupSnapshot,
    } -> ();
    /// Removes a snapshot of the group.
    "group_snap_remove" GroupSnapRemove {
        /// Id.
        id: String,
    } -> ();
    /// Returns a snapshot of the group.
    "group_snap_get_by_id" GroupSnapGetById {
        /// Id.
        id: String,
    } -> GroupSnapshot;
    /// Lists the snapshots of the group by id.
    "group_snap_list" GroupSnapList {
        /// Snapshot after whose id to start.
        after: GroupSnapshot,
        /// Maximum number of snapshots.
        max: u64,
    } -> Vec<GroupSnapshot>;
}
