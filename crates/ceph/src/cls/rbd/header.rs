//! Methods on an image's header object (`rbd_header.ID`) and on the object with its id (`rbd_id.NAME`).

use super::snapshot::ParentImageSpec;
use crate::cls::{methods, structure};
use crate::types::{NOSNAP, SnapContext, Utime};
use std::collections::BTreeMap;

structure! {
    /// Reply to [`GetFeatures`].
    Features {
        /// Features of the image (see [`super::feature`]).
        features: u64,
        /// Features that the caller must know.
        incompatible: u64,
    }
}

structure! {
    /// Reply to [`GetSize`].
    Size {
        /// Base-2 logarithm of the object size in bytes.
        order: u8,
        /// Size of the image in bytes.
        size: u64,
    }
}

structure! {
    /// Reply to [`GetStripeUnitCount`].
    StripeUnitCount {
        /// Stripe unit in bytes.
        unit: u64,
        /// Number of objects of a stripe.
        count: u64,
    }
}

structure! {
    /// Reply to [`GetParent`]. A pool of -1 means no parent.
    LegacyParent {
        /// Pool of the parent.
        pool: i64,
        /// Parent image.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
        /// Bytes of the parent that show through.
        overlap: u64,
    }
}

structure! {
    /// Group of an image (`cls::rbd::GroupSpec`).
    GroupSpec v 1 {
        /// Pool of the group, or -1.
        pool: i64,
        /// Group id, or empty.
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
    /// Initializes a new header.
    "create" Create {
        /// Size of the image in bytes.
        size: u64,
        /// Base-2 logarithm of the object size in bytes.
        order: u8,
        /// See [`super::feature`].
        features: u64,
        /// Prefix of the data objects' names.
        object_prefix: String,
        /// Pool of the data, or -1 for the header's own.
        data_pool: i64 = -1,
    } -> ();
    /// Returns the features of the image.
    "get_features" GetFeatures {
        /// `NOSNAP`; obsolete.
        snap: u64,
        /// Whether the caller will only read.
        read_only: bool = false,
    } -> Features;
    /// Changes the features in `mask` to those in `features`.
    "set_features" SetFeatures {
        /// See [`super::feature`].
        features: u64,
        /// Bits to change.
        mask: u64,
    } -> ();
    /// Returns all features that the class knows.
    "get_all_features" GetAllFeatures {} -> u64;
    /// Returns the size of the image or of a snapshot.
    "get_size" GetSize {
        /// Snapshot, or `NOSNAP`.
        snap: u64,
    } -> Size;
    /// Changes the size of the image.
    "set_size" SetSize {
        /// Size of the image in bytes.
        size: u64,
    } -> ();
    /// Returns the prefix of the data objects' names.
    "get_object_prefix" GetObjectPrefix {} -> String;
    /// Returns the data pool, or -1.
    "get_data_pool" GetDataPool {} -> i64;
    /// Returns the flags of the image or of a snapshot (see [`super::image_flag`]).
    "get_flags" GetFlags {
        /// Snapshot, or `NOSNAP`.
        snap: u64,
    } -> u64;
    /// Changes the flags in `mask` to those in `flags`.
    "set_flags" SetFlags {
        /// See [`super::image_flag`].
        flags: u64,
        /// Bits to change.
        mask: u64,
        /// Snapshot, or `NOSNAP`.
        snap: u64 = NOSNAP,
    } -> ();
    /// Returns the operation features (see [`super::op_feature`]).
    "op_features_get" OpFeaturesGet {} -> u64;
    /// Changes the operation features in `mask` to those in `features`.
    "op_features_set" OpFeaturesSet {
        /// See [`super::op_feature`].
        features: u64,
        /// Bits to change.
        mask: u64,
    } -> ();
    /// Returns the snapshots that writes preserve.
    "get_snapcontext" GetSnapContext {} -> SnapContext;
    /// Returns the striping. ENOEXEC: the image lacks the feature.
    "get_stripe_unit_count" GetStripeUnitCount {} -> StripeUnitCount;
    /// Sets the striping.
    "set_stripe_unit_count" SetStripeUnitCount {
        /// Stripe unit in bytes.
        unit: u64,
        /// Number of objects of a stripe.
        count: u64,
    } -> ();
    /// Returns the creation time.
    "get_create_timestamp" GetCreateTimestamp {} -> Utime;
    /// Returns the recorded time of the last read.
    "get_access_timestamp" GetAccessTimestamp {} -> Utime;
    /// Returns the recorded time of the last write.
    "get_modify_timestamp" GetModifyTimestamp {} -> Utime;
    /// Records the current time as that of the last read.
    "set_access_timestamp" SetAccessTimestamp {} -> ();
    /// Records the current time as that of the last write.
    "set_modify_timestamp" SetModifyTimestamp {} -> ();
    /// Returns the parent of the image or of a snapshot; method of releases before Nautilus.
    "get_parent" GetParent {
        /// Snapshot, or `NOSNAP`.
        snap: u64,
    } -> LegacyParent;
    /// Returns the parent of the image.
    "parent_get" ParentGet {} -> ParentImageSpec;
    /// Returns the bytes of the parent that show through, if there is one.
    "parent_overlap_get" ParentOverlapGet {
        /// Snapshot, or `NOSNAP`.
        snap: u64,
    } -> Option<u64>;
    /// Returns the group of the image.
    "image_group_get" ImageGroupGet {} -> GroupSpec;
    /// Lists keys and values.
    "metadata_list" MetadataList {
        /// Key after which to start.
        after: String,
        /// Maximum number of entries; 0: 64.
        max: u64,
    } -> Metadata;
    /// Returns the value of a key.
    "metadata_get" MetadataGet {
        /// Key.
        key: String,
    } -> Vec<u8>;
    /// Sets keys.
    "metadata_set" MetadataSet {
        /// Keys and values.
        entries: Metadata,
    } -> ();
    /// Removes a key.
    "metadata_remove" MetadataRemove {
        /// Key.
        key: String,
    } -> ();
    /// Returns the id of the image with this name.
    "get_id" GetId {} -> String;
    /// Sets the id of the image with this name.
    "set_id" SetId {
        /// The id: letters and digits.
        id: String,
    } -> ();
    /// Deallocates blocks of zeros.
    "sparsify" Sparsify {
        /// Block size in bytes.
        block_size: u64,
        /// Whether to remove the object if it holds only zeros.
        remove_empty: bool,
    } -> ();
    /// Writes data of the parent, unless the object exists.
    "copyup" CopyUp {
        /// Data.
        data: Rest,
    } -> ();
}

/// All remaining bytes, without a length field.
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
