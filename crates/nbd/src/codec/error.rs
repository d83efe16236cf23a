/// Why a request failed, as the protocol says it (nbd proto.md, 'Error values').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// Not permitted: the export is read-only.
    Permission = 1,
    /// The device failed.
    Io = 5,
    /// No memory.
    NoMemory = 12,
    /// The request is none that the server takes.
    Invalid = 22,
    /// No space, or a write behind the end.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// Zeroes cannot be written fast.
    NotSupported = 95,
    /// The export is no longer served.
    Shutdown = 108,
}

impl ErrorCode {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The error of a number. One that the protocol does not have counts as invalid.
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
