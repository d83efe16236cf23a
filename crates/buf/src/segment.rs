use crate::block::Block;
use crate::memory::Memory;
use crate::slab::Slab;
use crate::sync;
use bytes::Bytes;
use std::fmt;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::Arc;

/// A shared, immutable piece of memory. Cloning and slicing copy no bytes.
#[derive(Clone)]
pub struct Segment {
    ptr: NonNull<u8>,
    len: usize,
    /// `None`: static memory, which is never writable and needs no owner.
    owner: Option<sync::Arc<Memory>>,
}

/// A writable piece of memory with one owner. All its bytes are initialised.
///
/// Pieces split from one block never overlap, so each can be written, sent to another thread, or held by a receive in
/// the kernel independently.
pub struct SegmentMut {
    ptr: NonNull<u8>,
    len: usize,
    owner: sync::Arc<Memory>,
}

// SAFETY: a `Segment` only reads bytes that are not written any more; its block, or the static, is `Send + Sync`.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}
// SAFETY: a `SegmentMut` exclusively owns its bytes, like a `Box<[u8]>`.
unsafe impl Send for SegmentMut {}
// SAFETY: shared references to it only read.
unsafe impl Sync for SegmentMut {}

fn offset(ptr: NonNull<u8>, len: usize, n: usize) -> NonNull<u8> {
    assert!(n <= len, "offset {n} exceeds a segment of {len} bytes");
    // SAFETY: `n <= len`, so the result lies in the same block or just past its end.
    unsafe { ptr.add(n) }
}

fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&n) => n + 1,
        Bound::Excluded(&n) => n,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} of a segment of {len} bytes");
    (start, end)
}

impl Segment {
    pub(crate) const EMPTY: Self = Self::from_static(&[]);

    /// Creates a segment over static bytes. It takes no memory, and is never [writable](Self::try_into_mut).
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self { ptr: NonNull::from_ref(bytes).cast(), len: bytes.len(), owner: None }
    }

    /// Creates a segment over memory lent by its owner, who gets it back when `lender` is dropped with the last segment
    /// of it. It is never [writable](Self::try_into_mut).
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` readable bytes that are not written or freed until `lender` is dropped.
    pub unsafe fn lent(ptr: NonNull<u8>, len: usize, lender: impl Send + Sync + 'static) -> Self {
        // SAFETY: the caller's promise; foreign memory is never written.
        let memory = unsafe { Memory::lent(ptr, len, Box::new(lender)) };
        Self { ptr, len, owner: Some(sync::Arc::new(memory)) }
    }

    /// Creates a segment with a copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }

    /// Returns the part of the segment in `range`, sharing the memory.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = bounds(range, self.len);
        Self { ptr: offset(self.ptr, self.len, start), len: end - start, owner: self.owner.clone() }
    }

    /// Splits off and returns the first `n` bytes.
    pub fn split_to(&mut self, n: usize) -> Self {
        let head = self.slice(..n);
        self.advance(n);
        head
    }

    /// Drops the first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        self.ptr = offset(self.ptr, self.len, n);
        self.len -= n;
    }

    /// Shortens the segment to the first `n` bytes, if it is longer.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n);
    }

    /// Returns the size of the memory block that this segment keeps alive, in bytes. For static memory, which needs no
    /// owner, it is the segment's own size.
    pub fn block_len(&self) -> usize {
        self.owner.as_ref().map_or(self.len, |owner| owner.len())
    }

    /// Returns whether the memory block is shared, so that [`try_into_mut`](Self::try_into_mut) would fail. The answer
    /// may be outdated at once if other threads share it.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| sync::Arc::strong_count(owner) > 1)
    }

    /// Returns the slab that the memory was cut from, if it belongs to a [registrable](crate::Pool::registrable) pool.
    #[inline]
    pub fn slab(&self) -> Option<&Arc<Slab>> {
        self.owner.as_ref()?.slab()
    }

    /// Appends `next` without copying if it directly follows this segment in the same block; otherwise returns it.
    /// Static memory does not join: two statics that happen to be adjacent are not one block.
    pub(crate) fn try_join(&mut self, next: Segment) -> Result<(), Segment> {
        match (&self.owner, &next.owner) {
            (Some(owner), Some(other))
                if offset(self.ptr, self.len, self.len) == next.ptr && sync::Arc::ptr_eq(owner, other) =>
            {
                self.len += next.len;
                Ok(())
            }
            _ => Err(next),
        }
    }

    /// Returns the writable bytes if no part of the block is shared; otherwise the segment. Static memory and that of
    /// [`Bytes`] are never writable.
    pub fn try_into_mut(mut self) -> Result<SegmentMut, Segment> {
        match self.owner.take() {
            Some(mut owner) => match sync::Arc::get_mut(&mut owner) {
                Some(memory) if !memory.is_foreign() => {
                    Ok(SegmentMut { ptr: self.ptr, len: self.len, owner })
                }
                _ => Err(Self { owner: Some(owner), ..self }),
            },
            None => Err(self),
        }
    }
}

impl SegmentMut {
    pub(crate) fn from_memory(memory: Memory) -> Self {
        Self { ptr: memory.ptr(), len: memory.len(), owner: sync::Arc::new(memory) }
    }

    /// Allocates a zeroed segment of `len` bytes on a page boundary.
    pub fn zeroed(len: usize) -> Self {
        Self::from_memory(Memory::from_block(Block::zeroed(len)))
    }

    /// Allocates a zeroed segment of `len` bytes on a page boundary, in which each page takes memory when it is first
    /// written. [`zeroed`](Self::zeroed) may take 2 MiB for the first byte. For numerous segments that may be filled
    /// only in part.
    pub fn sparse(len: usize) -> Self {
        Self::from_memory(Memory::from_block(Block::sparse(len)))
    }

    /// Creates a segment over memory lent by its owner, who gets it back when `lender` is dropped with the last piece
    /// of it.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` readable and writable bytes that are not accessed otherwise until `lender` is dropped.
    pub unsafe fn lent(ptr: NonNull<u8>, len: usize, lender: impl Send + Sync + 'static) -> Self {
        // SAFETY: the caller's promise.
        Self::from_memory(unsafe { Memory::lent(ptr, len, Box::new(lender)) })
    }

    /// Returns the slab that the memory was cut from, if it belongs to a [registrable](crate::Pool::registrable) pool.
    #[inline]
    pub fn slab(&self) -> Option<&Arc<Slab>> {
        self.owner.slab()
    }

    /// Splits off and returns the first `n` bytes.
    pub fn split_to(&mut self, n: usize) -> SegmentMut {
        let rest = offset(self.ptr, self.len, n);
        let head = SegmentMut { ptr: self.ptr, len: n, owner: sync::Arc::clone(&self.owner) };
        self.ptr = rest;
        self.len -= n;
        head
    }

    /// Rejoins `next`, which was split from directly after this segment; otherwise returns it.
    pub fn try_join(&mut self, next: SegmentMut) -> Result<(), SegmentMut> {
        if offset(self.ptr, self.len, self.len) == next.ptr && sync::Arc::ptr_eq(&self.owner, &next.owner) {
            self.len += next.len;
            Ok(())
        } else {
            Err(next)
        }
    }

    /// Shortens the segment to the first `n` bytes, if it is longer.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n);
    }

    /// Makes the segment immutable and shareable.
    pub fn freeze(self) -> Segment {
        Segment { ptr: self.ptr, len: self.len, owner: Some(self.owner) }
    }

    /// Returns the `Vec` that this segment was made from, if it is complete and not shared; otherwise the segment.
    pub fn try_into_vec(self) -> Result<Vec<u8>, SegmentMut> {
        let (ptr, len) = (self.ptr, self.len);
        if ptr != self.owner.ptr() || len != self.owner.len() {
            return Err(self);
        }
        let memory = sync::Arc::try_unwrap(self.owner).map_err(|owner| SegmentMut { ptr, len, owner })?;
        memory.into_vec().map_err(|memory| SegmentMut { ptr, len, owner: sync::Arc::new(memory) })
    }
}

impl Deref for Segment {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        #[cfg(loom)]
        self.owner.iter().for_each(|owner| owner.access().read());
        // SAFETY: `ptr` and `len` denote initialised bytes of the block that `owner` keeps alive, or of a static, and
        // they are not written.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl Deref for SegmentMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.owner.access().read();
        // SAFETY: `ptr` and `len` denote initialised bytes of the block that `owner` keeps alive; this segment owns
        // them exclusively.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for SegmentMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.owner.access().write();
        // SAFETY: as for `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Segment {
    fn from(vec: Vec<u8>) -> Self {
        SegmentMut::from(vec).freeze()
    }
}

impl From<Vec<u8>> for SegmentMut {
    fn from(vec: Vec<u8>) -> Self {
        Self::from_memory(Memory::from_vec(vec))
    }
}

impl From<Bytes> for Segment {
    /// Shares the memory.
    fn from(bytes: Bytes) -> Self {
        let memory = Memory::from_bytes(bytes);
        Self { ptr: memory.ptr(), len: memory.len(), owner: Some(sync::Arc::new(memory)) }
    }
}

impl From<Segment> for Bytes {
    /// Shares the whole block that the segment lies in.
    fn from(segment: Segment) -> Self {
        Bytes::from_owner(segment)
    }
}

impl From<SegmentMut> for Segment {
    fn from(segment: SegmentMut) -> Self {
        segment.freeze()
    }
}

impl PartialEq for Segment {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Segment {}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} bytes)", self.len)
    }
}

impl fmt::Debug for SegmentMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentMut({} bytes)", self.len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the resident memory of the mapping that contains an address, in bytes.
    #[cfg(not(miri))]
    fn resident(address: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines();
        let bounds = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        };
        let is_it = |line: &str| bounds(line).is_some_and(|(from, to)| (from..to).contains(&address));
        assert!(lines.any(is_it), "the address is in no mapping");
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    #[cfg(not(miri))]
    fn a_sparse_segment_takes_memory_page_by_page() {
        let mut sparse = SegmentMut::sparse(64 << 20);
        assert_eq!(sparse.len(), 64 << 20);
        for at in (0..sparse.len()).step_by(4 << 20) {
            sparse[at] = 1;
        }
        let taken = resident(sparse.as_ptr() as usize);
        assert!((1..=1 << 20).contains(&taken), "16 bytes take {taken}");
        assert_eq!(SegmentMut::sparse(100).len(), 100);
    }

    #[test]
    fn split_pieces_rejoin() {
        let mut tail = SegmentMut::from(b"hello world".to_vec());
        let mut head = tail.split_to(5);
        head[0] = b'J';
        tail[0] = b'-';
        assert_eq!((&*head, &*tail), (&b"Jello"[..], &b"-world"[..]));
        head.try_join(tail).unwrap();
        assert_eq!(head.try_into_vec().unwrap(), b"Jello-world");
    }

    #[test]
    fn unrelated_pieces_do_not_join() {
        let mut a = SegmentMut::zeroed(4);
        let b = SegmentMut::zeroed(4);
        assert!(a.try_join(b).is_err());
    }

    #[test]
    fn a_shared_segment_is_not_writable() {
        let a = Segment::from(vec![1, 2, 3]);
        let b = a.slice(1..);
        let a = a.try_into_mut().unwrap_err();
        drop(a);
        let mut b = b.try_into_mut().unwrap();
        b[0] = 9;
        assert_eq!(*b.freeze(), [9, 3]);
    }

    #[test]
    fn lent_memory_is_returned_with_its_last_piece() {
        let mut lent = *b"hello world";
        let lender = Arc::new(());
        let ptr = NonNull::from_mut(&mut lent).cast();
        // SAFETY: the array outlives the segments, and is not accessed before they are gone.
        let mut head = unsafe { SegmentMut::lent(ptr, 11, Arc::clone(&lender)) };
        let mut tail = head.split_to(5);
        tail[0] = b'J';
        head[0] = b'-';
        drop(head);
        assert_eq!(Arc::strong_count(&lender), 2);
        drop(tail.freeze().try_into_mut().unwrap_err());
        assert_eq!(Arc::strong_count(&lender), 1);
        assert_eq!(lent, *b"Jello-world");

        // SAFETY: as above.
        let read = unsafe { Segment::lent(NonNull::from_ref(&lent).cast(), 11, Arc::clone(&lender)) };
        assert!(read.slice(1..).try_into_mut().is_err());
        assert_eq!(*read, lent);
        drop(read);
        assert_eq!(Arc::strong_count(&lender), 1);
    }

    #[test]
    fn static_memory_is_never_writable() {
        let whole = Segment::from_static(b"read-only");
        let piece = whole.slice(2..5);
        let whole = whole.try_into_mut().unwrap_err();
        drop(whole);
        // Not even the last handle may write: the bytes lie in the program's read-only pages.
        assert_eq!(*piece.try_into_mut().unwrap_err(), *b"ad-");
    }

    #[test]
    fn pieces_of_static_memory_do_not_join() {
        // Two statics may happen to be adjacent in memory. A slice must not span both.
        let mut head = Segment::from_static(b"abcdef");
        let tail = head.slice(3..);
        head.truncate(3);
        assert_eq!(*head.try_join(tail).unwrap_err(), *b"def");
    }

    #[test]
    #[should_panic(expected = "range 2..5 of a segment of 3 bytes")]
    fn a_range_past_the_end_panics() {
        Segment::from_static(b"abc").slice(2..5);
    }
}
