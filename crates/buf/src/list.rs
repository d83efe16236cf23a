use crate::crc::crc32c;
use crate::segment::{Segment, SegmentMut};
use bytes::Bytes;
use smallvec::SmallVec;
use std::io::IoSlice;

/// Segments that a list holds without taking memory for them: a payload is one, or two where it was cut. Lists lie in
/// messages and requests, which are moved more often than a list grows beyond this.
const INLINE: usize = 2;

/// A scatter/gather list: a run of bytes in any number of segments, none of them empty.
///
/// Neighbours that touch in memory are one segment.
#[derive(Default)]
pub struct List {
    segments: SmallVec<[Segment; INLINE]>,
    /// Segments before this one are used up: taking from the front moves no memory each time.
    head: usize,
    len: usize,
}

/// The segments of a list, front to back.
pub type Segments<'a> = std::slice::Iter<'a, Segment>;

impl List {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes in the list.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is there no byte in the list?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The segments, front to back.
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
        // What is to be sent is mostly all that there is.
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
    /// If the list has fewer.
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

    /// Cuts off and returns the first `n` bytes.
    ///
    /// # Panics
    /// If the list has fewer.
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

    /// Lets go of segments that are used up, rarely enough that it costs nothing a byte.
    fn release_used(&mut self) {
        if self.head == self.segments.len() {
            self.segments.clear();
            self.head = 0;
        } else if self.head > 64 && self.head * 2 > self.segments.len() {
            self.segments.drain(..self.head);
            self.head = 0;
        }
    }

    /// The bytes in `start..start + len`, sharing the memory.
    ///
    /// # Panics
    /// If the list ends before.
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

    /// Copies the first bytes of the list to `to`, as many as fit, and says how many.
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

    /// The bytes in one new `Vec`.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut vec = Vec::with_capacity(self.len);
        for segment in self.segments() {
            vec.extend_from_slice(segment);
        }
        vec
    }

    /// The bytes in one segment: the list's only one, or a copy.
    pub fn to_segment(&self) -> Segment {
        match self.segments().as_slice() {
            [] => Segment::EMPTY,
            [only] => only.clone(),
            _ => Segment::from(self.to_vec()),
        }
    }

    /// The bytes as [`Bytes`]: sharing the memory if the list has one segment, else a copy.
    pub fn to_bytes(&self) -> Bytes {
        self.to_segment().into()
    }

    /// Are all bytes zeros?
    pub fn is_zeros(&self) -> bool {
        // By what the processor compares at a time.
        self.segments()
            .all(|segment| segment.chunks(64).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0))
    }

    /// Continues the CRC-32C `seed` over the list, segment by segment (see [`crc32c`]).
    pub fn crc32c(&self, seed: u32) -> u32 {
        self.segments().fold(seed, |crc, segment| crc32c(crc, segment))
    }

    /// The segments as vectors for a gathered send, at most `max` of them.
    pub fn io_slices(&self, max: usize) -> impl Iterator<Item = IoSlice<'_>> {
        self.segments().take(max).map(|segment| IoSlice::new(segment))
    }
}

impl Clone for List {
    #[inline]
    fn clone(&self) -> Self {
        let mut segments = SmallVec::new();
        match self.segments().as_slice() {
            // Nearly always it is one of these.
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
    /// Shares the memory if the list has one segment, else copies.
    fn from(list: List) -> Self {
        list.to_bytes()
    }
}

impl From<List> for Vec<u8> {
    /// Gives back the `Vec` that the list was made of, if it is whole and nobody else holds any of it, else copies.
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

    /// The segments, front to back.
    fn into_iter(self) -> Segments<'a> {
        self.segments()
    }
}

impl IntoIterator for List {
    type Item = Segment;
    type IntoIter = std::iter::Skip<smallvec::IntoIter<[Segment; INLINE]>>;

    /// The segments, front to back.
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
    fn bytes_and_vectors_go_in_and_out_without_a_copy() {
        let bytes = Bytes::from(b"abcdef".to_vec());
        let mut list = List::from(bytes.clone());
        let shared = list.to_bytes();
        assert_eq!((shared.as_ptr(), &shared[..]), (bytes.as_ptr(), &bytes[..]));
        let first = list.segments().next().unwrap().clone();
        drop((bytes, shared));
        let alone = List::from(first.clone());
        drop((list.split_to(6), list, alone));
        assert!(first.try_into_mut().is_err(), "others may hold it");

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
    fn neighbours_in_memory_become_one() {
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
            // Local values are destroyed in the reverse order of their first use: whatever a list uses is gone first.
            list().advance(4);
        });
        assert_eq!(told.recv().unwrap(), b"abcghi");
    }

    fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..12)
    }

    proptest! {
        #[test]
        fn a_list_is_its_bytes(chunks in chunks(), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
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
