//! Methods that link a clone to its parent snapshot, on both headers and on the pool's list of children
//! (`rbd_children`), and methods that copy data from one to the other.

use super::snapshot::{ChildImageSpec, ParentImageSpec};
use crate::cls::methods;
use std::collections::BTreeMap;

/// Conditions of [`AssertSnapcSeq`] (`cls::rbd::AssertSnapcSeqState`).
pub mod snapc_seq {
    /// The context is newer than the object's clones.
    pub const NEWER: u8 = 0;
    /// The object has a clone that is at least as new as the context.
    pub const NOT_NEWER: u8 = 1;
}

methods! { "rbd":
    /// Makes the image a clone. EEXIST: it already is one; ENOEXEC: it lacks the feature; EINVAL: the overlap would be empty.
    "parent_attach" ParentAttach {
        /// Parent snapshot.
        parent: ParentImageSpec,
        /// Overlap in bytes.
        overlap: u64,
        /// Whether to replace an existing parent.
        reattach: bool = false,
    } -> ();
    /// Removes the link to the parent. ENOENT: the image is no clone.
    "parent_detach" ParentDetach {} -> ();
    /// Makes the image a clone; method of releases before Nautilus.
    "set_parent" SetParent {
        /// Pool of the parent.
        pool: i64,
        /// Parent image.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
        /// Overlap in bytes.
        overlap: u64,
    } -> ();
    /// Removes the link to the parent; method of releases before Nautilus.
    "remove_parent" RemoveParent {} -> ();
    /// Records a clone with a snapshot. EEXIST: it is already recorded; ENOENT: the snapshot is in the trash.
    "child_attach" ChildAttach {
        /// Snapshot.
        snap: u64,
        /// Clone.
        child: ChildImageSpec,
    } -> ();
    /// Removes a clone from a snapshot's record. ENOENT: it is not recorded.
    "child_detach" ChildDetach {
        /// Snapshot.
        snap: u64,
        /// Clone.
        child: ChildImageSpec,
    } -> ();
    /// Adds a clone to the pool's list of children. EEXIST: it is already listed.
    "add_child" AddChild {
        /// Pool of the parent.
        pool: i64,
        /// Parent.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
        /// Clone in this pool.
        child: String,
    } -> ();
    /// Removes a clone from the pool's list of children. ENOENT: it is not listed.
    "remove_child" RemoveChild {
        /// Pool of the parent.
        pool: i64,
        /// Parent.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
        /// Clone in this pool.
        child: String,
    } -> ();
    /// Writes ranges of the parent's data, unless the object exists.
    "sparse_copyup" SparseCopyUp {
        /// Offsets and lengths of the ranges in bytes.
        extents: BTreeMap<u64, u64>,
        /// Concatenated data of the ranges.
        data: Vec<u8>,
    } -> ();
    /// Fails with ERANGE unless a writer's snapshot context meets the condition, compared with the object's snapshots.
    "assert_snapc_seq" AssertSnapcSeq {
        /// Newest snapshot that the writer knows.
        seq: u64,
        /// See [`snapc_seq`].
        state: u8,
    } -> ();
}
