//! Methods on a pool's list of groups (`rbd_group_directory`) and on a group's header (`rbd_group_header.ID`).

use super::directory::Images;
use super::header::GroupSpec;
use crate::cls::{methods, structure};

/// Whether an image is in a group (`cls::rbd::GroupImageLinkState`).
pub mod link_state {
    /// It is.
    pub const ATTACHED: u8 = 0;
    /// It is being added or removed.
    pub const INCOMPLETE: u8 = 1;
}

/// Whether a snapshot of a group has one of every image (`cls::rbd::GroupSnapshotState`).
pub mod group_snapshot_state {
    /// Not yet.
    pub const INCOMPLETE: u8 = 0;
    /// It has.
    pub const COMPLETE: u8 = 1;
}

structure! {
    /// An image of a group (`cls::rbd::GroupImageSpec`).
    GroupImageSpec v 1 {
        /// The image.
        image_id: String,
        /// The image's pool; -1: none.
        pool: i64,
    }
}

impl Default for GroupImageSpec {
    fn default() -> Self {
        Self { image_id: String::new(), pool: -1 }
    }
}

structure! {
    /// An image of a group, and how far it is (`cls::rbd::GroupImageStatus`).
    GroupImageStatus v 1 {
        /// The image.
        spec: GroupImageSpec,
        /// See [`link_state`].
        state: u8,
    }
}

structure! {
    /// A snapshot of one image (`cls::rbd::ImageSnapshotSpec`).
    ImageSnapshotSpec v 1 {
        /// The image's pool.
        pool: i64,
        /// The image.
        image_id: String,
        /// Its snapshot.
        snap: u64,
    }
}

structure! {
    /// A snapshot of a group (`cls::rbd::GroupSnapshot`).
    #[derive(Default)]
    GroupSnapshot v 1 {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
        /// See [`group_snapshot_state`].
        state: u8,
        /// A snapshot of each image.
        snaps: Vec<ImageSnapshotSpec>,
    }
}

methods! { "rbd":
    /// Groups in the order of their names.
    "group_dir_list" GroupDirList {
        /// The name to go on behind.
        after: String,
        /// Most groups wanted.
        max: u64,
    } -> Images;
    /// Adds a group. EEXIST: the name is taken; EBADF: the id is.
    "group_dir_add" GroupDirAdd {
        /// The group's name.
        name: String,
        /// The group's id.
        id: String,
    } -> ();
    /// Gives a group another name. ESTALE: name and id do not belong together.
    "group_dir_rename" GroupDirRename {
        /// The group's name so far.
        from: String,
        /// The group's name from now on.
        to: String,
        /// The group's id.
        id: String,
    } -> ();
    /// Removes a group. ESTALE: name and id do not belong together.
    "group_dir_remove" GroupDirRemove {
        /// The group's name.
        name: String,
        /// The group's id.
        id: String,
    } -> ();
    /// Adds an image to the group, or changes how far it is.
    "group_image_set" GroupImageSet {
        /// The image.
        status: GroupImageStatus,
    } -> ();
    /// Removes an image from the group.
    "group_image_remove" GroupImageRemove {
        /// The image.
        spec: GroupImageSpec,
    } -> ();
    /// Images of the group.
    "group_image_list" GroupImageList {
        /// The image to go on behind.
        after: GroupImageSpec,
        /// Most images wanted.
        max: u64,
    } -> Vec<GroupImageStatus>;
    /// The image, whose header this is, belongs to a group from now on. EEXIST: it belongs to another.
    "image_group_add" ImageGroupAdd {
        /// The group.
        group: GroupSpec,
    } -> ();
    /// The image belongs to no group any more. EBADF: it belongs to another.
    "image_group_remove" ImageGroupRemove {
        /// The group.
        group: GroupSpec,
    } -> ();
    /// Adds a snapshot of the group, or changes it. EEXIST: another one has its name, or it is there and said to be new.
    "group_snap_set" GroupSnapSet {
        /// The snapshot.
        snapshot: GroupSnapshot,
    } -> ();
    /// Removes a snapshot of the group.
    "group_snap_remove" GroupSnapRemove {
        /// Its id.
        id: String,
    } -> ();
    /// A snapshot of the group.
    "group_snap_get_by_id" GroupSnapGetById {
        /// Its id.
        id: String,
    } -> GroupSnapshot;
    /// Snapshots of the group, in the order of their ids.
    "group_snap_list" GroupSnapList {
        /// The snapshot to go on behind; its id counts.
        after: GroupSnapshot,
        /// Most snapshots wanted.
        max: u64,
    } -> Vec<GroupSnapshot>;
}
