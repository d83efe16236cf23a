use crate::list::List;
use crate::pool::Pool;
use crate::segment::{Segment, SegmentMut};

/// Size of a block, in bytes: some fifty messages without payloads. Larger blocks would save little more (a block costs
/// two allocations from a pool), and each connection with a slow peer holds one.
const BLOCK: usize = 16 << 10;

/// Maximum size of a front or payload piece that is copied between the headers, in bytes. Another vector in a gathered
/// send costs about as much as copying 1 KiB from the cache, where its checksum was just computed. It also splits the
/// run of headers, which adds a second vector.
const COPY_MAX: usize = 1 << 10;

/// Size from which the output of `fill` has its own memory, and the maximum size of its pieces, in bytes: encrypted
/// data stays in the L2 cache until it is sent, and the pieces are few.
const LARGE: usize = 128 << 10;

/// Memory for small pieces of frames. They are placed one after the other, so that neighbours become one piece of a
/// list.
///
/// Added bytes are pending until [`flush`](Self::flush), or until a piece with its own memory follows.
#[derive(Debug)]
pub struct Arena {
    pool: Pool,
    /// Rest of the block: pieces that are not in a list yet, then free space.
    block: Option<SegmentMut>,
    /// Size of the pending pieces at the start of `block`.
    pending: usize,
}

impl Arena {
    /// Creates an arena with blocks from `pool`.
    pub fn new(pool: Pool) -> Self {
        Self { pool, block: None, pending: 0 }
    }

    /// Returns the number of bytes that the next [`flush`](Self::flush) appends.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Adds a copy of `bytes`. Pending bytes move to `out` when a block is full.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8], out: &mut List) {
        if let Some(block) = &mut self.block
            && let Some(room) = block.get_mut(self.pending..self.pending + bytes.len())
        {
            room.copy_from_slice(bytes);
            self.pending += bytes.len();
        } else {
            self.put_across(bytes, out);
        }
    }

    /// Adds `bytes`, in their own memory if they are many.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8], out: &mut List) {
        if bytes.len() <= COPY_MAX {
            self.put(bytes, out);
        } else {
            self.piece(&Segment::copy_from(bytes), out);
        }
    }

    /// Adds a piece as it is, or a copy if it is small.
    #[inline]
    pub fn piece(&mut self, piece: &Segment, out: &mut List) {
        if piece.len() <= COPY_MAX {
            self.put(piece, out);
        } else {
            self.flush(out);
            out.push(piece.clone());
        }
    }

    /// Takes the pieces of a list and adds them. `sum` sees each piece first, so that it is in the cache when it is
    /// copied.
    #[inline]
    pub fn pieces(&mut self, list: &mut List, out: &mut List, mut sum: impl FnMut(&[u8])) {
        if !list.is_empty() && list.segments().all(|piece| piece.len() > COPY_MAX) {
            list.segments().for_each(|piece| sum(piece));
            self.flush(out);
            out.append(std::mem::take(list));
        } else {
            for piece in list.segments() {
                sum(piece);
                self.piece(piece, out);
            }
        }
    }

    /// Adds `N` bytes that `fill` writes in place. Small fields built elsewhere and then copied would stall the
    /// processor.
    #[inline(always)]
    pub fn write<const N: usize>(&mut self, out: &mut List, fill: impl FnOnce(&mut [u8; N])) {
        if let Some(block) = &mut self.block
            && let Some(room) = block[self.pending..].first_chunk_mut::<N>()
        {
            fill(room);
            self.pending += N;
        } else {
            let mut bytes = [0; N];
            fill(&mut bytes);
            self.put_across(&bytes, out);
        }
    }

    /// Adds a copy of `bytes` that does not fit into the block.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8], out: &mut List) {
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

    /// Adds `len` bytes written by `fill`, which is called for each piece.
    pub fn fill(&mut self, mut len: usize, out: &mut List, mut fill: impl FnMut(&mut [u8])) {
        while len >= BLOCK {
            self.flush(out);
            let mut block = self.pool.get(len.min(LARGE));
            fill(&mut block);
            len -= block.len();
            out.push(block);
        }
        while len > 0 {
            let block = self.block.get_or_insert_with(|| self.pool.get(BLOCK));
            let n = len.min(block.len() - self.pending);
            fill(&mut block[self.pending..self.pending + n]);
            self.pending += n;
            len -= n;
            if self.pending == block.len() {
                self.flush(out);
                self.block = None;
            }
        }
    }

    /// Appends pending bytes to `out`.
    #[inline]
    pub fn flush(&mut self, out: &mut List) {
        if let Some(block) = self.block.as_mut().filter(|_| self.pending > 0) {
            out.push(block.split_to(self.pending));
            self.pending = 0;
        }
    }

    /// Releases the block once nothing is pending: an idle connection holds no memory here.
    pub fn rest(&mut self) {
        debug_assert_eq!(self.pending, 0, "pending bytes must be flushed first");
        self.block = None;
    }
}
