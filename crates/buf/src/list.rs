use crate::crc::crc32c;
use crate::segment::{Segment, SegmentMut};
use bytes::Bytes;
use smallvec::SmallVec;
use std::io::IoSlice;

/// Number of segments stored inline: a payload is one segment, or two if it was cut. Lists are stored in messages and
/// requests, which are moved more often than a list grows beyond this.
const INLINE: usize = 2;

/// A scatter/gather list: a run of bytes in any number of non-empty segments.
///
/// Segments that are adjacent in memory are merged.
#[derive(Default)]
pub struct List {
    segments: SmallVec<[Segment; INLINE]>,
    /// Index of the first unused segment, so that taking from the front need not move the rest each time.
    head: usize,
    len: usize,
}

/// Segments of a list, front to back.
pub type Segments<'a> = std::slice::Iter<'a, Segment>;

impl List {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the segments, front to back.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        self.segments[self.head..].iter()
    }

    /// Appends a segment.
    pub fn push(&mut self, segment: impl Into<Segment>) {
        let segment = segment.into();
        if segment.is_empty() {
            return;
        }
        self.len += segment.len();
        let joined = match self.segments.last_mut() {
            Some(last) => last.try_join(segment),
            None => Err(segment),
        };
        if let Err(segment) = joined {
            self.segments.push(segment);
        }
    }

    /// Appends all of `other`.
    #[inline]
    pub fn append(&mut self, other: List) {
        // The list is usually empty before.
        match self.is_empty() {
            true => *self = other,
            false => self.append_behind(other),
        }
    }

    fn append_behind(&mut self, other: List) {
        let head = other.head;
        for segment in other.segments.into_iter().skip(head) {
            self.push(segment);
        }
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// If the list is shorter.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len, "advance by {n} in a list of {} bytes", self.len);
        self.len -= n;
        while n > 0 {
            let first = &mut self.segments[self.head];
            if n < first.len() {
                first.advance(n);
                break;
            }
            n -= std::mem::replace(first, Segment::EMPTY).len();
            self.head += 1;
        }
        self.release_used();
    }

    /// Splits off and returns the first `n` bytes.
    ///
    /// # Panics
    /// If the list is shorter.
    pub fn split_to(&mut self, n: usize) -> List {
        assert!(n <= self.len, "split at {n} of a list of {} bytes", self.len);
        let mut front = List::new();
        while front.len < n {
            let want = n - front.len;
            let first = &mut self.segments[self.head];
            if want < first.len() {
                front.push(first.split_to(want));
                self.len -= want;
            } else {
                let whole = std::mem::replace(first, Segment::EMPTY);
                self.head += 1;
                self.len -= whole.len();
                front.push(whole);
            }
        }
        self.release_used();
        front
    }

    /// Drops used segments, rarely enough that the cost per byte is negligible.
    fn release_used(&mut self) {
        if self.head == self.segments.len() {
            self.segments.clear();
            self.head = 0;
        } else if self.head > 64 && self.head * 2 > self.segments.len() {
            self.segments.drain(..self.head);
            self.head = 0;
        }
    }

    /// Returns the bytes in `start..start + len`, sharing the memory.
    ///
    /// # Panics
    /// If the list is shorter.
    pub fn slice(&self, start: usize, len: usize) -> List {
        let (mut skip, mut left) = (start, len);
        let mut part = List::new();
        for segment in self.segments() {
            if left == 0 {
                break;
            }
            if skip >= segment.len() {
                skip -= segment.len();
                continue;
            }
            let take = left.min(segment.len() - skip);
            part.push(segment.slice(skip..skip + take));
            skip = 0;
            left -= take;
        }
        assert!(left == 0, "slice {start}+{len} of a list of {} bytes", self.len);
        part
    }

    /// Copies as many bytes as fit from the front of the list to `to`. Returns their number.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut done = 0;
        for segment in self.segments() {
            let n = segment.len().min(to.len() - done);
            to[done..done + n].copy_from_slice(&segment[..n]);
            done += n;
            if done == to.len() {
                break;
            }
        }
        done
    }

    /// Copies the bytes into a new `Vec`.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut vec = Vec::with_capacity(self.len);
        for segment in self.segments() {
            vec.extend_from_slice(segment);
        }
        vec
    }

    /// Returns the bytes as one segment: the list's only one, or a copy.
    pub fn to_segment(&self) -> Segment {
        match self.segments().as_slice() {
            [] => Segment::EMPTY,
            [only] => only.clone(),
            _ => Segment::from(self.to_vec()),
        }
    }

    /// Returns the bytes as [`Bytes`], sharing the memory of a single segment, otherwise copying.
    pub fn to_bytes(&self) -> Bytes {
        self.to_segment().into()
    }

    /// Returns whether all bytes are zero.
    pub fn is_zeros(&self) -> bool {
        // In chunks that the processor compares at a time.
        self.segments()
            .all(|segment| segment.chunks(64).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0))
    }

    /// Continues the CRC-32C `seed` over the list (see [`crc32c`]).
    pub fn crc32c(&self, seed: u32) -> u32 {
        self.segments().fold(seed, |crc, segment| crc32c(crc, segment))
    }

    /// Returns at most `max` segments as vectors for a gathered send.
    pub fn io_slices(&self, max: usize) -> impl Iterator<Item = IoSlice<'_>> {
        self.segments().take(max).map(|segment| IoSlice::new(segment))
    }
}

impl Clone for List {
    #[inline]
    fn clone(&self) -> Self {
        let mut segments = SmallVec::new();
        match self.segments().as_slice() {
            // Nearly always one of these.
            [] => {}
            [only] => segments.push(only.clone()),
            all => segments.extend(all.iter().cloned()),
        }
        Self { segments, head: 0, len: self.len }
    }
}

impl From<Segment> for List {
    fn from(segment: Segment) -> Self {
        let mut list = List::new();
        list.push(segment);
        list
    }
}

impl From<SegmentMut> for List {
    fn from(segment: SegmentMut) -> Self {
        segment.freeze().into()
    }
}

impl From<Vec<u8>> for List {
    fn from(vec: Vec<u8>) -> Self {
        Segment::from(vec).into()
    }
}

impl From<Bytes> for List {
    /// Shares the memory.
    fn from(bytes: Bytes) -> Self {
        Segment::from(bytes).into()
    }
}

impl From<&[u8]> for List {
    /// Copies the bytes.
    fn from(bytes: &[u8]) -> Self {
        Segment::copy_from(bytes).into()
    }
}

impl<const N: usize> From<&[u8; N]> for List {
    /// Copies the bytes.
    fn from(bytes: &[u8; N]) -> Self {
        bytes[..].into()
    }
}

impl From<List> for Bytes {
    /// Shares the memory of a single segment, otherwise copies.
    fn from(list: List) -> Self {
        list.to_bytes()
    }
}

impl From<List> for Vec<u8> {
    /// Returns the `Vec` that the list was made from, if it is complete and not shared, otherwise copies.
    fn from(mut list: List) -> Self {
        if list.segments().len() == 1
            && let Some(only) = list.segments.pop()
        {
            let whole = only.try_into_mut().and_then(|only| only.try_into_vec().map_err(SegmentMut::freeze));
            return whole.unwrap_or_else(|only| only.to_vec());
        }
        list.to_vec()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Segment;
    type IntoIter = Segments<'a>;

    fn into_iter(self) -> Segments<'a> {
        self.segments()
    }
}

impl IntoIterator for List {
    type Item = Segment;
    type IntoIter = std::iter::Skip<smallvec::IntoIter<[Segment; INLINE]>>;

    fn into_iter(self) -> Self::IntoIter {
        self.segments.into_iter().skip(self.head)
    }
}

impl FromIterator<Segment> for List {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        let mut list = List::new();
        for segment in segments {
            list.push(segment);
        }
        list
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && self.segments().flat_map(|s| s.iter()).eq(other.segments().flat_map(|s| s.iter()))
    }
}

impl Eq for List {}

impl PartialEq<[u8]> for List {
    fn eq(&self, mut other: &[u8]) -> bool {
        self.len == other.len()
            && self.segments().all(|segment| {
                let (here, rest) = other.split_at(segment.len());
                other = rest;
                segment[..] == *here
            })
    }
}

impl PartialEq<&[u8]> for List {
    fn eq(&self, other: &&[u8]) -> bool {
        *self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for List {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for List {
    fn eq(&self, other: &&[u8; N]) -> bool {
        *self == other[..]
    }
}

impl PartialEq<Vec<u8>> for List {
    fn eq(&self, other: &Vec<u8>) -> bool {
        *self == other[..]
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({} bytes in {} segments)", self.len, self.segments().len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};

    #[test]
    fn bytes_and_vectors_convert_without_a_copy() {
        let bytes = Bytes::from(b"abcdef".to_vec());
        let mut list = List::from(bytes.clone());
        let shared = list.to_bytes();
        assert_eq!((shared.as_ptr(), &shared[..]), (bytes.as_ptr(), &bytes[..]));
        let first = list.segments().next().unwrap().clone();
        drop((bytes, shared));
        let alone = List::from(first.clone());
        drop((list.split_to(6), list, alone));
        assert!(first.try_into_mut().is_err(), "it may be shared");

        let vec = b"abc".to_vec();
        let at = vec.as_ptr();
        let back = Vec::from(List::from(vec));
        assert_eq!((back.as_ptr(), &back[..]), (at, &b"abc"[..]));
        let mut two = List::from(b"ab");
        two.append(List::from(&b"cd"[..]));
        two.advance(1);
        assert!(
            two == b"bcd" && two == b"bcd"[..] && two == b"bcd".to_vec() && two != b"bcx" && two != b"bc"
        );
        assert_eq!((&two).into_iter().count(), 2);
        assert_eq!(two.clone().into_iter().map(|segment| segment.len()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((Bytes::from(two.clone()), Vec::from(two)), (Bytes::from_static(b"bcd"), b"bcd".to_vec()));
        assert_eq!(Bytes::from(List::new()), Bytes::new());
    }

    #[test]
    fn adjacent_segments_are_merged() {
        let whole = Segment::from(b"abcdef".to_vec());
        let list: List = [whole.slice(..2), whole.slice(2..4), whole.slice(5..)].into_iter().collect();
        assert_eq!(list.segments().len(), 2);
        assert_eq!(list.to_vec(), b"abcdf");
    }

    #[test]
    fn a_list_may_be_cut_while_its_thread_ends() {
        /// Cuts its list when the thread's local values are destroyed.
        struct Keeper(List, Sender<Vec<u8>>);
        impl Drop for Keeper {
            fn drop(&mut self) {
                let head = self.0.split_to(3);
                self.0.advance(3);
                let _ = self.1.send([head.to_vec(), self.0.to_vec()].concat());
            }
        }
        thread_local! {
            static KEEPER: RefCell<Option<Keeper>> = const { RefCell::new(None) };
        }
        fn list() -> List {
            [b"abc", b"def", b"ghi"].into_iter().map(|bytes| Segment::from(bytes.to_vec())).collect()
        }
        let (tell, told) = channel();
        std::thread::spawn(move || {
            KEEPER.set(Some(Keeper(list(), tell)));
            // Thread-local values are destroyed in reverse order of first use, so everything that a list uses is gone
            // by then.
            list().advance(4);
        });
        assert_eq!(told.recv().unwrap(), b"abcghi");
    }

    fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..12)
    }

    proptest! {
        #[test]
        fn a_list_equals_its_bytes(chunks in chunks(), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
            let bytes: Vec<u8> = chunks.concat();
            let list: List = chunks.into_iter().map(Segment::from).collect();
            let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
            let (start, end) = (a.min(b), a.max(b));
            prop_assert_eq!(list.to_vec(), &*bytes);
            prop_assert_eq!(list.slice(start, end - start).to_vec(), &bytes[start..end]);
            prop_assert_eq!(list.crc32c(7), crc32c(7, &bytes));
            let mut tail = list.clone();
            let head = tail.split_to(start);
            prop_assert_eq!(head.to_vec(), &bytes[..start]);
            prop_assert_eq!(tail.to_vec(), &bytes[start..]);
            tail.advance(end - start);
            tail.push(Segment::from_static(b"xyz"));
            prop_assert_eq!(tail.to_vec(), [&bytes[end..], b"xyz"].concat());
            let mut all = head;
            all.append(tail);
            prop_assert_eq!(all.len(), bytes.len() - (end - start) + 3);
        }

        #[test]
        fn the_crc_is_the_oracles(seed in prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)], bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(crc32c(seed, &bytes), !::crc32c::crc32c_append(!seed, &bytes));
        }
    }
}
