//! Blocks of memory with one owner, each returned to its origin.

use crate::mapping::{MAPPED, PAGE, layout, map, map_sparse, unmap};
use crate::slab::Slab;
use crate::sync::Access;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::Arc;

/// Block of initialised memory on a page boundary.
///
/// Unless it was cut from a slab, its length determines its origin: blocks of [`MAPPED`] bytes or more have their own
/// mapping, smaller ones come from the allocator.
pub(crate) struct Block {
    ptr: NonNull<u8>,
    len: usize,
    /// Slab that the block was cut from. It is freed with its last block.
    slab: Option<Arc<Slab>>,
    access: Access,
}

// SAFETY: a `Block` exclusively owns its bytes, and gives no access to them.
unsafe impl Send for Block {}

impl Block {
    pub(crate) fn zeroed(len: usize) -> Self {
        if len >= MAPPED {
            return Self::whole(map(len), len);
        }
        let layout = layout(len);
        // SAFETY: the layout has a size of at least one byte.
        let ptr = unsafe { alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        Self::whole(ptr, len)
    }

    /// Creates a zeroed block in which only written pages take memory, whatever its size.
    pub(crate) fn sparse(len: usize) -> Self {
        if len < MAPPED { Self::zeroed(len) } else { Self::whole(map_sparse(len), len) }
    }

    fn whole(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len, slab: None, access: Access::default() }
    }

    /// Creates the block of `len` bytes at `ptr` of a slab.
    ///
    /// # Safety
    /// It lies within the slab, and no other block overlaps it.
    pub(crate) unsafe fn cut(ptr: NonNull<u8>, len: usize, slab: Arc<Slab>) -> Self {
        Self { ptr, len, slab: Some(slab), access: Access::default() }
    }

    /// Splits the block into parts; [`from_parts`](Self::from_parts) reassembles it.
    pub(crate) fn into_parts(self) -> (NonNull<u8>, usize, Option<Arc<Slab>>, Access) {
        let mut this = ManuallyDrop::new(self);
        (this.ptr, this.len, this.slab.take(), mem::take(&mut this.access))
    }

    /// Reassembles a block.
    ///
    /// # Safety
    /// The parts come from [`into_parts`](Self::into_parts), and the bytes are not in use any more.
    pub(crate) unsafe fn from_parts(
        ptr: NonNull<u8>,
        len: usize,
        slab: Option<Arc<Slab>>,
        access: Access,
    ) -> Self {
        Self { ptr, len, slab, access }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.slab.is_some()
    }

    /// Splits off the second half.
    ///
    /// # Panics
    /// If the block does not have its own mapping, or its halves are too small for one.
    pub(crate) fn split_half(&mut self) -> Self {
        let half = self.len / 2;
        assert!(self.slab.is_none() && half >= MAPPED && half.is_multiple_of(PAGE));
        self.len = half;
        // SAFETY: it is within the block. A mapping can be unmapped in parts of whole pages.
        Self::whole(unsafe { self.ptr.add(half) }, half)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.slab.take() {
            Some(_) => {}
            // SAFETY: mapped with the same length, and not in use any more.
            None if self.len >= MAPPED => unsafe { unmap(self.ptr, self.len) },
            // SAFETY: allocated in `zeroed` with the same layout.
            None => unsafe { dealloc(self.ptr.as_ptr(), layout(self.len)) },
        }
    }
}
