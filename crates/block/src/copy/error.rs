use crate::error::Error;
use std::fmt;
use thiserror::Error as ThisError;

/// One of the two devices of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopySide {
    /// The one that is read.
    Source,
    /// The one that is written.
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

/// Why a copy has failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum CopyError {
    /// A request to a device has failed.
    #[error("{side}, {length} bytes at {offset}: {source}")]
    Device {
        /// Which device.
        side: CopySide,
        /// First byte of the request.
        offset: u64,
        /// Bytes of the request.
        length: u64,
        /// Why.
        source: Error,
    },
    /// What was written could not be made durable.
    #[error("the destination cannot make durable what was written: {0}")]
    Flush(Error),
    /// There is no room for the source.
    #[error("the source has {source_size} bytes, and the destination {size}: copy to a larger one")]
    TooSmall {
        /// Bytes of the source.
        source_size: u64,
        /// Bytes of the destination.
        size: u64,
    },
    /// The destination can only be read.
    #[error("the destination is read-only")]
    ReadOnly,
    /// The source has changed its size meanwhile.
    #[error("the source had {before} bytes when the copy began, and has {now} now: copy it again")]
    Resized {
        /// Bytes at the beginning.
        before: u64,
        /// Bytes now.
        now: u64,
    },
}
