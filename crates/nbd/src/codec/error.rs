/// Error codes of requests (nbd proto.md, 'Error values').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// Operation not permitted; the export is read-only.
    Permission = 1,
    /// I/O error.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// Invalid request.
    Invalid = 22,
    /// No space left, or a write past the end.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// Operation not supported, such as fast zeroing.
    NotSupported = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

impl ErrorCode {
    /// Returns the number on the wire.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Converts a number. Unknown numbers count as invalid, as the protocol requires.
    pub fn of(number: u32) -> Self {
        match number {
            1 => Self::Permission,
            5 => Self::Io,
            12 => Self::NoMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::Shutdown,
            _ => Self::Invalid,
        }
    }
}
