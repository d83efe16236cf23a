//! Methods on an image's header object (`rbd_header.ID`) and on the object that gives its id (`rbd_id.NAME`).

use super::snapshot::ParentImageSpec;
use crate::cls::{methods, structure};
use crate::types::{NOSNAP, SnapContext, Utime};
use std::collections::BTreeMap;

structure! {
    /// The reply to [`GetFeatures`].
    Features {
        /// The image's features (see [`super::feature`]).
        features: u64,
        /// Those that the caller must know.
        incompatible: u64,
    }
}

structure! {
    /// The reply to [`GetSize`].
    Size {
        /// An object has `1 << order` bytes.
        order: u8,
        /// Bytes of the image.
        size: u64,
    }
}

structure! {
    /// The reply to [`GetStripeUnitCount`].
    StripeUnitCount {
        /// Bytes of a stripe unit.
        unit: u64,
        /// Objects that a stripe covers.
        count: u64,
    }
}

structure! {
    /// The reply to [`GetParent`]. No parent: a pool of -1.
    LegacyParent {
        /// Pool of the parent.
        pool: i64,
        /// The parent image.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
        /// Bytes of the parent that show through.
        overlap: u64,
    }
}

structure! {
    /// The group that an image belongs to (`cls::rbd::GroupSpec`).
    GroupSpec v 1 {
        /// The group's pool, or -1.
        pool: i64,
        /// The group, or nothing.
        group_id: String,
    }
}

impl Default for GroupSpec {
    fn default() -> Self {
        Self { pool: -1, group_id: String::new() }
    }
}

/// Keys and values that users attach to an image or a pool.
pub type Metadata = BTreeMap<String, Vec<u8>>;

methods! { "rbd":
    /// Fills a new header.
    "create" Create {
        /// Bytes of the image.
        size: u64,
        /// An object has `1 << order` bytes.
        order: u8,
        /// See [`super::feature`].
        features: u64,
        /// What the names of the data objects start with.
        object_prefix: String,
        /// Pool of the data, or -1 for the header's own.
        data_pool: i64 = -1,
    } -> ();
    /// The features of the image.
    "get_features" GetFeatures {
        /// `NOSNAP`; a thing of the past.
        snap: u64,
        /// Will the caller only read?
        read_only: bool = false,
    } -> Features;
    /// Changes the features in `mask` to those of `features`.
    "set_features" SetFeatures {
        /// See [`super::feature`].
        features: u64,
        /// Which of them to change.
        mask: u64,
    } -> ();
    /// Every feature that the class knows.
    "get_all_features" GetAllFeatures {} -> u64;
    /// The size of the image or of a snapshot.
    "get_size" GetSize {
        /// The snapshot, or `NOSNAP`.
        snap: u64,
    } -> Size;
    /// Changes the size of the image.
    "set_size" SetSize {
        /// Bytes of the image.
        size: u64,
    } -> ();
    /// What the names of the data objects start with.
    "get_object_prefix" GetObjectPrefix {} -> String;
    /// Pool of the data, or -1.
    "get_data_pool" GetDataPool {} -> i64;
    /// The flags of the image or of a snapshot (see [`super::image_flag`]).
    "get_flags" GetFlags {
        /// The snapshot, or `NOSNAP`.
        snap: u64,
    } -> u64;
    /// Changes the flags in `mask` to those of `flags`.
    "set_flags" SetFlags {
        /// See [`super::image_flag`].
        flags: u64,
        /// Which of them to change.
        mask: u64,
        /// The snapshot, or `NOSNAP`.
        snap: u64 = NOSNAP,
    } -> ();
    /// The operation features (see [`super::op_feature`]).
    "op_features_get" OpFeaturesGet {} -> u64;
    /// Changes the operation features in `mask` to those of `features`.
    "op_features_set" OpFeaturesSet {
        /// See [`super::op_feature`].
        features: u64,
        /// Which of them to change.
        mask: u64,
    } -> ();
    /// The snapshots that writes of data must keep.
    "get_snapcontext" GetSnapContext {} -> SnapContext;
    /// How data is striped. ENOEXEC: the image has not the feature.
    "get_stripe_unit_count" GetStripeUnitCount {} -> StripeUnitCount;
    /// Sets how data is striped.
    "set_stripe_unit_count" SetStripeUnitCount {
        /// Bytes of a stripe unit.
        unit: u64,
        /// Objects that a stripe covers.
        count: u64,
    } -> ();
    /// When the image was made.
    "get_create_timestamp" GetCreateTimestamp {} -> Utime;
    /// When the image was last read, as far as anybody said so.
    "get_access_timestamp" GetAccessTimestamp {} -> Utime;
    /// When the image was last written, as far as anybody said so.
    "get_modify_timestamp" GetModifyTimestamp {} -> Utime;
    /// The image is read now.
    "set_access_timestamp" SetAccessTimestamp {} -> ();
    /// The image is written now.
    "set_modify_timestamp" SetModifyTimestamp {} -> ();
    /// The parent of the image or of a snapshot, as releases before Nautilus ask for it.
    "get_parent" GetParent {
        /// The snapshot, or `NOSNAP`.
        snap: u64,
    } -> LegacyParent;
    /// The parent of the image.
    "parent_get" ParentGet {} -> ParentImageSpec;
    /// Bytes of the parent that show through, if there is one.
    "parent_overlap_get" ParentOverlapGet {
        /// The snapshot, or `NOSNAP`.
        snap: u64,
    } -> Option<u64>;
    /// The group that the image belongs to.
    "image_group_get" ImageGroupGet {} -> GroupSpec;
    /// Keys behind `after` and their values.
    "metadata_list" MetadataList {
        /// The key to go on behind.
        after: String,
        /// Most entries wanted; 0: 64.
        max: u64,
    } -> Metadata;
    /// The value of a key.
    "metadata_get" MetadataGet {
        /// The key.
        key: String,
    } -> Vec<u8>;
    /// Sets keys.
    "metadata_set" MetadataSet {
        /// Keys and values.
        entries: Metadata,
    } -> ();
    /// Removes a key.
    "metadata_remove" MetadataRemove {
        /// The key.
        key: String,
    } -> ();
    /// The id of the image with this name.
    "get_id" GetId {} -> String;
    /// Sets the id of the image with this name.
    "set_id" SetId {
        /// The id: letters and digits.
        id: String,
    } -> ();
    /// Gives back the memory of zeros.
    "sparsify" Sparsify {
        /// Size of the blocks that are given back where they are zeros, bytes.
        block_size: u64,
        /// Remove the object if it holds nothing but zeros?
        remove_empty: bool,
    } -> ();
    /// Writes data of the parent, unless the object exists.
    "copyup" CopyUp {
        /// The data.
        data: Rest,
    } -> ();
}

/// All the bytes that are left, with no length before them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest(
    /// The bytes.
    pub Vec<u8>,
);

impl onego_msgr::encoding::Encode for Rest {
    fn encode(&self, w: &mut onego_wire::Writer) {
        w.put(&self.0);
    }
}

impl onego_msgr::encoding::Decode for Rest {
    fn decode(r: &mut onego_wire::Reader<'_>) -> onego_wire::Decoded<Self> {
        let left = r.left();
        Ok(Self(r.take(left, "rest")?.to_vec()))
    }
}
