//! Message headers where the kernel finds them.
use crate::socket::{MAX_BYTES, MAX_SLICES};
use onego_buf::{List, Segment};

/// A header and its vectors. Neither moves while it is in its box.
pub(crate) struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside lead into the message's own vectors and into buffers that the caller owns and that are
// `Send` themselves.
unsafe impl Send for Message {}

/// A segment as the kernel wants it named.
pub(crate) fn vector(segment: &Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() }
}

/// The first `bytes` of a list as the kernel wants them named, as far as one call takes them.
pub(crate) fn vectors(list: &List, bytes: usize) -> impl Iterator<Item = libc::iovec> {
    let mut bytes = bytes.min(MAX_BYTES);
    list.segments().take(MAX_SLICES).map_while(move |segment| {
        let len = segment.len().min(bytes);
        bytes -= len;
        (len > 0).then(|| libc::iovec { iov_len: len, ..vector(segment) })
    })
}

impl Message {
    pub(crate) fn new() -> Box<Self> {
        // SAFETY: a header of zeroes is one without name, vectors and control data.
        let header = unsafe { std::mem::zeroed() };
        Box::new(Self { header, vectors: Vec::new() })
    }

    /// Names these buffers, and no others.
    pub(crate) fn set(&mut self, vectors: impl Iterator<Item = libc::iovec>) -> *mut libc::msghdr {
        self.vectors.clear();
        self.vectors.extend(vectors);
        self.header.msg_iov = self.vectors.as_mut_ptr();
        // Its type is not the same in all C libraries; there are at most `MAX_SLICES`.
        self.header.msg_iovlen = self.vectors.len() as _;
        &raw mut self.header
    }
}
