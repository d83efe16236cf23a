use crate::error::Error;
use std::fmt;
use thiserror::Error as ThisError;

/// One of the two devices of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopySide {
    /// The device that is read.
    Source,
    /// The device that is written.
    Destination,
}

impl fmt::Display for CopySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "the source",
            Self::Destination => "the destination",
        })
    }
}

/// Error of a copy.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum CopyError {
    /// A request to a device has failed.
    #[error("{side}, offset {offset}, length {length}: {source}")]
    Device {
        /// The device.
        side: CopySide,
        /// Offset of the request in bytes.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Cause.
        source: Error,
    },
    /// Writes could not be made durable.
    #[error("flushing the destination failed: {0}")]
    Flush(Error),
    /// The destination is smaller than the source.
    #[error("the source has {source_size} bytes, and the destination {size}: copy to a larger one")]
    TooSmall {
        /// Size of the source in bytes.
        source_size: u64,
        /// Size of the destination in bytes.
        size: u64,
    },
    /// The destination is read-only.
    #[error("the destination is read-only")]
    ReadOnly,
    /// The size of the source has changed during the copy.
    #[error("the size of the source changed from {before} to {now} bytes during the copy: copy it again")]
    Resized {
        /// Size at the start in bytes.
        before: u64,
        /// Size at the end in bytes.
        now: u64,
    },
}
