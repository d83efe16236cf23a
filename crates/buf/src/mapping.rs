//! Memory from the operating system, in suitable page sizes.

#[cfg(not(miri))]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, handle_alloc_error};
#[cfg(miri)]
use std::alloc::{alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of blocks, in bytes.
pub(crate) const PAGE: usize = 4096;

/// Minimum size of blocks with their own mapping, in bytes. They come zeroed without being written, and are returned to
/// the system.
pub(crate) const MAPPED: usize = 64 << 10;

/// Size of a huge page, in bytes: touching one is one page fault instead of 512.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

pub(crate) fn layout(len: usize) -> Layout {
    Layout::from_size_align(len.max(1), PAGE).expect("block sizes are far below isize::MAX")
}

/// Maps `len` zero bytes; `pages` advises on the page size where it matters.
#[cfg(not(miri))]
fn map_in(len: usize, pages: Advice) -> NonNull<u8> {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at no particular address touches no memory in use.
    let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) };
    let Ok(Some(ptr)) = mapping.map(|ptr| NonNull::new(ptr.cast::<u8>())) else {
        handle_alloc_error(layout(len))
    };
    if len >= HUGE_PAGE {
        // SAFETY: advice on our own mapping does not change its content. Without huge pages it is refused, with no
        // effect.
        let _ = unsafe { madvise(ptr.as_ptr().cast(), len, pages) };
    }
    ptr
}

/// Maps `len` zero bytes.
#[cfg(not(miri))]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    map_in(len, Advice::LinuxHugepage)
}

/// Maps `len` zero bytes of which only written pages take memory. With huge pages, the first byte would take 2 MiB.
#[cfg(not(miri))]
pub(crate) fn map_sparse(len: usize) -> NonNull<u8> {
    map_in(len, Advice::LinuxNoHugepage)
}

/// Unmaps a mapping.
///
/// # Safety
/// It comes from [`map`] with this length, and is not in use any more.
#[cfg(not(miri))]
pub(crate) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
    // SAFETY: promised by the caller.
    let unmapped = unsafe { munmap(ptr.as_ptr().cast(), len) };
    debug_assert!(unmapped.is_ok(), "our own mapping can be unmapped");
}

/// [`map`] under Miri, which makes no system calls: the allocator's memory has the same rules.
#[cfg(miri)]
pub(crate) fn map(len: usize) -> NonNull<u8> {
    // SAFETY: the layout has a size of at least one byte.
    let ptr = unsafe { alloc_zeroed(layout(len)) };
    NonNull::new(ptr).unwrap_or_else(|| handle_alloc_error(layout(len)))
}

/// [`map_sparse`] under Miri.
#[cfg(miri)]
pub(crate) fn map_sparse(len: usize) -> NonNull<u8> {
    map(len)
}

/// [`unmap`] under Miri.
///
/// # Safety
/// As without Miri.
#[cfg(miri)]
pub(crate) unsafe fn unmap(ptr: NonNull<u8>, len: usize) {
    // SAFETY: allocated in `map` with the same layout, as the caller promises.
    unsafe { dealloc(ptr.as_ptr(), layout(len)) };
}
