//! Memory for parts of messages that are moved from where they were received.

use onego_buf::{Pool, SegmentMut};

/// Size of the blocks that small parts share, in bytes.
const SMALL_BLOCK: usize = 16 << 10;
/// Size from which a part has its own memory, in bytes.
const OWN: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct PartMemory {
    pool: Pool,
    block: Option<SegmentMut>,
}

impl PartMemory {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, block: None }
    }

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
