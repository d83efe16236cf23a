use crate::mapping::{HUGE_PAGE, map, unmap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size of a slab in bytes, unless a single block is larger: a huge page.
pub(crate) const SLAB: usize = HUGE_PAGE;

/// A large piece of memory that blocks are cut from, so that a device or the kernel needs few registrations:
/// registering memory takes far longer than using it once.
///
/// It is unmapped when its pool and the last segment of it are gone. A registration does not keep it alive; it is
/// identified by its [`id`](Self::id), which is never reused.
pub struct Slab {
    id: u64,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a slab is an address and a length; the blocks cut from it control access to its bytes.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    pub(crate) fn new(block: usize) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let len = block.max(SLAB);
        Self { id: IDS.fetch_add(1, Relaxed), ptr: map(len), len }
    }

    /// Returns an id that is unique in this process over its lifetime.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns its start, on a page boundary, for registration. Access to its bytes is controlled by the segments.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Returns its size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no slab is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn blocks(&self, block: usize) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let start = self.ptr;
        // SAFETY: each block ends within the slab.
        (0..self.len / block).map(move |i| unsafe { start.add(i * block) })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with that length. Every block of it holds the slab, so none is left.
        unsafe { unmap(self.ptr, self.len) };
    }
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slab({}: {} bytes)", self.id, self.len)
    }
}
