/// Why a request to a device failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for bytes that the device does not have.
    #[error("{length} bytes at {offset}: the device ends at {size}")]
    OutOfBounds {
        /// First byte of the request.
        offset: u64,
        /// Bytes of the request.
        length: u64,
        /// Bytes of the device.
        size: u64,
    },
    /// The caller asked for more at a time than the device does.
    #[error("a request of {length} bytes: the device takes at most {most}, so ask for less at a time")]
    TooLong {
        /// Bytes of the request.
        length: u64,
        /// The most that the device takes.
        most: u64,
    },
    /// Offset or length are not multiples of the device's block size.
    #[error("{length} bytes at {offset}: the device has blocks of {block} bytes, so use multiples of that")]
    Unaligned {
        /// First byte of the request.
        offset: u64,
        /// Bytes of the request.
        length: u64,
        /// Bytes of a block.
        block: u32,
    },
    /// The caller asked to change a device that is only read.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device cannot do that.
    #[error("the device cannot {0}")]
    Unsupported(&'static str),
    /// There is no room for the data.
    #[error("no space left for the device's data: {0}")]
    NoSpace(String),
    /// The caller may not do that.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The device, or what it stands on, failed.
    #[error("{0}")]
    Failed(String),
    /// What the device stands on did not answer in time.
    #[error("no answer from what the device stands on: {0}")]
    TimedOut(String),
    /// The request was dropped before it completed: its device is gone.
    #[error("the device is gone")]
    Dropped,
}
