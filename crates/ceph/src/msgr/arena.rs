//! Memory in which small pieces of frames are put one after the other.

use onego_buf::{List, Pool, Segment, SegmentMut};

/// Size of a block: some fifty messages without their payloads. Larger blocks would save little more (a block costs
/// two allocations from a pool), and every connection that ever sent keeps one.
const BLOCK: usize = 16 << 10;

/// Collects small pieces in blocks, so that neighbours become one piece of a list.
#[derive(Debug)]
pub(super) struct Arena {
    pool: Pool,
    /// What is left of the block: pieces that are not in a list yet, then free room.
    block: Option<SegmentMut>,
    /// Bytes of pieces at the start of `block`.
    pending: usize,
}

impl Arena {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool, block: None, pending: 0 }
    }

    /// Bytes that the next [`flush`](Self::flush) appends.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Adds a copy of `bytes` behind what is in the arena; `out` gets what is pending when a block is full.
    #[inline]
    pub(super) fn put(&mut self, mut bytes: &[u8], out: &mut List) {
        while !bytes.is_empty() {
            let block = self.block.get_or_insert_with(|| self.pool.get(BLOCK));
            let n = bytes.len().min(block.len() - self.pending);
            block[self.pending..self.pending + n].copy_from_slice(&bytes[..n]);
            self.pending += n;
            bytes = &bytes[n..];
            if self.pending == block.len() {
                self.flush(out);
                self.block = None;
            }
        }
    }

    /// A copy of `bytes` in a piece of its own, when nothing is pending.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Segment {
        debug_assert_eq!(self.pending, 0, "what is pending would be part of the copy");
        if bytes.len() > BLOCK / 4 {
            return Segment::copy_from(bytes);
        }
        let pool = &self.pool;
        let block = self.block.get_or_insert_with(|| pool.get(BLOCK));
        if block.len() < bytes.len() {
            *block = pool.get(BLOCK);
        }
        let mut copy = block.split_to(bytes.len());
        copy.copy_from_slice(bytes);
        copy.freeze()
    }

    /// Appends what is pending to `out`.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut List) {
        if let Some(block) = self.block.as_mut().filter(|_| self.pending > 0) {
            out.push(block.split_to(self.pending));
            self.pending = 0;
        }
    }
}
