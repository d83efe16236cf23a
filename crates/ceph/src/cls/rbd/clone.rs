//! The methods that tie a clone to the snapshot that it was made of, on both headers and on the pool's list of children
//! (`rbd_children`), and those that move data from one to the other.

use super::snapshot::{ChildImageSpec, ParentImageSpec};
use crate::cls::methods;
use std::collections::BTreeMap;

/// What [`AssertSnapcSeq`] asserts (`cls::rbd::AssertSnapcSeqState`).
pub mod snapc_seq {
    /// The context is newer than the object's clones.
    pub const NEWER: u8 = 0;
    /// The object has a clone that is as new as the context.
    pub const NOT_NEWER: u8 = 1;
}

methods! { "rbd":
    /// Makes the image a clone. EEXIST: it is one already; ENOEXEC: it has not the feature; EINVAL: nothing would show through.
    "parent_attach" ParentAttach {
        /// The snapshot that it is a clone of.
        parent: ParentImageSpec,
        /// Bytes of the snapshot.
        overlap: u64,
        /// Replace the parent that is there?
        reattach: bool = false,
    } -> ();
    /// Makes the image no clone any more. ENOENT: it is none.
    "parent_detach" ParentDetach {} -> ();
    /// Makes the image a clone, as releases before Nautilus do.
    "set_parent" SetParent {
        /// Pool of the parent.
        pool: i64,
        /// The parent image.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
        /// Bytes of the snapshot.
        overlap: u64,
    } -> ();
    /// Makes the image no clone any more, as releases before Nautilus do.
    "remove_parent" RemoveParent {} -> ();
    /// A snapshot has another clone that it counts itself. EEXIST: it has that one; ENOENT: it is in the trash.
    "child_attach" ChildAttach {
        /// The snapshot.
        snap: u64,
        /// The clone.
        child: ChildImageSpec,
    } -> ();
    /// A snapshot has a clone less. ENOENT: it has not that one.
    "child_detach" ChildDetach {
        /// The snapshot.
        snap: u64,
        /// The clone.
        child: ChildImageSpec,
    } -> ();
    /// Adds a clone to the pool's list of children. EEXIST: it is there.
    "add_child" AddChild {
        /// Pool of the parent.
        pool: i64,
        /// The parent.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
        /// The clone, which is in this pool.
        child: String,
    } -> ();
    /// Takes a clone out of the pool's list of children. ENOENT: it is not there.
    "remove_child" RemoveChild {
        /// Pool of the parent.
        pool: i64,
        /// The parent.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
        /// The clone, which is in this pool.
        child: String,
    } -> ();
    /// Writes parts of the parent's data, unless the object exists.
    "sparse_copyup" SparseCopyUp {
        /// Offset and length of each part, bytes.
        extents: BTreeMap<u64, u64>,
        /// The data of all parts, one behind the other.
        data: Vec<u8>,
    } -> ();
    /// ERANGE unless the snapshots of a writer are as new as it says, compared with those of the object.
    "assert_snapc_seq" AssertSnapcSeq {
        /// The newest snapshot that the writer knows.
        seq: u64,
        /// See [`snapc_seq`].
        state: u8,
    } -> ();
}
