use crate::SegmentMut;
use crate::memory::{MAPPED, Memory, PAGE};
use crate::slab::{SLAB, Slab};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{self, PoisonError};

/// Smallest and largest block that is kept for reuse: a page and 4 MiB, the default object size of RBD.
const MIN_SHIFT: u32 = PAGE.trailing_zeros();
const MAX_SHIFT: u32 = 22;
const CLASSES: usize = (MAX_SHIFT - MIN_SHIFT + 1) as usize;

/// Page-aligned memory that comes back when the last segment of it is dropped.
///
/// Blocks are powers of two from 4 KiB to 4 MiB; what is larger is allocated and freed each time. A pool keeps at
/// most its limit of bytes idle, of the sizes that came back last; it never refuses, because every caller has a bound
/// of its own on what it asks for.
/// A block that is used again still holds the bytes of its last use. Where there is none of a size, a larger one is
/// cut up, if it is large enough to be mapped by itself.
///
/// A [registrable](Self::registrable) pool cuts its blocks from a few large [slabs](Slab) as long as its limit allows,
/// and keeps those for as long as it lives.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<PoolShared>,
}

/// What a pool has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Blocks given from those kept.
    pub reused: u64,
    /// Blocks that had to be allocated.
    pub allocated: u64,
    /// Bytes kept for reuse now.
    pub idle_bytes: u64,
    /// Bytes of slabs, in use or not.
    pub slab_bytes: u64,
}

pub(crate) struct PoolShared {
    classes: [Class; CLASSES],
    idle_limit: u64,
    idle: AtomicU64,
    slab_limit: u64,
    slabs: AtomicU64,
    reused: AtomicU64,
    allocated: AtomicU64,
}

/// Blocks of one size that are kept.
#[derive(Default)]
struct Class {
    blocks: Mutex<Vec<Memory>>,
    /// Their bytes.
    idle: AtomicU64,
    /// Blocks of slabs. They are not given back one by one: a slab goes as a whole.
    cut: Mutex<Vec<Memory>>,
}

/// What panics while it holds the lock leaves a whole vector behind.
fn lock(blocks: &Mutex<Vec<Memory>>) -> MutexGuard<'_, Vec<Memory>> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Class {
    fn push(&self, block: Memory) {
        self.idle.fetch_add(block.len() as u64, Relaxed);
        lock(&self.blocks).push(block);
    }

    fn pop(&self) -> Option<Memory> {
        let block = lock(&self.blocks).pop()?;
        self.idle.fetch_sub(block.len() as u64, Relaxed);
        Some(block)
    }
}

/// The class whose blocks hold `len` bytes, if blocks of that size are kept.
fn class_of(len: usize) -> Option<usize> {
    let shift = len.max(PAGE).next_power_of_two().trailing_zeros();
    (shift <= MAX_SHIFT).then(|| (shift - MIN_SHIFT) as usize)
}

impl PoolShared {
    pub(crate) fn put(&self, block: Memory) {
        let Some(class) = class_of(block.len()) else { return };
        if block.slab().is_some() {
            return lock(&self.classes[class].cut).push(block);
        }
        self.keep(block);
        // What came back last is what is in use now. A size that nobody asks for any more must not fill the pool for
        // ever, so the size that fills most of it makes room.
        while self.idle.load(Relaxed) > self.idle_limit {
            let fullest = self.classes.iter().max_by_key(|class| class.idle.load(Relaxed));
            let Some(block) = fullest.and_then(Class::pop) else { return };
            self.idle.fetch_sub(block.len() as u64, Relaxed);
        }
    }

    fn keep(&self, block: Memory) {
        let Some(class) = class_of(block.len()) else { return };
        self.idle.fetch_add(block.len() as u64, Relaxed);
        self.classes[class].push(block);
    }

    fn take(&self, class: usize) -> Option<Memory> {
        if self.slab_limit > 0
            && let Some(block) = lock(&self.classes[class].cut).pop()
        {
            return Some(block);
        }
        if let Some(block) = self.classes[class].pop() {
            self.idle.fetch_sub(block.len() as u64, Relaxed);
            return Some(block);
        }
        if PAGE << class < MAPPED {
            return None;
        }
        // Fresh memory would cost a page fault and zeros for every page.
        let mut block = self.classes[class + 1..].iter().find_map(Class::pop)?;
        self.idle.fetch_sub(block.len() as u64, Relaxed);
        while block.len() > PAGE << class {
            self.keep(block.split_half());
        }
        Some(block)
    }

    /// Cuts a new slab to blocks of a class, keeps all but one of them and gives that one; `None`: there are as many
    /// slabs as there may be.
    fn cut(&self, class: usize) -> Option<Memory> {
        let block = PAGE << class;
        let len = block.max(SLAB) as u64;
        let room = |slabs: u64| slabs.checked_add(len).filter(|slabs| *slabs <= self.slab_limit);
        self.slabs.fetch_update(Relaxed, Relaxed, room).ok()?;
        let slab = sync::Arc::new(Slab::new(block));
        // SAFETY: they are parts of the slab that do not overlap, and nobody else cuts it.
        let mut blocks =
            slab.blocks(block).map(|ptr| unsafe { Memory::cut(ptr, block, sync::Arc::clone(&slab)) });
        let first = blocks.next();
        lock(&self.classes[class].cut).extend(blocks);
        first
    }
}

impl Pool {
    /// A pool that keeps at most `idle_limit` bytes for reuse.
    pub fn new(idle_limit: usize) -> Self {
        Self::registrable(idle_limit, 0)
    }

    /// A pool that has at most `slab_limit` bytes of slabs beside what it keeps for reuse.
    pub fn registrable(idle_limit: usize, slab_limit: usize) -> Self {
        Self {
            shared: Arc::new(PoolShared {
                classes: Default::default(),
                idle_limit: idle_limit as u64,
                idle: AtomicU64::new(0),
                slab_limit: slab_limit as u64,
                slabs: AtomicU64::new(0),
                reused: AtomicU64::new(0),
                allocated: AtomicU64::new(0),
            }),
        }
    }

    /// A writable segment of exactly `len` bytes, on a page boundary. Its bytes are initialised but arbitrary.
    pub fn get(&self, len: usize) -> SegmentMut {
        let Some(class) = class_of(len) else {
            self.shared.allocated.fetch_add(1, Relaxed);
            return SegmentMut::from_memory(Memory::zeroed(len));
        };
        let block = match self.shared.take(class) {
            Some(block) => {
                self.shared.reused.fetch_add(1, Relaxed);
                block
            }
            None => {
                self.shared.allocated.fetch_add(1, Relaxed);
                self.shared.cut(class).unwrap_or_else(|| Memory::zeroed(PAGE << class))
            }
        };
        let mut segment = SegmentMut::from_memory(block.homed(Arc::clone(&self.shared)));
        segment.truncate(len);
        segment
    }

    /// What the pool has done so far.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            reused: self.shared.reused.load(Relaxed),
            allocated: self.shared.allocated.load(Relaxed),
            idle_bytes: self.shared.idle.load(Relaxed),
            slab_bytes: self.shared.slabs.load(Relaxed),
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stats().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // Under Miri nothing is mapped, and what the allocator gave goes back to it whole.
    #[cfg(not(miri))]
    #[test]
    fn a_large_block_that_nobody_uses_is_cut_up_for_smaller_ones() {
        let pool = Pool::new(1 << 20);
        drop(pool.get(512 << 10));
        let mut halves: Vec<_> = (0..2).map(|_| pool.get(256 << 10)).collect();
        let stats = pool.stats();
        assert_eq!((stats.allocated, stats.reused, stats.idle_bytes), (1, 2, 0));
        for (half, byte) in halves.iter_mut().zip([1, 2]) {
            half.fill(byte);
        }
        assert!(halves[0].iter().all(|byte| *byte == 1) && halves[1].iter().all(|byte| *byte == 2));
        drop(halves);
        assert_eq!(pool.stats().idle_bytes, 512 << 10);
        // A page is not mapped by itself.
        let page = pool.get(PAGE);
        assert_eq!(pool.stats().allocated, 2);
        drop(page);
        // What is kept no longer is unmapped in the pieces that it was cut to.
        drop(pool.get(1 << 20));
        assert_eq!(pool.stats().idle_bytes, (512 << 10) + PAGE as u64);
    }

    #[test]
    fn a_block_comes_back_when_its_last_segment_is_dropped() {
        let pool = Pool::new(1 << 20);
        let a = pool.get(5000).freeze();
        let b = a.slice(100..200);
        drop(a);
        assert_eq!(pool.stats().idle_bytes, 0);
        drop(b);
        assert_eq!(pool.stats().idle_bytes, 8192);
        let again = pool.get(8192);
        assert_eq!(again.len(), 8192);
        assert_eq!(pool.stats(), PoolStats { reused: 1, allocated: 1, idle_bytes: 0, slab_bytes: 0 });
    }

    #[test]
    fn a_size_that_is_no_longer_used_makes_room() {
        let pool = Pool::new(1 << 20);
        let small: Vec<SegmentMut> = (0..256).map(|_| pool.get(PAGE)).collect();
        drop(small);
        assert_eq!(pool.stats().idle_bytes, 1 << 20);
        let large: Vec<SegmentMut> = (0..8).map(|_| pool.get(64 << 10)).collect();
        drop(large);
        let before = pool.stats().reused;
        let _large: Vec<SegmentMut> = (0..8).map(|_| pool.get(64 << 10)).collect();
        assert_eq!(pool.stats().reused - before, 8);
        assert!(pool.stats().idle_bytes <= 1 << 20);
    }

    #[test]
    fn what_is_over_the_limit_is_freed() {
        let pool = Pool::new(PAGE);
        drop((pool.get(1), pool.get(1), pool.get(64 << 20)));
        assert_eq!(pool.stats().idle_bytes, PAGE as u64);
    }

    #[test]
    fn blocks_of_a_slab_are_apart_and_come_back_to_it() {
        let pool = Pool::registrable(PAGE, SLAB);
        let count = SLAB / (64 << 10);
        let mut blocks: Vec<SegmentMut> = (0..count).map(|_| pool.get(64 << 10)).collect();
        blocks.iter_mut().enumerate().for_each(|(i, block)| block.fill(i as u8));
        assert!(blocks.iter().enumerate().all(|(i, block)| block.iter().all(|byte| *byte == i as u8)));
        let one_more = pool.get(64 << 10).freeze();
        assert!(one_more.slab().is_none(), "the slabs are used up");
        let blocks: Vec<_> = blocks.into_iter().map(SegmentMut::freeze).collect();
        let slab = blocks[0].slab().unwrap().id();
        assert!(blocks.iter().all(|block| block.slab().is_some_and(|of| of.id() == slab)));
        drop(blocks);
        let again = pool.get(40 << 10).freeze();
        assert_eq!(again.slab().map(|of| of.id()), Some(slab));
        assert_eq!(pool.stats().slab_bytes, SLAB as u64);
    }

    #[test]
    fn a_segment_outlives_its_pool() {
        let pool = Pool::registrable(0, 8 << 20);
        let mut segment = pool.get(4 << 20);
        drop(pool);
        segment.fill(7);
        let segment = segment.freeze();
        assert_eq!(segment.slab().unwrap().len(), 4 << 20);
        assert!(segment.iter().all(|byte| *byte == 7));
    }
}
