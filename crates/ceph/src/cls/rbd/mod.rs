//! The class `rbd`: contents of an image's header, directory and other small objects, and the methods on them.
//!
//! Sources: ceph `src/cls/rbd/cls_rbd.{h,cc}`, `cls_rbd_types.{h,cc}`, `cls_rbd_client.cc`, `src/include/rbd_types.h`.

mod clone;
mod directory;
mod format1;
mod group;
mod header;
mod migration;
mod mirror;
mod object_map;
mod snapshot;
mod snapshot_changes;

pub use clone::*;
pub use directory::*;
pub use format1::*;
pub use group::*;
pub use header::*;
pub use migration::*;
pub use mirror::*;
pub use object_map::*;
pub use snapshot::*;
pub use snapshot_changes::*;

/// Bits of an image's features (`RBD_FEATURE_*`).
pub mod feature {
    /// Clones refer to their parent.
    pub const LAYERING: u64 = 1 << 0;
    /// Data is striped over objects in units smaller than an object.
    pub const STRIPING_V2: u64 = 1 << 1;
    /// Only one client at a time writes.
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    /// A map records which objects exist.
    pub const OBJECT_MAP: u64 = 1 << 3;
    /// The object map records changes between snapshots.
    pub const FAST_DIFF: u64 = 1 << 4;
    /// Flattening includes the snapshots.
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    /// Changes are journalled.
    pub const JOURNALING: u64 = 1 << 6;
    /// Data is in another pool.
    pub const DATA_POOL: u64 = 1 << 7;
    /// An operation feature is in use. Only set by the class.
    pub const OPERATIONS: u64 = 1 << 8;
    /// The image is being migrated. Only set by the class.
    pub const MIGRATING: u64 = 1 << 9;
    /// The image is a mirror of another one.
    pub const NON_PRIMARY: u64 = 1 << 10;
    /// A client-side cache may hold dirty data.
    pub const DIRTY_CACHE: u64 = 1 << 11;

    /// All features.
    pub const ALL: u64 = (1 << 12) - 1;
    /// Features that a reader must know.
    pub const INCOMPATIBLE: u64 = LAYERING | STRIPING_V2 | DATA_POOL | DIRTY_CACHE;
    /// Features that a writer must know.
    pub const RW_INCOMPATIBLE: u64 = INCOMPATIBLE
        | EXCLUSIVE_LOCK
        | OBJECT_MAP
        | FAST_DIFF
        | DEEP_FLATTEN
        | JOURNALING
        | OPERATIONS
        | MIGRATING
        | NON_PRIMARY;
    /// Features that can be enabled and disabled.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// Features that can be disabled permanently.
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// Features that only the class itself changes.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// Bits of an image's flags (`RBD_FLAG_*`).
pub mod image_flag {
    /// The object map is invalid.
    pub const OBJECT_MAP_INVALID: u64 = 1 << 0;
    /// The object map does not reliably record changes between snapshots.
    pub const FAST_DIFF_INVALID: u64 = 1 << 1;
}

/// Bits of an image's operation features (`RBD_OPERATION_FEATURE_*`).
pub mod op_feature {
    /// A snapshot has clones that are recorded with it (clone v2).
    pub const CLONE_PARENT: u64 = 1 << 0;
    /// The image is such a clone.
    pub const CLONE_CHILD: u64 = 1 << 1;
    /// The image belongs to a group.
    pub const GROUP: u64 = 1 << 2;
    /// A snapshot is in the trash.
    pub const SNAP_TRASH: u64 = 1 << 3;
    /// All operation features.
    pub const ALL: u64 = (1 << 4) - 1;
}
