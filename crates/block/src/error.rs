/// Error of a failed request to a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request exceeds the size of the device.
    #[error("offset {offset} + length {length} exceeds the device size {size}")]
    OutOfBounds {
        /// Offset of the request in bytes.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Size of the device in bytes.
        size: u64,
    },
    /// The request exceeds the device's maximum length.
    #[error("request length {length} exceeds the device's maximum of {most} bytes: split the request")]
    TooLong {
        /// Length of the request in bytes.
        length: u64,
        /// The device's maximum in bytes.
        most: u64,
    },
    /// Offset or length is not a multiple of the device's block size.
    #[error("offset {offset} and length {length} must be multiples of the device's block size {block}")]
    Unaligned {
        /// Offset of the request in bytes.
        offset: u64,
        /// Length of the request in bytes.
        length: u64,
        /// Size of a block in bytes.
        block: u32,
    },
    /// The request would change a read-only device.
    #[error("the device is read-only")]
    ReadOnly,
    /// The device does not support the operation.
    #[error("the device cannot {0}")]
    Unsupported(&'static str),
    /// The data does not fit.
    #[error("no space left for the device's data: {0}")]
    NoSpace(String),
    /// The caller lacks the permission.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// The device or its backend failed.
    #[error("{0}")]
    Failed(String),
    /// The device's backend did not answer in time.
    #[error("no answer from the device's backend: {0}")]
    TimedOut(String),
    /// The request was dropped before it completed: its device is gone.
    #[error("the device is gone")]
    Dropped,
}
