//! Snapshots, parents and children in a header, and the methods that read them.

use crate::cls::{methods, structure};
use crate::types::{NOSNAP, Utime};
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

structure! {
    /// Parent snapshot of a clone (`cls::rbd::ParentImageSpec`). A pool of -1 means none.
    ParentImageSpec v 1 {
        /// Pool of the parent.
        pool: i64,
        /// Namespace of the parent within the pool.
        namespace: String,
        /// Parent image.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
    }
}

impl Default for ParentImageSpec {
    fn default() -> Self {
        Self { pool: -1, namespace: String::new(), image_id: String::new(), snap: NOSNAP }
    }
}

structure! {
    /// Clone of a snapshot (`cls::rbd::ChildImageSpec`).
    #[derive(PartialOrd, Ord, Hash)]
    ChildImageSpec v 2 {
        /// Pool of the clone.
        pool: i64,
        /// Clone.
        image_id: String,
        /// Namespace of the clone within the pool.
        namespace: String = String::new(),
    }
}

/// Purpose of a snapshot (`cls::rbd::SnapshotNamespace`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum SnapshotNamespace {
    /// Created by a user.
    #[default]
    User,
    /// Part of a snapshot of a group.
    Group { pool: i64, group_id: String, snapshot_id: String },
    /// Removed, but still needed by clones.
    Trash { original_name: String, original_kind: u32 },
    /// Created for mirroring.
    Mirror {
        state: u8,
        complete: bool,
        peer_uuids: Vec<String>,
        primary_uuid: String,
        primary_snap: u64,
        last_copied_object: u64,
        snap_seqs: BTreeMap<u64, u64>,
    },
    /// Unknown kind: its number and its content.
    Other { kind: u32, content: Vec<u8> },
}

impl SnapshotNamespace {
    /// Returns the number of its kind (`SnapshotNamespaceType`).
    pub fn kind(&self) -> u32 {
        match self {
            Self::User => 0,
            Self::Group { .. } => 1,
            Self::Trash { .. } => 2,
            Self::Mirror { .. } => 3,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl Decode for SnapshotNamespace {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "snapshot namespace", |_, r| {
            Ok(match r.u32("kind of snapshot")? {
                0 => Self::User,
                1 => Self::Group {
                    pool: r.i64("group's pool")?,
                    group_id: r.string("group")?,
                    snapshot_id: r.string("group's snapshot")?,
                },
                2 => Self::Trash {
                    original_name: r.string("snapshot name")?,
                    original_kind: r.u32("kind of snapshot")?,
                },
                3 => Self::Mirror {
                    state: r.u8("mirror state")?,
                    complete: r.bool("completeness")?,
                    peer_uuids: Vec::decode(r)?,
                    primary_uuid: r.string("primary")?,
                    primary_snap: r.u64("primary's snapshot")?,
                    last_copied_object: r.u64("last copied object")?,
                    snap_seqs: BTreeMap::decode(r)?,
                },
                kind => Self::Other { kind, content: r.take(r.left(), "snapshot namespace")?.to_vec() },
            })
        })
    }
}

impl Encode for SnapshotNamespace {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| match self {
            Self::User => w.u32(0),
            Self::Group { pool, group_id, snapshot_id } => {
                w.u32(1);
                w.i64(*pool);
                w.string(group_id);
                w.string(snapshot_id);
            }
            Self::Trash { original_name, original_kind } => {
                w.u32(2);
                w.string(original_name);
                w.u32(*original_kind);
            }
            Self::Mirror {
                state,
                complete,
                peer_uuids,
                primary_uuid,
                primary_snap,
                last_copied_object,
                snap_seqs,
            } => {
                w.u32(3);
                w.u8(*state);
                w.bool(*complete);
                peer_uuids.encode(w);
                w.string(primary_uuid);
                w.u64(*primary_snap);
                w.u64(*last_copied_object);
                snap_seqs.encode(w);
            }
            Self::Other { kind, content } => {
                w.u32(*kind);
                w.put(content);
            }
        });
    }
}

structure! {
    /// Reply to [`SnapshotGet`] (`cls::rbd::SnapshotInfo`).
    SnapshotInfo v 1 {
        /// Snapshot.
        id: u64,
        /// Purpose.
        namespace: SnapshotNamespace,
        /// Name.
        name: String,
        /// Size of the image at that time, in bytes.
        image_size: u64,
        /// Creation time.
        timestamp: Utime,
        /// Number of clones that are recorded with it (clone v2).
        child_count: u32,
    }
}

/// Stored form of the parent (`cls_rbd_parent`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parent {
    /// Parent snapshot.
    pub spec: ParentImageSpec,
    /// Bytes of the parent that show through the current image; none: only snapshots still need the parent.
    pub head_overlap: Option<u64>,
}

impl Parent {
    /// Returns whether there is a parent.
    pub fn exists(&self) -> bool {
        self.spec.pool >= 0 && !self.spec.image_id.is_empty() && self.spec.snap != NOSNAP
    }
}

impl Decode for Parent {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "cls_rbd_parent", |version, r| {
            let pool = r.i64("parent's pool")?;
            let namespace = if version >= 2 { r.string("parent's namespace")? } else { String::new() };
            let (image_id, snap) = (r.string("parent")?, r.u64("parent's snapshot")?);
            let head_overlap = if version >= 2 {
                Option::decode(r)?
            } else {
                // Before Nautilus the overlap was always present, and 0 without a parent.
                Some(r.u64("parent's overlap")?).filter(|_| pool >= 0)
            };
            Ok(Self { spec: ParentImageSpec { pool, namespace, image_id, snap }, head_overlap })
        })
    }
}

impl Encode for Parent {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 2, 2, |w| {
            w.i64(self.spec.pool);
            w.string(&self.spec.namespace);
            w.string(&self.spec.image_id);
            w.u64(self.spec.snap);
            self.head_overlap.encode(w);
        });
    }
}

/// Stored form of a snapshot (`cls_rbd_snap`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Snapshot.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Size of the image at that time, in bytes.
    pub image_size: u64,
    /// 0: unprotected; 1: being unprotected; 2: protected.
    pub protection: u8,
    /// Flags of the object map at that time.
    pub flags: u64,
    /// Purpose.
    pub namespace: SnapshotNamespace,
    /// Creation time.
    pub timestamp: Utime,
    /// Number of clones that are recorded with it (clone v2).
    pub child_count: u32,
    /// Bytes of the parent that show through.
    pub parent_overlap: Option<u64>,
}

impl Decode for Snapshot {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 8, "cls_rbd_snap", |version, r| {
            // Before version 8 (Nautilus) each snapshot had a parent of its own.
            if version < 8 {
                return Err(DecodeError::TooOld { what: "cls_rbd_snap", version, oldest: 8 });
            }
            Ok(Self {
                id: r.u64("snapshot")?,
                name: r.string("snapshot name")?,
                image_size: r.u64("image size")?,
                protection: r.u8("protection")?,
                flags: r.u64("flags")?,
                namespace: SnapshotNamespace::decode(r)?,
                timestamp: Utime::decode(r)?,
                child_count: r.u32("number of children")?,
                parent_overlap: Option::decode(r)?,
            })
        })
    }
}

impl Encode for Snapshot {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 8, 8, |w| {
            w.u64(self.id);
            w.string(&self.name);
            w.u64(self.image_size);
            w.u8(self.protection);
            w.u64(self.flags);
            self.namespace.encode(w);
            self.timestamp.encode(w);
            w.u32(self.child_count);
            self.parent_overlap.encode(w);
        });
    }
}

methods! { "rbd":
    /// Returns a snapshot.
    "snapshot_get" SnapshotGet {
        /// Snapshot.
        snap: u64,
    } -> SnapshotInfo;
    /// Returns the name of a snapshot.
    "get_snapshot_name" GetSnapshotName {
        /// Snapshot.
        snap: u64,
    } -> String;
    /// Returns the creation time of a snapshot.
    "get_snapshot_timestamp" GetSnapshotTimestamp {
        /// Snapshot.
        snap: u64,
    } -> Utime;
    /// Returns the protection of a snapshot.
    "get_protection_status" GetProtectionStatus {
        /// Snapshot.
        snap: u64,
    } -> u8;
    /// Returns the limit of the number of snapshots.
    "snapshot_get_limit" SnapshotGetLimit {} -> u64;
    /// Changes the limit of the number of snapshots.
    "snapshot_set_limit" SnapshotSetLimit {
        /// `u64::MAX`: no limit.
        limit: u64,
    } -> ();
    /// Lists the clones that are recorded with a snapshot.
    "children_list" ChildrenList {
        /// Snapshot.
        snap: u64,
    } -> Vec<ChildImageSpec>;
    /// Lists the clones of a snapshot in the pool's list of children.
    "get_children" GetChildren {
        /// Pool of the parent.
        pool: i64,
        /// Parent.
        image_id: String,
        /// Snapshot of the parent.
        snap: u64,
    } -> Vec<String>;
}
