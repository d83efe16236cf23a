//! Memory shared by segments, and the way each kind is released.

use crate::block::Block;
use crate::free_lists::FreeLists;
use crate::slab::Slab;
use crate::sync::{self, Access};
use bytes::Bytes;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Initialised memory shared by segments, dropped with the last of them.
pub(crate) struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    backing: Backing,
    access: Access,
}

enum Backing {
    /// [`Block`], possibly of a slab, that returns to its origin.
    Origin(Option<Arc<Slab>>),
    /// [`Block`], possibly of a slab, that returns to its pool.
    Pool(sync::Arc<FreeLists>, Option<Arc<Slab>>),
    /// Memory of a caller's `Vec`.
    Vec { capacity: usize },
    /// Memory kept alive by a value of the crate `bytes`. It may be shared outside, so it is never writable.
    Bytes(#[expect(dead_code, reason = "owns the memory")] Box<Bytes>),
    /// Lent memory; dropping the value notifies the lender that it is free again.
    Lent(#[expect(dead_code, reason = "notifies the lender on drop")] Box<dyn Send + Sync>),
    /// Already released, to be freed elsewhere.
    Left,
}

// SAFETY: a `Memory` is a plain block of bytes. `Segment` (shared, read-only) and `SegmentMut` (exclusive, disjoint)
// control who may read or write which part, so moving or sharing the block between threads is sound.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes a block that returns to its origin.
    pub(crate) fn from_block(block: Block) -> Self {
        let (ptr, len, slab, access) = block.into_parts();
        Self { ptr, len, backing: Backing::Origin(slab), access }
    }

    /// Takes a block that returns to its pool's free lists.
    pub(crate) fn of_pool(block: Block, lists: sync::Arc<FreeLists>) -> Self {
        let (ptr, len, slab, access) = block.into_parts();
        Self { ptr, len, backing: Backing::Pool(lists, slab), access }
    }

    pub(crate) fn from_vec(vec: Vec<u8>) -> Self {
        // Taken apart in place: moving it after taking its pointer would invalidate the pointer.
        let mut vec = ManuallyDrop::new(vec);
        let ptr = NonNull::new(vec.as_mut_ptr()).expect("a Vec's pointer is never null");
        let (len, capacity) = (vec.len(), vec.capacity());
        Self { ptr, len, backing: Backing::Vec { capacity }, access: Access::default() }
    }

    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        let bytes = Box::new(bytes);
        // The bytes do not move with their handle.
        let (ptr, len) = (NonNull::from_ref(&bytes[..]).cast(), bytes.len());
        Self { ptr, len, backing: Backing::Bytes(bytes), access: Access::default() }
    }

    /// Memory lent by its owner.
    ///
    /// # Safety
    ///
    /// As for [`SegmentMut::lent`](crate::SegmentMut::lent).
    pub(crate) unsafe fn lent(ptr: NonNull<u8>, len: usize, lender: Box<dyn Send + Sync>) -> Self {
        Self { ptr, len, backing: Backing::Lent(lender), access: Access::default() }
    }

    /// Returns whether the memory may be shared outside of segments, or is read-only.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.backing, Backing::Bytes(_) | Backing::Lent(_))
    }

    pub(crate) fn slab(&self) -> Option<&Arc<Slab>> {
        match &self.backing {
            Backing::Origin(slab) | Backing::Pool(_, slab) => slab.as_ref(),
            Backing::Vec { .. } | Backing::Bytes(_) | Backing::Lent(_) | Backing::Left => None,
        }
    }

    /// Returns loom's tracker of reads and writes.
    #[inline(always)]
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn into_vec(self) -> Result<Vec<u8>, Self> {
        let Backing::Vec { capacity } = self.backing else { return Err(self) };
        let this = ManuallyDrop::new(self);
        // SAFETY: pointer, length and capacity are those of the `Vec` that was taken apart in `from_vec`, and
        // `ManuallyDrop` keeps `drop` from freeing the block a second time.
        Ok(unsafe { Vec::from_raw_parts(this.ptr.as_ptr(), this.len, capacity) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The lock of the free lists orders the accesses of a block's successive users.
        let access = std::mem::take(&mut self.access);
        // SAFETY: the parts are those of the block that this was made from, and no segment of it is left.
        let block = |slab| unsafe { Block::from_parts(self.ptr, self.len, slab, access) };
        match std::mem::replace(&mut self.backing, Backing::Left) {
            Backing::Origin(slab) => drop(block(slab)),
            Backing::Pool(lists, slab) => lists.put(block(slab)),
            Backing::Vec { capacity } => {
                // SAFETY: the parts are those of the `Vec` that was taken apart in `from_vec`.
                drop(unsafe { Vec::from_raw_parts(self.ptr.as_ptr(), self.len, capacity) });
            }
            Backing::Bytes(_) | Backing::Lent(_) | Backing::Left => {}
        }
    }
}
