//! Blocks of memory with one owner, each given back to where it came from.

use crate::mapping::{MAPPED, PAGE, layout, map, map_sparse, unmap};
use crate::slab::Slab;
use crate::sync::Access;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::sync::Arc;

/// A block of initialised memory on a page boundary.
///
/// Its length says where it came from, unless it was cut from a slab: blocks of [`MAPPED`] bytes or more are mapped by
/// themselves, smaller ones come from the allocator.
pub(crate) struct Block {
    ptr: NonNull<u8>,
    len: usize,
    /// The slab that it was cut from, which goes when all its blocks have.
    slab: Option<Arc<Slab>>,
    access: Access,
}

// SAFETY: a `Block` is the only one that reaches its bytes, and gives no access to them.
unsafe impl Send for Block {}

impl Block {
    /// A zeroed block of `len` bytes.
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

    /// The same, of which only pages take memory that are written to, whatever the size of the block.
    pub(crate) fn sparse(len: usize) -> Self {
        if len < MAPPED { Self::zeroed(len) } else { Self::whole(map_sparse(len), len) }
    }

    fn whole(ptr: NonNull<u8>, len: usize) -> Self {
        Self { ptr, len, slab: None, access: Access::default() }
    }

    /// The block of `len` bytes at `ptr` of a slab.
    ///
    /// # Safety
    /// It lies within the slab, and no other block overlaps it.
    pub(crate) unsafe fn cut(ptr: NonNull<u8>, len: usize, slab: Arc<Slab>) -> Self {
        Self { ptr, len, slab: Some(slab), access: Access::default() }
    }

    /// Takes the block apart; [`from_parts`](Self::from_parts) puts it together again.
    pub(crate) fn into_parts(self) -> (NonNull<u8>, usize, Option<Arc<Slab>>, Access) {
        let mut this = ManuallyDrop::new(self);
        (this.ptr, this.len, this.slab.take(), mem::take(&mut this.access))
    }

    /// The block of these parts.
    ///
    /// # Safety
    /// [`into_parts`](Self::into_parts) gave them, and nobody uses the bytes any more.
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

    /// Was it cut from a slab?
    pub(crate) fn is_cut(&self) -> bool {
        self.slab.is_some()
    }

    /// Cuts off the second half.
    ///
    /// # Panics
    /// If the block is not mapped by itself, or if its halves are too small for it.
    pub(crate) fn split_half(&mut self) -> Self {
        let half = self.len / 2;
        assert!(self.slab.is_none() && half >= MAPPED && half.is_multiple_of(PAGE));
        self.len = half;
        // SAFETY: it is within the block. A mapping can be given back in parts of whole pages.
        Self::whole(unsafe { self.ptr.add(half) }, half)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.slab.take() {
            Some(_) => {}
            // SAFETY: mapped with the same length, and nobody uses it any more.
            None if self.len >= MAPPED => unsafe { unmap(self.ptr, self.len) },
            // SAFETY: allocated in `zeroed` with the same layout.
            None => unsafe { dealloc(self.ptr.as_ptr(), layout(self.len)) },
        }
    }
}
