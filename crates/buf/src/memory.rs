//! Blocks of memory that segments share, and how each kind is given back.

use crate::pool::PoolShared;
use crate::slab::Slab;
use crate::sync::{self, Access};
use bytes::Bytes;
#[cfg(not(miri))]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Page size that blocks are aligned to, bytes.
pub(crate) const PAGE: usize = 4096;

/// Blocks of this size or more are mapped: they come as zeros without being written to, and go back for good.
pub(crate) const MAPPED: usize = 64 << 10;

/// Bytes of a huge page: to touch one is one page fault instead of 512.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// A block of initialised memory. Dropped when the last segment of it is.
pub(crate) struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    home: Home,
    access: Access,
}

/// Where the memory of a block goes when nobody needs it.
enum Home {
    /// Page-aligned, from the allocator, back to the allocator.
    Heap,
    /// Mapped by itself.
    Mapped,
    /// From a pool, back to the pool; cut from a slab, or not.
    Pool(sync::Arc<PoolShared>, Option<Arc<Slab>>),
    /// Cut from a slab, which goes when all its blocks have.
    Slab(Arc<Slab>),
    /// Kept alive by a value of the caller's.
    Vec { capacity: usize },
    /// Kept alive by a value of the crate `bytes`, which others may hold, too: it is never writable.
    Bytes(#[expect(dead_code, reason = "it keeps the memory")] Box<Bytes>),
    /// Already on its way there: somebody else frees it.
    Left,
}

// SAFETY: a `Memory` is a plain block of bytes; who may read or write which part of it is settled by `Segment`
// (shared, read-only) and `SegmentMut` (exclusive, disjoint), so moving or sharing the block between threads is sound.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len.max(1), PAGE).expect("block sizes are far below isize::MAX")
}

/// Maps `len` bytes of zeros; `pages` says what they are to lie in, where that makes a difference.
#[cfg(not(miri))]
fn map_in(len: usize, pages: Advice) -> NonNull<u8> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at no address in particular touches no memory that is in use.
    let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) };
    let Ok(Some(ptr)) = mapping.map(|ptr| NonNull::new(ptr.cast::<u8>())) else {
        handle_alloc_error(layout(len))
    };
    if len >= HUGE_PAGE {
        // SAFETY: advice on a mapping that is ours changes nothing of what it holds. Without huge pages it is
        // refused, and all is as it would have been.
        let _ = unsafe { madvise(ptr.as_ptr().cast(), len, pages) };
    }
    ptr
}

/// Maps `len` bytes of zeros.
#[cfg(not(miri))]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    map_in(len, Advice::LinuxHugepage)
}

/// The same, of which only pages take memory that are written to: the first byte of a huge page takes 2 MiB.
#[cfg(not(miri))]
fn map_sparse(len: usize) -> NonNull<u8> {
    map_in(len, Advice::LinuxNoHugepage)
}

/// Gives a mapping back.
///
/// # Safety
/// [`map`] gave it with that length, and nobody uses it any more.
#[cfg(not(miri))]
pub(crate) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
    // SAFETY: promised by the caller.
    let unmapped = unsafe { munmap(ptr.as_ptr().cast(), len) };
    debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
}

/// As above. Miri makes no system calls: the allocator's memory has the same rules.
#[cfg(miri)]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    // SAFETY: the layout has a size of at least one byte.
    let ptr = unsafe { alloc_zeroed(layout(len)) };
    NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout(len)))
}

/// As above.
#[cfg(miri)]
fn map_sparse(len: usize) -> NonNull<u8> {
    map(len)
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(miri)]
pub(crate) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
    // SAFETY: allocated in `map` with the same layout, as the caller promises.
    unsafe { dealloc(ptr.as_ptr(), layout(len)) };
}

impl Memory {
    /// A zeroed block of `len` bytes on a page boundary.
    pub(crate) fn zeroed(len: usize) -> Self {
        if len >= MAPPED {
            return Self::mapped(len);
        }
        let layout = layout(len);
        // SAFETY: the layout has a size of at least one byte.
        let ptr = unsafe { alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        Self { ptr, len, home: Home::Heap, access: Access::default() }
    }

    /// The same, of which only pages take memory that are written to, whatever the size of the block.
    pub(crate) fn sparse(len: usize) -> Self {
        if len < MAPPED {
            return Self::zeroed(len);
        }
        Self { ptr: map_sparse(len), len, home: Home::Mapped, access: Access::default() }
    }

    fn mapped(len: usize) -> Self {
        Self { ptr: map(len), len, home: Home::Mapped, access: Access::default() }
    }

    /// The block of `len` bytes at `ptr` of a slab.
    ///
    /// # Safety
    /// It lies within the slab, and no other block overlaps it.
    pub(crate) unsafe fn cut(ptr: NonNull<u8>, len: usize, slab: Arc<Slab>) -> Self {
        Self { ptr, len, home: Home::Slab(slab), access: Access::default() }
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

    /// May others hold the memory who are no segments?
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.home, Home::Bytes(_))
    }

    /// The same block, to be given to `pool` when it is dropped.
    pub(crate) fn homed(mut self, pool: sync::Arc<PoolShared>) -> Self {
        self.home = match std::mem::replace(&mut self.home, Home::Left) {
            Home::Slab(slab) => Home::Pool(pool, Some(slab)),
            _ => Home::Pool(pool, None),
        };
        self
    }

    /// The slab that it was cut from, if any.
    pub(crate) fn slab(&self) -> Option<&Arc<Slab>> {
        match &self.home {
            Home::Slab(slab) | Home::Pool(_, Some(slab)) => Some(slab),
            _ => None,
        }
    }

    /// Cuts off the second half.
    ///
    /// # Panics
    /// If the block is not mapped by itself, or if its halves are too small for it.
    pub(crate) fn split_half(&mut self) -> Self {
        let half = self.len / 2;
        assert!(matches!(self.home, Home::Mapped) && half >= MAPPED && half.is_multiple_of(PAGE));
        self.len = half;
        // SAFETY: it is within the block. A mapping can be given back in parts of whole pages.
        let ptr = unsafe { self.ptr.add(half) };
        Self { ptr, len: half, home: Home::Mapped, access: Access::default() }
    }

    /// Where a block of that size goes when no pool wants it: each size comes from one place alone.
    fn origin(len: usize) -> Home {
        if len >= MAPPED { Home::Mapped } else { Home::Heap }
    }

    /// Who uses the bytes.
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
        match std::mem::replace(&mut self.home, Home::Left) {
            // SAFETY: allocated in `zeroed` with the same layout.
            Home::Heap => unsafe { dealloc(self.ptr.as_ptr(), layout(self.len)) },
            // SAFETY: mapped in `mapped` with the same length, and no segment of it is left.
            Home::Mapped => unsafe { unmap(self.ptr, self.len) },
            Home::Pool(pool, slab) => {
                let home = slab.map_or_else(|| Self::origin(self.len), Home::Slab);
                // Whoever uses the block next comes after whoever used it last: that is the pool's to see to.
                let access = std::mem::take(&mut self.access);
                pool.put(Memory { ptr: self.ptr, len: self.len, home, access });
            }
            Home::Vec { capacity } => {
                // SAFETY: the parts are those of the `Vec` that was taken apart in `from_vec`.
                drop(unsafe { Vec::from_raw_parts(self.ptr.as_ptr(), self.len, capacity) });
            }
            Home::Slab(_) | Home::Bytes(_) | Home::Left => {}
        }
    }
}
