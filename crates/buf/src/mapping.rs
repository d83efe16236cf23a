//! Where memory comes from: pages of the system, in the sizes that suit it.

#[cfg(not(miri))]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
#[cfg(miri)]
use std::alloc::{alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Page size that blocks are aligned to, bytes.
pub(crate) const PAGE: usize = 4096;

/// Blocks of this size or more are mapped: they come as zeros without being written to, and go back for good.
pub(crate) const MAPPED: usize = 64 << 10;

/// Bytes of a huge page: to touch one is one page fault instead of 512.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// The layout of a block of `len` bytes.
pub(crate) fn layout(len: usize) -> Layout {
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
pub(crate) fn map_sparse(len: usize) -> NonNull<u8> {
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
pub(crate) fn map_sparse(len: usize) -> NonNull<u8> {
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
