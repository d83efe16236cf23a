//! Memory for the fronts of requests, without an allocation each.

use onego_buf::{Pool, Segment, SegmentMut};

/// Size of a block: some two hundred fronts.
const BLOCK: usize = 64 << 10;

/// Gives fronts their memory, one behind the other in blocks.
#[derive(Debug)]
pub(super) struct Fronts {
    pool: Pool,
    block: Option<SegmentMut>,
}

impl Fronts {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool, block: None }
    }

    /// A segment with these bytes.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> Segment {
        if bytes.len() > BLOCK {
            return Segment::copy_from(bytes);
        }
        let pool = &self.pool;
        let room = self.block.take_if(|block| block.len() >= bytes.len());
        let mut block = room.unwrap_or_else(|| pool.get(BLOCK));
        let mut front = block.split_to(bytes.len());
        front.copy_from_slice(bytes);
        self.block = Some(block);
        front.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_lie_in_one_block_until_it_is_full() {
        let pool = Pool::new(1 << 20);
        let mut fronts = Fronts::new(pool.clone());
        let kept: Vec<Segment> = (0..3).map(|i| fronts.put(&[i; 30_000])).collect();
        assert_eq!(pool.stats().allocated, 2);
        assert!(kept.iter().zip(0..).all(|(front, i)| **front == [i; 30_000]));
        assert_eq!(fronts.put(&[9; BLOCK + 1]).len(), BLOCK + 1);
    }
}
