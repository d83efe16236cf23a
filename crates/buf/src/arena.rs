use crate::list::List;
use crate::pool::Pool;
use crate::segment::{Segment, SegmentMut};

/// Size of a block: some fifty messages without their payloads. Larger blocks would save little more (a block costs
/// two allocations from a pool), and a connection whose peer does not read holds one.
const BLOCK: usize = 16 << 10;

/// Pieces of a front or payload up to this size are copied in between the headers. Another vector in a gathered send
/// costs about as much as copying 1 KiB that is in the cache (its checksum was just made), and it cuts the run of
/// headers in two, which makes it two.
const COPY_MAX: usize = 1 << 10;

/// What `fill` writes has memory of its own from this size on, in pieces of at most this size: what is encrypted stays in
/// the second-level cache until it is sent, and there are few pieces.
const LARGE: usize = 128 << 10;

/// Memory in which small pieces of frames are put one after the other, so that neighbours become one piece of a list.
///
/// What is added is pending until [`flush`](Self::flush), or until something that has memory of its own follows it.
#[derive(Debug)]
pub struct Arena {
    pool: Pool,
    /// What is left of the block: pieces that are not in a list yet, then free room.
    block: Option<SegmentMut>,
    /// Bytes of pieces at the start of `block`.
    pending: usize,
}

impl Arena {
    /// An arena with blocks from `pool`.
    pub fn new(pool: Pool) -> Self {
        Self { pool, block: None, pending: 0 }
    }

    /// Bytes that the next [`flush`](Self::flush) appends.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Adds a copy of `bytes` behind what is in the arena; `out` gets what is pending when a block is full.
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

    /// Adds `bytes`, in memory of their own if there are many.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8], out: &mut List) {
        if bytes.len() <= COPY_MAX {
            self.put(bytes, out);
        } else {
            self.piece(&Segment::copy_from(bytes), out);
        }
    }

    /// Adds a piece: as it is, or a copy if it is small.
    #[inline]
    pub fn piece(&mut self, piece: &Segment, out: &mut List) {
        if piece.len() <= COPY_MAX {
            self.put(piece, out);
        } else {
            self.flush(out);
            out.push(piece.clone());
        }
    }

    /// Takes a list and adds its pieces, each of which `sum` sees before: so they are in the cache when they are copied.
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

    /// Adds `N` bytes that `fill` writes where they are sent from: what is built elsewhere from small fields is not in
    /// a state to be copied at once, and the processor waits for it.
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

    /// Adds a copy of `bytes` where the block has no room for all of it.
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

    /// Adds `len` bytes that `fill` writes, in as many pieces as it is called for.
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

    /// Appends what is pending to `out`.
    #[inline]
    pub fn flush(&mut self, out: &mut List) {
        if let Some(block) = self.block.as_mut().filter(|_| self.pending > 0) {
            out.push(block.split_to(self.pending));
            self.pending = 0;
        }
    }

    /// Gives the block back once nothing is pending: an idle connection holds no memory here.
    pub fn rest(&mut self) {
        debug_assert_eq!(self.pending, 0, "what is pending is still to be sent");
        self.block = None;
    }
}
