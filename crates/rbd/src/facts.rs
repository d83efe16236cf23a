//! State of an image that a client must know to use it.

use crate::data::{Ancestor, DataObjects};
use onego_ceph::client::WatchTarget;
use onego_ceph::cls::rbd::{ParentImageSpec, image_flag};
use onego_ceph::rbd::{Features, ImageFormat};
use onego_ceph::types::{NOSNAP, SnapContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The part of the header's state that may change while the image is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageState {
    /// Bytes.
    pub size: u64,
    /// Features.
    pub features: Features,
    /// Flags; see [`image_flag`].
    pub flags: u64,
    /// Snapshots that writes preserve.
    pub snap_context: SnapContext,
    /// Snapshot that the image is a clone of.
    pub parent: ParentImageSpec,
    /// Bytes of the parent that show through.
    pub overlap: u64,
}

impl ImageState {
    /// Returns the bytes of data past an encryption header of `start` bytes.
    pub(crate) fn data_size(&self, start: u64) -> u64 {
        self.size.saturating_sub(start)
    }

    pub(crate) fn has_map(&self) -> bool {
        self.features.contains(Features::OBJECT_MAP) && self.flags & image_flag::OBJECT_MAP_INVALID == 0
    }
}

/// Everything that a client must know of an image to open it.
#[derive(Debug, Clone)]
pub struct ImageFacts {
    /// Id, or the name of an image without one.
    pub id: String,
    /// Header object.
    pub header: WatchTarget,
    /// Format of the header.
    pub format: ImageFormat,
    /// Location of the data.
    pub data: DataObjects,
    /// State from the header.
    pub state: ImageState,
    /// Parent, if any of it shows through.
    pub parent: Option<Arc<Ancestor>>,
}

impl ImageFacts {
    /// Returns whether the image is open at a snapshot, which does not change.
    pub fn is_snapshot(&self) -> bool {
        self.data.snap != NOSNAP
    }
}

/// State of an open image that other threads may read.
#[derive(Debug, Default)]
pub struct ImageView {
    size: AtomicU64,
    header_size: AtomicU64,
    is_owner: AtomicBool,
}

impl ImageView {
    /// Returns the current size in bytes: the bound of every request.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns the size in bytes from the header: more than [`size`](Self::size) while a shrink trims objects.
    pub fn header_size(&self) -> u64 {
        self.header_size.load(Ordering::Relaxed)
    }

    /// Returns whether this client currently owns the exclusive lock.
    pub fn is_lock_owner(&self) -> bool {
        self.is_owner.load(Ordering::Relaxed)
    }

    pub(crate) fn set_size(&self, size: u64, header_size: u64) {
        self.size.store(size, Ordering::Relaxed);
        self.header_size.store(header_size, Ordering::Relaxed);
    }

    pub(crate) fn set_owner(&self, is_owner: bool) {
        self.is_owner.store(is_owner, Ordering::Relaxed);
    }
}

/// State of a migration to this image.
#[derive(Debug, Clone)]
pub struct Migration {
    /// Newest snapshot that came from the source, or 0. An object whose versions are all older may lack some of them.
    pub newest_snap: u64,
    /// Parent after the end of the migration.
    pub parent: Option<Arc<Ancestor>>,
}

/// Result of an object's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Whether the image's object equals that of its newest snapshot.
    pub is_clean: bool,
}
