//! Memory that segments share, and where each kind goes in the end.

use crate::block::Block;
use crate::free_lists::FreeLists;
use crate::slab::Slab;
use crate::sync::{self, Access};
use bytes::Bytes;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Initialised memory that segments share. Dropped when the last segment of it is.
pub(crate) struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    home: Home,
    access: Access,
}

/// Where memory goes when nobody needs it.
enum Home {
    /// A [`Block`], which goes back to where it came from. Of a slab, or not.
    Origin(Option<Arc<Slab>>),
    /// A [`Block`], which goes back to its pool. Of a slab, or not.
    Pool(sync::Arc<FreeLists>, Option<Arc<Slab>>),
    /// Kept alive by a value of the caller's.
    Vec { capacity: usize },
    /// Kept alive by a value of the crate `bytes`, which others may hold, too: it is never writable.
    Bytes(#[expect(dead_code, reason = "it keeps the memory")] Box<Bytes>),
    /// Lent by somebody who learns that it is free again when the value is dropped.
    Lent(#[expect(dead_code, reason = "it tells the lender")] Box<dyn Send + Sync>),
    /// Already on its way there: somebody else frees it.
    Left,
}

// SAFETY: a `Memory` is a plain block of bytes; who may read or write which part of it is settled by `Segment`
// (shared, read-only) and `SegmentMut` (exclusive, disjoint), so moving or sharing the block between threads is sound.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// A block that goes back to where it came from.
    pub(crate) fn from_block(block: Block) -> Self {
        let (ptr, len, slab, access) = block.into_parts();
        Self { ptr, len, home: Home::Origin(slab), access }
    }

    /// A block that goes back to the free lists of its pool.
    pub(crate) fn of_pool(block: Block, lists: sync::Arc<FreeLists>) -> Self {
        let (ptr, len, slab, access) = block.into_parts();
        Self { ptr, len, home: Home::Pool(lists, slab), access }
    }

    pub(crate) fn from_vec(vec: Vec<u8>) -> Self {
        // Taken apart where it stays: to move it after its pointer was taken would end the pointer's right to it.
        let mut vec = ManuallyDrop::new(vec);
        let ptr = NonNull::new(vec.as_mut_ptr()).expect("a Vec's pointer is never null");
        let (len, capacity) = (vec.len(), vec.capacity());
        Self { ptr, len, home: Home::Vec { capacity }, access: Access::default() }
    }

    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        let bytes = Box::new(bytes);
        // The bytes stay where they are when the handle to them moves.
        let (ptr, len) = (NonNull::from_ref(&bytes[..]).cast(), bytes.len());
        Self { ptr, len, home: Home::Bytes(bytes), access: Access::default() }
    }

    /// Memory of somebody else's.
    ///
    /// # Safety
    ///
    /// As for [`SegmentMut::lent`](crate::SegmentMut::lent).
    pub(crate) unsafe fn lent(ptr: NonNull<u8>, len: usize, lender: Box<dyn Send + Sync>) -> Self {
        Self { ptr, len, home: Home::Lent(lender), access: Access::default() }
    }

    /// May others hold the memory who are no segments, or may it be only read?
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.home, Home::Bytes(_) | Home::Lent(_))
    }

    /// The slab that it was cut from, if any.
    pub(crate) fn slab(&self) -> Option<&Arc<Slab>> {
        match &self.home {
            Home::Origin(slab) | Home::Pool(_, slab) => slab.as_ref(),
            Home::Vec { .. } | Home::Bytes(_) | Home::Lent(_) | Home::Left => None,
        }
    }

    /// Tracks reads and writes of the bytes, for loom.
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

    /// Turns a block that came from a `Vec` back into it, or gives the block back.
    pub(crate) fn into_vec(self) -> Result<Vec<u8>, Self> {
        let Home::Vec { capacity } = self.home else { return Err(self) };
        let this = ManuallyDrop::new(self);
        // SAFETY: pointer, length and capacity are those of the `Vec` that was taken apart in `from_vec`, and
        // `ManuallyDrop` keeps `drop` from freeing the block a second time.
        Ok(unsafe { Vec::from_raw_parts(this.ptr.as_ptr(), this.len, capacity) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The next user of a block comes after the last one: the lock of the free lists orders them.
        let access = std::mem::take(&mut self.access);
        // SAFETY: the parts are those of the block that this was made of, and no segment of it is left.
        let block = |slab| unsafe { Block::from_parts(self.ptr, self.len, slab, access) };
        match std::mem::replace(&mut self.home, Home::Left) {
            Home::Origin(slab) => drop(block(slab)),
            Home::Pool(lists, slab) => lists.put(block(slab)),
            Home::Vec { capacity } => {
                // SAFETY: the parts are those of the `Vec` that was taken apart in `from_vec`.
                drop(unsafe { Vec::from_raw_parts(self.ptr.as_ptr(), self.len, capacity) });
            }
            Home::Bytes(_) | Home::Lent(_) | Home::Left => {}
        }
    }
}
