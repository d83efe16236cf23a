//! Message headers where the kernel finds them.
use crate::socket::MAX_SLICES;
use onego_buf::{List, Segment};

/// A header with the segments of a list. Neither moves while it is in its box.
pub(crate) struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside lead into the message's own vectors and to segments, which are `Send` themselves; the
// segments are kept by whoever sends.
unsafe impl Send for Message {}

/// A segment as the kernel wants it named.
pub(crate) fn vector(segment: &Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() }
}

impl Message {
    pub(crate) fn new() -> Box<Self> {
        // SAFETY: a header of zeroes is one without name, vectors and control data.
        let header = unsafe { std::mem::zeroed() };
        Box::new(Self { header, vectors: Vec::new() })
    }

    /// Names the first segments of a list, as many as a send may have.
    pub(crate) fn set(&mut self, list: &List) -> *const libc::msghdr {
        self.vectors.clear();
        self.vectors.extend(list.segments().take(MAX_SLICES).map(vector));
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
        &raw const self.header
    }
}
