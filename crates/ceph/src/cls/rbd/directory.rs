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
    /// The directory is empty and stays so: its namespace is being removed.
    pub const ADD_DISABLED: u8 = 1;
}

structure! {
    /// An image in the trash (`cls::rbd::TrashImageSpec`).
    TrashImageSpec v 2 {
        /// What put it there.
        source: u8,
        /// The image's name.
        name: String,
        /// When it was put there.
        deletion_time: Utime,
        /// When it may be removed.
        deferment_end_time: Utime,
        /// What is being done with it.
        state: u8 = 0,
    }
}

methods! { "rbd":
    /// The id of an image.
    "dir_get_id" DirGetId {
        /// The image's name.
        name: String,
    } -> String;
    /// The name of an image.
    "dir_get_name" DirGetName {
        /// The image's id.
        id: String,
    } -> String;
    /// Images in the order of their names.
    "dir_list" DirList {
        /// The name to go on behind.
        after: String,
        /// Most images wanted.
        max: u64,
    } -> Images;
    /// Adds an image. EEXIST: the name is taken; EBADF: the id is.
    "dir_add_image" DirAddImage {
        /// The image's name.
        name: String,
        /// The image's id.
        id: String,
    } -> ();
    /// Removes an image. ESTALE: name and id do not belong together.
    "dir_remove_image" DirRemoveImage {
        /// The image's name.
        name: String,
        /// The image's id.
        id: String,
    } -> ();
    /// Gives an image another name.
    "dir_rename_image" DirRenameImage {
        /// The image's name so far.
        from: String,
        /// The image's name from now on.
        to: String,
        /// The image's id.
        id: String,
    } -> ();
    /// ENOENT unless the directory is in this state.
    "dir_state_assert" DirStateAssert {
        /// See [`directory_state`].
        state: u8,
    } -> ();
    /// Changes the state of the directory.
    "dir_state_set" DirStateSet {
        /// See [`directory_state`].
        state: u8,
    } -> ();
    /// Images in the trash, in the order of their ids.
    "trash_list" TrashList {
        /// The id to go on behind.
        after: String,
        /// Most images wanted.
        max: u64,
    } -> BTreeMap<String, TrashImageSpec>;
    /// An image in the trash.
    "trash_get" TrashGet {
        /// The image's id.
        id: String,
    } -> TrashImageSpec;
    /// Puts an image into the trash.
    "trash_add" TrashAdd {
        /// The image's id.
        id: String,
        /// What is known about it.
        spec: TrashImageSpec,
    } -> ();
    /// Takes an image out of the trash.
    "trash_remove" TrashRemove {
        /// The image's id.
        id: String,
    } -> ();
    /// Changes the state of an image in the trash. ESTALE: it is in another state than expected.
    "trash_state_set" TrashStateSet {
        /// The image's id.
        id: String,
        /// The state from now on.
        state: u8,
        /// The state so far.
        expected: u8,
    } -> ();
    /// Names of the pool's namespaces.
    "namespace_list" NamespaceList {
        /// The name to go on behind.
        after: String,
        /// Most names wanted.
        max: u64,
    } -> Vec<String>;
    /// Adds a namespace.
    "namespace_add" NamespaceAdd {
        /// Its name.
        name: String,
    } -> ();
    /// Removes a namespace.
    "namespace_remove" NamespaceRemove {
        /// Its name.
        name: String,
    } -> ();
}
