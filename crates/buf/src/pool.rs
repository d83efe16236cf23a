use crate::free_lists::{FreeLists, PoolStats, class_of};
use crate::memory::Memory;
use crate::segment::SegmentMut;
use crate::sync::Arc;

/// Pool of page-aligned memory that returns when its last segment is dropped.
///
/// Blocks are powers of two from 4 KiB to 4 MiB; larger ones are allocated and freed each time. A pool keeps at most
/// its limit of idle bytes, of the sizes returned last. It never refuses a request, because every caller limits its own
/// requests. A reused block still holds the bytes of its last use. If no block of a size is idle, a larger one is
/// split, provided it is large enough to have its own mapping.
///
/// A [registrable](Self::registrable) pool cuts its blocks from a few large [slabs](crate::Slab) as long as its limit
/// allows, and keeps these for its lifetime.
#[derive(Clone)]
pub struct Pool {
    lists: Arc<FreeLists>,
}

impl Pool {
    /// Creates a pool that keeps at most `idle_limit` bytes for reuse.
    pub fn new(idle_limit: usize) -> Self {
        Self::registrable(idle_limit, 0)
    }

    /// Creates a pool that has at most `slab_limit` bytes of slabs besides the memory it keeps for reuse.
    pub fn registrable(idle_limit: usize, slab_limit: usize) -> Self {
        Self { lists: Arc::new(FreeLists::new(idle_limit as u64, slab_limit as u64)) }
    }

    /// Returns a writable segment of exactly `len` bytes, on a page boundary. Its bytes are initialised but arbitrary.
    pub fn get(&self, len: usize) -> SegmentMut {
        let Some(class) = class_of(len) else {
            return SegmentMut::from_memory(Memory::from_block(self.lists.allocate(len)));
        };
        let block = self.lists.get(class);
        let mut segment = SegmentMut::from_memory(Memory::of_pool(block, Arc::clone(&self.lists)));
        segment.truncate(len);
        segment
    }

    /// Returns the pool's statistics.
    pub fn stats(&self) -> PoolStats {
        self.lists.stats()
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
    use crate::mapping::PAGE;
    use crate::slab::SLAB;

    // Under Miri nothing is mapped, and the allocator's memory is freed in one piece.
    #[cfg(not(miri))]
    #[test]
    fn a_large_idle_block_is_split_for_smaller_ones() {
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
        // A page does not have its own mapping.
        let page = pool.get(PAGE);
        assert_eq!(pool.stats().allocated, 2);
        drop(page);
        // Memory over the limit is unmapped in the pieces that it was split into.
        drop(pool.get(1 << 20));
        assert_eq!(pool.stats().idle_bytes, (512 << 10) + PAGE as u64);
    }

    #[test]
    fn a_block_returns_when_its_last_segment_is_dropped() {
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
    fn a_size_no_longer_used_makes_room() {
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
    fn memory_over_the_limit_is_freed() {
        let pool = Pool::new(PAGE);
        drop((pool.get(1), pool.get(1), pool.get(64 << 20)));
        assert_eq!(pool.stats().idle_bytes, PAGE as u64);
    }

    #[test]
    fn blocks_of_a_slab_are_disjoint_and_return_to_it() {
        let pool = Pool::registrable(PAGE, SLAB);
        let count = SLAB / (64 << 10);
        let mut blocks: Vec<SegmentMut> = (0..count).map(|_| pool.get(64 << 10)).collect();
        blocks.iter_mut().enumerate().for_each(|(i, block)| block.fill(i as u8));
        assert!(blocks.iter().enumerate().all(|(i, block)| block.iter().all(|byte| *byte == i as u8)));
        let one_more = pool.get(64 << 10).freeze();
        assert!(one_more.slab().is_none(), "the slabs are exhausted");
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
