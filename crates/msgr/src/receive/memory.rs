//! Memory for parts of messages that are not left where they were received.

use onego_buf::{Pool, SegmentMut};

/// Size of the blocks from which memory for small parts is taken, bytes.
const SMALL_BLOCK: usize = 16 << 10;
/// Parts from this size on have memory of their own.
const OWN: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct PartMemory {
    pool: Pool,
    /// What is left of the memory for small parts.
    block: Option<SegmentMut>,
}

impl PartMemory {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, block: None }
    }

    /// Memory for a part of that length.
    pub(crate) fn get(&mut self, len: usize) -> SegmentMut {
        if len >= OWN {
            return self.pool.get(len);
        }
        let block = match self.block.take() {
            Some(block) if block.len() >= len => block,
            _ => self.pool.get(SMALL_BLOCK),
        };
        self.block.insert(block).split_to(len)
    }
}
