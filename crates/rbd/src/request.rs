//! Requests to an open image, and their results.

use crate::error::Error;
use onego_buf::{List, SegmentMut};

/// Largest read or write, 64 MiB: larger ones would not be faster. Within the client's bound on bytes in flight.
pub const MAX_IO: u64 = 64 << 20;

/// Maximum number of objects that one request queries the sizes of: 256 MiB of an image with the default object size.
pub const STATUS_OBJECTS: usize = 64;

/// Request to an image; offsets and lengths are in bytes.
#[derive(Debug)]
pub enum Io {
    /// Fills the buffer from `offset` on. Returns [`Outcome::Buffer`].
    ReadInto {
        /// First byte.
        offset: u64,
        /// Destination.
        buffer: SegmentMut,
    },
    /// Returns the bytes as received: [`Outcome::Data`].
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Returns the runs of bytes from `offset` on that objects hold, of up to [`STATUS_OBJECTS`] objects
    /// ([`Outcome::Allocated`]).
    Allocated {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Writes the bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: List,
    },
    /// Writes the bytes if the current ones equal `expected`, of the same length. They lie in one object, and the image is not
    /// encrypted. Fails with -(4095 + offset of the first difference), as Ceph's OSDs do.
    CompareAndWrite {
        /// First byte.
        offset: u64,
        /// Bytes to compare with.
        expected: List,
        /// Bytes to write.
        data: List,
    },
    /// Zeroes the bytes and deallocates them where possible.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Discards the bytes cut off by a shrink, including those past the image's end, without showing the parent.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Copies the parent's bytes to an object that has none of its own.
    CopyUp {
        /// Number of the object.
        object: u64,
    },
    /// Completes when all writes submitted before are durable.
    Flush,
}

impl Io {
    /// Returns whether the request changes the image.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::CompareAndWrite { .. }
                | Self::Zero { .. }
                | Self::Trim { .. }
                | Self::CopyUp { .. }
        )
    }

    /// Fails unless the request lies within an image of `size` bytes.
    pub fn check(&self, size: u64) -> Result<(), Error> {
        let (offset, length) = match self {
            Self::ReadInto { offset, buffer } => (*offset, buffer.len() as u64),
            Self::Write { offset, data } | Self::CompareAndWrite { offset, data, .. } => {
                (*offset, data.len() as u64)
            }
            Self::Read { offset, length }
            | Self::Allocated { offset, length }
            | Self::Zero { offset, length } => (*offset, *length),
            Self::Flush | Self::Trim { .. } | Self::CopyUp { .. } => return Ok(()),
        };
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::OutOfBounds { offset, length, size });
        }
        // A query of the allocation moves no bytes.
        if length > MAX_IO && !matches!(self, Self::Allocated { .. }) {
            return Err(Error::TooLong { length });
        }
        Ok(())
    }
}

/// Run of an image's bytes, with its allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes.
    pub length: u64,
    /// Whether objects hold the bytes. Otherwise they read as zeros.
    pub is_there: bool,
}

/// Result of an image request.
#[derive(Debug)]
pub enum Outcome {
    /// Success without data.
    Done,
    /// The caller's buffer, filled.
    Buffer(SegmentMut),
    /// The bytes of a read without a buffer.
    Data(List),
    /// Allocation of the range.
    Allocated(Vec<Allocated>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_move_bytes_are_limited_in_length() {
        let (offset, length, size) = (0, MAX_IO + 1, 1 << 40);
        assert_eq!(Io::Allocated { offset, length }.check(size), Ok(()));
        assert_eq!(Io::Read { offset, length }.check(size), Err(Error::TooLong { length }));
    }
}
