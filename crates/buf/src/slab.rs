use crate::mapping::{HUGE_PAGE, map, unmap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a slab, unless a single block is larger: a huge page.
pub(crate) const SLAB: usize = HUGE_PAGE;

/// A large piece of memory that blocks are cut from, so that a device or the kernel has to learn of few pieces only:
/// to register memory takes far longer than to use it once.
///
/// It is unmapped when its pool and the last segment of it are gone. A registration does not keep it alive: it is
/// known by its [`id`](Self::id), which no later slab has.
pub struct Slab {
    id: u64,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a slab is an address and a length; who may touch which of its bytes is settled by the blocks cut from it.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    /// A zeroed slab for blocks of `block` bytes each.
    pub(crate) fn new(block: usize) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let len = block.max(SLAB);
        Self { id: IDS.fetch_add(1, Relaxed), ptr: map(len), len }
    }

    /// A name that no other slab of this process has, now or later.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where it starts, on a page boundary. For registering it: what may be read or written is the segments' affair.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// Its bytes.
    #[expect(clippy::len_without_is_empty, reason = "no slab is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The blocks of `block` bytes that it has room for.
    pub(crate) fn blocks(&self, block: usize) -> impl Iterator<Item = NonNull<u8>> + use<> {
        let start = self.ptr;
        // SAFETY: each block ends within the slab.
        (0..self.len / block).map(move |i| unsafe { start.add(i * block) })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with that length, and every block of it holds the slab, so there is none.
        unsafe { unmap(self.ptr, self.len) };
    }
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slab({}: {} bytes)", self.id, self.len)
    }
}
