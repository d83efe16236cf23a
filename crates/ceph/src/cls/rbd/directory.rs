//! Methods on a pool's own objects: `rbd_directory`, `rbd_trash`, `rbd_namespace`.

use crate::cls::{methods, structure};
use crate::types::Utime;
use std::collections::BTreeMap;

/// Names and ids of images.
pub type Images = BTreeMap<String, String>;

/// States of a directory (`cls::rbd::DirectoryState`).
pub mod directory_state {
    /// Images may be added.
    pub const READY: u8 = 0;
    /// The directory is empty and remains so: its namespace is being removed.
    pub const ADD_DISABLED: u8 = 1;
}

structure! {
    /// An image in the trash (`cls::rbd::TrashImageSpec`).
    TrashImageSpec v 2 {
        /// Origin of the removal.
        source: u8,
        /// Name of the image.
        name: String,
        /// Time of the removal.
        deletion_time: Utime,
        /// Time from which it may be deleted.
        deferment_end_time: Utime,
        /// Operation in progress.
        state: u8 = 0,
    }
}

methods! { "rbd":
    /// Returns the id of an image.
    "dir_get_id" DirGetId {
        /// Name of the image.
        name: String,
    } -> String;
    /// Returns the name of an image.
    "dir_get_name" DirGetName {
        /// Id of the image.
        id: String,
    } -> String;
    /// Lists images by name.
    "dir_list" DirList {
        /// Name after which to start.
        after: String,
        /// Maximum number of images.
        max: u64,
    } -> Images;
    /// Adds an image. EEXIST: the name is in use; EBADF: the id is.
    "dir_add_image" DirAddImage {
        /// Name of the image.
        name: String,
        /// Id of the image.
        id: String,
    } -> ();
    /// Removes an image. ESTALE: name and id do not match.
    "dir_remove_image" DirRemoveImage {
        /// Name of the image.
        name: String,
        /// Id of the image.
        id: String,
    } -> ();
    /// Renames an image.
    "dir_rename_image" DirRenameImage {
        /// Old name.
        from: String,
        /// New name.
        to: String,
        /// Id of the image.
        id: String,
    } -> ();
    /// Fails with ENOENT unless the directory is in this state.
    "dir_state_assert" DirStateAssert {
        /// See [`directory_state`].
        state: u8,
    } -> ();
    /// Changes the state of the directory.
    "dir_state_set" DirStateSet {
        /// See [`directory_state`].
        state: u8,
    } -> ();
    /// Lists the images in the trash by id.
    "trash_list" TrashList {
        /// Id after which to start.
        after: String,
        /// Maximum number of images.
        max: u64,
    } -> BTreeMap<String, TrashImageSpec>;
    /// Returns an image in the trash.
    "trash_get" TrashGet {
        /// Id of the image.
        id: String,
    } -> TrashImageSpec;
    /// Moves an image to the trash.
    "trash_add" TrashAdd {
        /// Id of the image.
        id: String,
        /// Its entry.
        spec: TrashImageSpec,
    } -> ();
    /// Removes an image from the trash.
    "trash_remove" TrashRemove {
        /// Id of the image.
        id: String,
    } -> ();
    /// Changes the state of an image in the trash. ESTALE: it is not in the expected state.
    "trash_state_set" TrashStateSet {
        /// Id of the image.
        id: String,
        /// New state.
        state: u8,
        /// Expected state.
        expected: u8,
    } -> ();
    /// Lists the pool's namespaces.
    "namespace_list" NamespaceList {
        /// Name after which to start.
        after: String,
        /// Maximum number of names.
        max: u64,
    } -> Vec<String>;
    /// Adds a namespace.
    "namespace_add" NamespaceAdd {
        /// Name.
        name: String,
    } -> ();
    /// Removes a namespace.
    "namespace_remove" NamespaceRemove {
        /// Name.
        name: String,
    } -> ();
}
