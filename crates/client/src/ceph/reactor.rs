//! The reactor of a client of Ceph, and what can be submitted to it.

use super::core::Core;
use onego_buf::{List, SegmentMut};

/// A client of a Ceph cluster that is driven by the thread that owns it; see [the generic reactor](crate::Reactor).
pub type Reactor = crate::Reactor<Core>;

/// A tagged request to an image; offsets and lengths in bytes.
#[derive(Debug)]
pub enum ImageRequest {
    /// Fills the buffer from `offset` on. It comes back as [`Outcome::Buffer`](super::Outcome::Buffer).
    Read {
        /// First byte.
        offset: u64,
        /// Where the bytes go.
        buffer: SegmentMut,
    },
    /// Writes the bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: List,
    },
    /// Makes the bytes zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Completes when the writes submitted before are durable.
    Flush,
}
