//! What can be asked of an open image, and what it gives.

use crate::error::Error;
use onego_buf::{List, SegmentMut};

/// Most bytes of one read or write, 64 MiB: beyond what a caller gains by, and within the client's bound on bytes in
/// flight.
pub const MAX_IO: u64 = 64 << 20;

/// Most objects whose sizes one request asks for: enough for 256 MiB of an image with objects of the usual size.
pub const STATUS_OBJECTS: usize = 64;

/// A request to an image; offsets and lengths in bytes.
#[derive(Debug)]
pub enum Io {
    /// Fills the buffer from `offset` on. Gives [`Outcome::Buffer`].
    ReadInto {
        /// First byte.
        offset: u64,
        /// Where the bytes go.
        buffer: SegmentMut,
    },
    /// Gives the bytes as a list of what was received: [`Outcome::Data`].
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Gives the bytes that objects hold, of up to [`STATUS_OBJECTS`] objects: the runs from `offset` on that are there
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
    /// Writes the bytes if others are there now, as many. They lie in one object, and the image is not encrypted. Fails with
    /// -(4095 + offset of the first difference), as Ceph's OSDs say it.
    CompareAndWrite {
        /// First byte.
        offset: u64,
        /// What must be there.
        expected: List,
        /// The bytes.
        data: List,
    },
    /// The bytes are zeros from now on, and take no room where that can be.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Gives up what is cut off when the image becomes smaller, also behind its end; nothing of a parent shows there.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Gives an object what shows of the parent in it, unless it has bytes of its own.
    CopyUp {
        /// Number of the object.
        object: u64,
    },
    /// Completes when all writes submitted before are durable.
    Flush,
}

impl Io {
    /// Does it change the image?
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
        // An answer about allocation moves no bytes.
        if length > MAX_IO && !matches!(self, Self::Allocated { .. }) {
            return Err(Error::TooLong { length });
        }
        Ok(())
    }
}

/// A run of an image's bytes: do objects hold them?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes.
    pub length: u64,
    /// Objects hold them. If not, they read as zeros.
    pub is_there: bool,
}

/// What a request to an image gave.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The caller's buffer, filled.
    Buffer(SegmentMut),
    /// The bytes of a read without a buffer.
    Data(List),
    /// Which bytes objects hold.
    Allocated(Vec<Allocated>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_move_bytes_have_a_longest_length() {
        let (offset, length, size) = (0, MAX_IO + 1, 1 << 40);
        assert_eq!(Io::Allocated { offset, length }.check(size), Ok(()));
        assert_eq!(Io::Read { offset, length }.check(size), Err(Error::TooLong { length }));
    }
}
