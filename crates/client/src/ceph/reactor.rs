use super::core::Core;
use onego_buf::{List, SegmentMut};

/// A Ceph client driven by the thread that owns it; see [the generic reactor](crate::Reactor).
pub type Reactor = crate::Reactor<Core>;

/// A tagged request to an image; offsets and lengths in bytes.
#[derive(Debug)]
pub enum ImageRequest {
    /// Reads into the buffer, which comes back as [`Outcome::Buffer`](super::Outcome::Buffer).
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Destination; its length is that of the read.
        buffer: SegmentMut,
    },
    /// Writes data.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Data to write.
        data: List,
    },
    /// Zeroes a range.
    WriteZeroes {
        /// Offset of the first byte.
        offset: u64,
        /// Length of the range.
        length: u64,
    },
    /// Completes when all writes submitted before are durable.
    Flush,
}
