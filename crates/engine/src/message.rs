//! Message headers for the kernel.
use crate::socket::{MAX_BYTES, MAX_SLICES};
use onego_buf::{List, Segment};

/// A header and its vectors, at fixed addresses while they are in their box.
pub(crate) struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside point to the message's own vectors and to buffers that the caller owns and that are
// `Send` themselves.
unsafe impl Send for Message {}

pub(crate) fn vector(segment: &Segment) -> libc::iovec {
    libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() }
}

/// Describes the first `bytes` of a list to the kernel, up to the limits of one call.
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
        // SAFETY: an all-zero header has no name, vectors or control data.
        let header = unsafe { std::mem::zeroed() };
        Box::new(Self { header, vectors: Vec::new() })
    }

    pub(crate) fn set(&mut self, vectors: impl Iterator<Item = libc::iovec>) -> *mut libc::msghdr {
        self.vectors.clear();
        self.vectors.extend(vectors);
        self.header.msg_iov = self.vectors.as_mut_ptr();
        // The field's type differs between C libraries; there are at most `MAX_SLICES` vectors.
        self.header.msg_iovlen = self.vectors.len() as _;
        &raw mut self.header
    }
}
