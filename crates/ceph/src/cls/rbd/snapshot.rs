//! What a header holds about snapshots, parents and children, and the methods that read it.

use crate::cls::{methods, structure};
use crate::types::{NOSNAP, Utime};
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

structure! {
    /// The snapshot that a clone was made of (`cls::rbd::ParentImageSpec`). None: a pool of -1.
    ParentImageSpec v 1 {
        /// Pool of the parent.
        pool: i64,
        /// Namespace of the parent within the pool.
        namespace: String,
        /// The parent image.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
    }
}

impl Default for ParentImageSpec {
    fn default() -> Self {
        Self { pool: -1, namespace: String::new(), image_id: String::new(), snap: NOSNAP }
    }
}

structure! {
    /// A clone of a snapshot (`cls::rbd::ChildImageSpec`).
    #[derive(PartialOrd, Ord, Hash)]
    ChildImageSpec v 2 {
        /// Pool of the clone.
        pool: i64,
        /// The clone.
        image_id: String,
        /// Namespace of the clone within the pool.
        namespace: String = String::new(),
    }
}

/// What a snapshot was made for (`cls::rbd::SnapshotNamespace`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum SnapshotNamespace {
    /// A user asked for it.
    #[default]
    User,
    /// It is part of a snapshot of a group.
    Group { pool: i64, group_id: String, snapshot_id: String },
    /// It was removed, but clones need it.
    Trash { original_name: String, original_kind: u32 },
    /// The image is mirrored by it.
    Mirror {
        state: u8,
        complete: bool,
        peer_uuids: Vec<String>,
        primary_uuid: String,
        primary_snap: u64,
        last_copied_object: u64,
        snap_seqs: BTreeMap<u64, u64>,
    },
    /// Something that came later: the number of its kind and its content.
    Other { kind: u32, content: Vec<u8> },
}

impl SnapshotNamespace {
    /// The number of its kind (`SnapshotNamespaceType`).
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
    /// The reply to [`SnapshotGet`] (`cls::rbd::SnapshotInfo`).
    SnapshotInfo v 1 {
        /// The snapshot.
        id: u64,
        /// What it was made for.
        namespace: SnapshotNamespace,
        /// Its name.
        name: String,
        /// Bytes of the image at that time.
        image_size: u64,
        /// When it was made.
        timestamp: Utime,
        /// Clones that it counts itself.
        child_count: u32,
    }
}

/// The parent as a header keeps it (`cls_rbd_parent`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parent {
    /// The snapshot that the image is a clone of.
    pub spec: ParentImageSpec,
    /// Bytes of the parent that show through the image itself; none: only snapshots still need the parent.
    pub head_overlap: Option<u64>,
}

impl Parent {
    /// Is there a parent?
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
                // Before Nautilus an overlap was always there, and 0 without a parent.
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

/// A snapshot as a header keeps it (`cls_rbd_snap`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The snapshot.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Bytes of the image at that time.
    pub image_size: u64,
    /// 0: may be removed; 1: on the way there; 2: protected.
    pub protection: u8,
    /// Flags of the object map at that time.
    pub flags: u64,
    /// What it was made for.
    pub namespace: SnapshotNamespace,
    /// When it was made.
    pub timestamp: Utime,
    /// Clones that it counts itself.
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
    /// What is known about a snapshot.
    "snapshot_get" SnapshotGet {
        /// The snapshot.
        snap: u64,
    } -> SnapshotInfo;
    /// The name of a snapshot.
    "get_snapshot_name" GetSnapshotName {
        /// The snapshot.
        snap: u64,
    } -> String;
    /// When a snapshot was made.
    "get_snapshot_timestamp" GetSnapshotTimestamp {
        /// The snapshot.
        snap: u64,
    } -> Utime;
    /// Whether a snapshot is protected.
    "get_protection_status" GetProtectionStatus {
        /// The snapshot.
        snap: u64,
    } -> u8;
    /// Most snapshots that the image may have.
    "snapshot_get_limit" SnapshotGetLimit {} -> u64;
    /// Changes how many snapshots the image may have.
    "snapshot_set_limit" SnapshotSetLimit {
        /// `u64::MAX`: no limit.
        limit: u64,
    } -> ();
    /// The clones that a snapshot counts itself.
    "children_list" ChildrenList {
        /// The snapshot.
        snap: u64,
    } -> Vec<ChildImageSpec>;
    /// The clones of a snapshot by the pool's list of children.
    "get_children" GetChildren {
        /// Pool of the parent.
        pool: i64,
        /// The parent.
        image_id: String,
        /// The parent's snapshot.
        snap: u64,
    } -> Vec<String>;
}
