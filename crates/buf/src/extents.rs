//! The data of an object or a file: the bytes present, and the memory that holds them.
//!
//! Data is a map of *pieces*: an offset and a segment. Gaps between pieces read as zeros. Writing replaces pieces or
//! parts of them, reading slices them. Neither copies, with one exception that bounds memory.
//!
//! **Pinned memory.** A segment keeps its whole block alive: a page written out of a receive buffer of a megabyte would
//! pin the megabyte. So a segment is adopted as it is only if it is large ([`COPY_MAX`]) and fills at least half its
//! block. Anything else is copied: in place if the bytes to be replaced lie in memory that is not shared, otherwise
//! into memory of its own size. A small part (64 KiB) of a larger piece is written in place, too. If that piece is
//! shared (with another OSD that stores the same object, or a checkpoint), the chunks around the write are copied
//! first, so that later writes go in place: pieces of 4 KiB would cost each of them an allocation and a search.
//! Overwriting a part of an adopted block leaves dead bytes in it, so each block counts its live bytes. When the data
//! pins more than twice its size, with 64 KiB granted on top, it is copied out of blocks that are more than half dead.
//! [`Extents::pinned`] is therefore the memory really taken, at most about twice the data.
//!
//! **Fragments.** Many small writes make many pieces. Whenever their number has doubled, small adjacent pieces are
//! joined (64 KiB). A write thus costs amortised constant work, and data of N bytes without holes returns to about N /
//! 64 KiB pieces.

use crate::{List, Segment};
use slab::Slab;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum size of writes that are copied, in bytes: below it, a block, its bookkeeping and the split of a neighbour
/// cost more than moving the bytes.
pub const COPY_MAX: usize = 16 << 10;

/// Maximum size of joined pieces and of partial writes in place, in bytes.
const CHUNK: usize = 64 << 10;

/// Number of pieces below which neighbours are not joined.
const FEW_PIECES: usize = 64;

/// Dead bytes that are not worth copying.
const SLACK: u64 = 64 << 10;

/// Cost of a piece besides its bytes: its map entry, and the bookkeeping of the block and the allocator.
const PIECE_OVERHEAD: u64 = 192;

#[derive(Clone)]
struct Piece {
    /// Always present, except while its bytes are written in place.
    segment: Option<Segment>,
    block: usize,
}

impl Piece {
    fn bytes(&self) -> &Segment {
        self.segment.as_ref().expect("a segment is put back after the write")
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Copies a part of `data` over the piece's bytes from `at` on, unless the block is shared. Returns whether it did.
    fn overwrite(&mut self, at: usize, data: &List, part: Range<usize>) -> bool {
        let Some(segment) = self.segment.take() else { return false };
        let (segment, written) = match segment.try_into_mut() {
            Ok(mut bytes) => {
                copy_part(data, part.start, &mut bytes[at..at + part.len()]);
                (bytes.freeze(), true)
            }
            Err(segment) => (segment, false),
        };
        self.segment = Some(segment);
        written
    }
}

#[derive(Clone, Copy)]
struct Block {
    len: u64,
    /// Bytes of it visible in pieces.
    live: u64,
}

fn is_adopted(segment: &Segment) -> bool {
    segment.len() > COPY_MAX && segment.block_len() <= segment.len() * 2
}

/// Data of an object or a file.
#[derive(Clone)]
pub struct Extents {
    pieces: BTreeMap<u64, Piece>,
    blocks: Slab<Block>,
    pinned: u64,
    live: u64,
    /// Number of pieces at which neighbours are joined.
    join_at: usize,
}

impl Default for Extents {
    fn default() -> Self {
        Self { pieces: BTreeMap::new(), blocks: Slab::new(), pinned: 0, live: 0, join_at: FEW_PIECES }
    }
}

impl Extents {
    /// Returns the memory that the data takes, including bookkeeping, in bytes.
    pub fn pinned(&self) -> u64 {
        self.pinned + self.pieces.len() as u64 * PIECE_OVERHEAD
    }

    /// Returns the memory of the blocks that the data is in, in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.pinned
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the maximum number of additional bytes that a write of `len` bytes at `offset` takes.
    pub fn growth(&self, offset: u64, len: u64) -> u64 {
        // An adopted segment may fill only half its block.
        let taken = if len <= COPY_MAX as u64 { len } else { len * 2 };
        self.growth_of(offset, len, taken)
    }

    /// Like [`growth`](Self::growth), if the bytes fill their memory.
    pub fn growth_of_tight(&self, offset: u64, len: u64) -> u64 {
        self.growth_of(offset, len, len)
    }

    /// Returns the growth if the bytes come in memory of size `taken`.
    fn growth_of(&self, offset: u64, len: u64, taken: u64) -> u64 {
        let end = offset + len;
        let (mut freed, mut writable) = (0, 0);
        for (start, piece) in self.overlapping(offset, len) {
            let piece_end = start + piece.len() as u64;
            let block = self.blocks[piece.block];
            // A block visible in several pieces is shared, if only among them.
            if block.live != piece.len() as u64 || piece.bytes().is_shared() {
                continue;
            }
            writable += piece_end.min(end) - start.max(offset);
            if start >= offset && piece_end <= end {
                freed += block.len;
            }
        }
        self.growth_for(offset, len, taken, freed, writable)
    }

    /// Like [`growth`](Self::growth), if the write goes to a copy because this data is shared.
    pub fn growth_of_copy(&self, offset: u64, len: u64) -> u64 {
        let taken = if len <= COPY_MAX as u64 { len } else { len * 2 };
        self.growth_for(offset, len, taken, 0, 0)
    }

    /// Returns the growth if a write frees `freed` bytes and finds `writable` bytes in unshared memory.
    fn growth_for(&self, offset: u64, len: u64, taken: u64, freed: u64, writable: u64) -> u64 {
        if self.goes_in_place(offset, len) {
            // Copied bytes go in place if all of their target exists.
            if writable == len {
                return 0;
            }
            if let Some((chunks, _)) = self.chunks_around(offset, len) {
                return chunks.end - chunks.start + 2 * PIECE_OVERHEAD;
            }
        }
        (taken + PIECE_OVERHEAD).saturating_sub(freed)
    }

    /// Iterates over the pieces that overlap `offset..offset + len`.
    fn overlapping(&self, offset: u64, len: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let before = self.pieces.range(..offset).next_back();
        let before = before.filter(|(start, piece)| **start + piece.len() as u64 > offset);
        before
            .into_iter()
            .chain(self.pieces.range(offset..offset.saturating_add(len)))
            .map(|(start, piece)| (*start, piece))
    }

    /// Returns the bytes in `offset..offset + len`; holes are filled from `zeros`.
    pub fn read(&self, offset: u64, len: u64, zeros: &Segment) -> List {
        let mut list = List::new();
        let end = offset + len;
        // Nearly every read lies within one piece.
        if let Some((&start, piece)) = self.pieces.range(..end).next_back()
            && start <= offset
            && start + piece.len() as u64 >= end
        {
            list.push(piece.bytes().slice((offset - start) as usize..(end - start) as usize));
            return list;
        }
        let mut at = offset;
        for (start, piece) in self.overlapping(offset, len) {
            push_zeros(&mut list, start.saturating_sub(at), zeros);
            let skip = offset.saturating_sub(start) as usize;
            let take = (end.min(start + piece.len() as u64) - start) as usize;
            list.push(piece.bytes().slice(skip..take));
            at = start + take as u64;
        }
        push_zeros(&mut list, end - at, zeros);
        list
    }

    /// Returns the allocated runs in `offset..offset + len` as pairs of offset and length.
    pub fn runs(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (start, piece) in self.overlapping(offset, len) {
            let end = (start + piece.len() as u64).min(offset + len);
            let start = start.max(offset);
            match runs.last_mut() {
                Some((run, len)) if *run + *len == start => *len += end - start,
                _ => runs.push((start, end - start)),
            }
        }
        runs
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: List) {
        let len = data.len() as u64;
        if len == 0 {
            return;
        }
        if self.goes_in_place(offset, len) {
            if self.write_in_place(offset, &data) {
                return;
            }
            if self.unshare(offset, len) && self.write_in_place(offset, &data) {
                return self.tidy();
            }
        }
        // Data that is copied anyway is best copied to existing memory.
        if !data.segments().any(is_adopted) && self.write_in_place(offset, &data) {
            return;
        }
        self.punch(offset, len);
        if data.len() <= COPY_MAX {
            self.insert(offset, Segment::from(data.to_vec()));
        } else {
            self.adopt(offset, &data);
        }
        self.tidy();
    }

    /// Returns whether copying `len` bytes to existing memory beats replacing it. A write that replaces a whole block
    /// frees it in exchange. One that replaces a part of a block frees nothing, needs fresh memory, and leaves dead
    /// bytes to be copied later.
    fn goes_in_place(&self, offset: u64, len: u64) -> bool {
        let within = |(start, piece): (u64, &Piece)| {
            start <= offset && offset + len <= start + piece.len() as u64 && piece.len() as u64 > len
        };
        len <= COPY_MAX as u64
            || (len <= CHUNK as u64 && self.overlapping(offset, len).next().is_some_and(within))
    }

    /// Returns the chunks that a write falls into, within the single piece that contains it, and the start of that
    /// piece. Returns `None` if no piece contains it, or only one no larger than the write.
    fn chunks_around(&self, offset: u64, len: u64) -> Option<(Range<u64>, u64)> {
        let (start, piece) = self.overlapping(offset, len).next()?;
        let (end, piece_end) = (offset + len, start + piece.len() as u64);
        if start > offset || end > piece_end || piece.len() as u64 <= len {
            return None;
        }
        let chunk = CHUNK as u64;
        let chunks = (offset / chunk * chunk).max(start)..end.next_multiple_of(chunk).min(piece_end);
        Some((chunks, start))
    }

    /// Copies the chunks that a write falls into to their own memory, if a single piece contains them.
    fn unshare(&mut self, offset: u64, len: u64) -> bool {
        let Some((chunks, start)) = self.chunks_around(offset, len) else { return false };
        let shared = (chunks.start - start) as usize..(chunks.end - start) as usize;
        let copy = Segment::copy_from(&self.pieces[&start].bytes()[shared]);
        self.punch(chunks.start, chunks.end - chunks.start);
        self.insert(chunks.start, copy);
        true
    }

    /// Copies `data` over existing bytes in unshared memory. On failure, some of it may have been written; the caller
    /// writes it again another way.
    fn write_in_place(&mut self, offset: u64, data: &List) -> bool {
        let mut end = offset + data.len() as u64;
        // From the last piece to the first: nearly every write lies within one piece, which is then found first.
        for (&start, piece) in self.pieces.range_mut(..end).rev() {
            if start + (piece.len() as u64) < end {
                return false;
            }
            let from = start.max(offset);
            let part = (from - offset) as usize..(end - offset) as usize;
            if !piece.overwrite((from - start) as usize, data, part) {
                return false;
            }
            if start <= offset {
                return true;
            }
            end = start;
        }
        false
    }

    /// Inserts the segments of `data`. A segment that would pin too much is copied, neighbours into one piece of up to
    /// [`CHUNK`] bytes, as they would be joined later.
    fn adopt(&mut self, mut offset: u64, data: &List) {
        let mut copied = Vec::new();
        for segment in data.segments() {
            let adopted = is_adopted(segment);
            if adopted || copied.len() + segment.len() > CHUNK {
                self.insert_copied(offset, &mut copied);
            }
            if adopted {
                self.insert(offset, segment.clone());
            } else {
                copied.extend_from_slice(segment);
            }
            offset += segment.len() as u64;
        }
        self.insert_copied(offset, &mut copied);
    }

    /// Adds a piece that ends at `end`, unless it is empty.
    fn insert_copied(&mut self, end: u64, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            let mut bytes = std::mem::take(bytes);
            bytes.shrink_to_fit();
            self.insert(end - bytes.len() as u64, Segment::from(bytes));
        }
    }

    fn insert(&mut self, offset: u64, segment: Segment) {
        let live = segment.len() as u64;
        let block = Block { len: segment.block_len() as u64, live };
        self.pinned += block.len;
        self.live += live;
        let block = self.blocks.insert(block);
        self.pieces.insert(offset, Piece { segment: Some(segment), block });
    }

    /// Records that bytes of a block are not visible any more.
    fn release(&mut self, block: usize, bytes: u64) {
        self.live -= bytes;
        self.blocks[block].live -= bytes;
        if self.blocks[block].live == 0 {
            self.pinned -= self.blocks.remove(block).len;
        }
    }

    /// Makes `offset..offset + len` a hole.
    pub fn remove(&mut self, offset: u64, len: u64) {
        self.punch(offset, len);
        self.tidy();
    }

    fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let (mut dead, mut tail) = (None, None);
        if let Some((&start, piece)) = self.pieces.range_mut(..offset).next_back() {
            let piece_end = start + piece.len() as u64;
            if piece_end > offset {
                let mut segment = piece.bytes().clone();
                if piece_end > end {
                    tail = Some(segment.slice((end - start) as usize..));
                }
                segment.truncate((offset - start) as usize);
                piece.segment = Some(segment);
                dead = Some((piece.block, end.min(piece_end) - offset));
            }
        }
        if let Some((block, bytes)) = dead {
            if let Some(segment) = tail {
                self.pieces.insert(end, Piece { segment: Some(segment), block });
            }
            self.release(block, bytes);
        }
        while let Some((&start, piece)) = self.pieces.range(offset..end).next() {
            let (len, block) = (piece.len() as u64, piece.block);
            let piece = self.pieces.remove(&start).expect("the piece was just found");
            if start + len > end {
                let rest = piece.bytes().slice((end - start) as usize..);
                self.pieces.insert(end, Piece { segment: Some(rest), block });
                self.release(block, end - start);
                break;
            }
            self.release(block, len);
        }
    }

    /// Removes everything past `size`.
    pub fn truncate(&mut self, size: u64) {
        self.remove(size, u64::MAX - size);
    }

    /// Restores the limits on dead bytes and on the number of pieces.
    fn tidy(&mut self) {
        if self.pinned > self.live * 2 + SLACK {
            self.leave_dead_blocks();
        }
        if self.pieces.len() >= self.join_at {
            self.join();
            self.join_at = (self.pieces.len() * 2).max(FEW_PIECES);
        }
    }

    /// Copies live bytes out of blocks that are more than half dead.
    fn leave_dead_blocks(&mut self) {
        for piece in self.pieces.values_mut() {
            let old = self.blocks[piece.block];
            let len = piece.len() as u64;
            if old.live * 2 >= old.len {
                continue;
            }
            let copy = Segment::copy_from(piece.bytes());
            self.blocks[piece.block].live -= len;
            if old.live == len {
                self.pinned -= self.blocks.remove(piece.block).len;
            }
            self.pinned += len;
            piece.block = self.blocks.insert(Block { len, live: len });
            piece.segment = Some(copy);
        }
    }

    fn join(&mut self) {
        let mut run: Option<(u64, u64)> = None;
        let mut runs = Vec::new();
        for (&start, piece) in &self.pieces {
            let len = piece.len() as u64;
            if len > COPY_MAX as u64 {
                runs.extend(run.take());
                continue;
            }
            run = match run {
                Some((first, end)) if end == start && end + len - first <= CHUNK as u64 => {
                    Some((first, end + len))
                }
                last => {
                    runs.extend(last);
                    Some((start, start + len))
                }
            };
        }
        runs.extend(run);
        for (start, end) in runs {
            let alone = self.pieces.get(&start).is_some_and(|piece| start + piece.len() as u64 == end);
            if !alone {
                // There are no holes between them, so no zeros are needed.
                let joined = self.read(start, end - start, &Segment::from_static(b"")).to_vec();
                self.punch(start, end - start);
                self.insert(start, Segment::from(joined));
            }
        }
    }
}

fn push_zeros(list: &mut List, mut len: u64, zeros: &Segment) {
    while len > 0 {
        let take = (len as usize).min(zeros.len());
        list.push(zeros.slice(..take));
        len -= take as u64;
    }
}

/// Copies bytes of `data` from `skip` on, as many as fit into `to`.
fn copy_part(data: &List, mut skip: usize, mut to: &mut [u8]) {
    for segment in data.segments() {
        if skip >= segment.len() {
            skip -= segment.len();
            continue;
        }
        let take = to.len().min(segment.len() - skip);
        let (now, later) = to.split_at_mut(take);
        now.copy_from_slice(&segment[skip..skip + take]);
        (to, skip) = (later, 0);
        if to.is_empty() {
            break;
        }
    }
}

#[cfg(test)]
mod tests;
