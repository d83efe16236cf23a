//! What has to be known of an image to use it.

use crate::data::{Ancestor, DataObjects};
use onego_ceph::client::WatchTarget;
use onego_ceph::cls::rbd::{ParentImageSpec, image_flag};
use onego_ceph::rbd::{Features, ImageFormat};
use onego_ceph::types::{NOSNAP, SnapContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the header says, and may say otherwise later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageState {
    /// Bytes.
    pub size: u64,
    /// Features.
    pub features: Features,
    /// See [`image_flag`].
    pub flags: u64,
    /// The snapshots that writes must keep.
    pub snap_context: SnapContext,
    /// The snapshot that the image is a clone of.
    pub parent: ParentImageSpec,
    /// Bytes of it that show through.
    pub overlap: u64,
}

impl ImageState {
    /// Bytes of data, behind a header of `start` bytes.
    pub(crate) fn data_size(&self, start: u64) -> u64 {
        self.size.saturating_sub(start)
    }

    /// Can the object map be relied on?
    pub(crate) fn has_map(&self) -> bool {
        self.features.contains(Features::OBJECT_MAP) && self.flags & image_flag::OBJECT_MAP_INVALID == 0
    }
}

/// All that has to be known of an image to use it.
#[derive(Debug, Clone)]
pub struct ImageFacts {
    /// Its id, or its name if it has none.
    pub id: String,
    /// Its header.
    pub header: WatchTarget,
    /// The form of the header.
    pub format: ImageFormat,
    /// Where its data lies.
    pub data: DataObjects,
    /// What its header says.
    pub state: ImageState,
    /// The snapshot that it is a clone of, if any of it shows through.
    pub parent: Option<Arc<Ancestor>>,
}

impl ImageFacts {
    /// Is it the image at a snapshot, which does not change?
    pub fn is_snapshot(&self) -> bool {
        self.data.snap != NOSNAP
    }
}

/// What other threads may see of an open image.
#[derive(Debug, Default)]
pub struct ImageView {
    size: AtomicU64,
    header_size: AtomicU64,
    is_owner: AtomicBool,
}

impl ImageView {
    /// Bytes of the image, now: the bound of every request.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Bytes of the image by its header: more than [`size`](Self::size) while a shrink trims.
    pub fn header_size(&self) -> u64 {
        self.header_size.load(Ordering::Relaxed)
    }

    /// Does this client own the exclusive lock, now?
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

/// What an image has to know while it is being moved here.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The newest snapshot that came with the image, or 0. An object whose versions are older may lack some of its own.
    pub newest_snap: u64,
    /// The snapshot that the image is a clone of once the move is over.
    pub parent: Option<Arc<Ancestor>>,
}

/// An object is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The image has there what its newest snapshot has.
    pub is_clean: bool,
}
