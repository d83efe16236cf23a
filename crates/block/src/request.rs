use crate::caller::Caller;
use crate::error::Error;
use crate::outcome::Outcome;
#[cfg(doc)]
use crate::status::StatusExtent;
use onego_buf::{List, SegmentMut};
use onego_wire::Time;

/// Operation of a request. Lengths are bytes.
#[derive(Debug)]
pub enum Op {
    /// Returns the bytes as a list, [`Outcome::Data`], in any memory.
    Read {
        /// Length.
        length: u64,
    },
    /// Fills the buffer and returns it, [`Outcome::Filled`].
    ReadInto {
        /// Destination of the bytes.
        buffer: SegmentMut,
    },
    /// Writes the bytes. Reads see them once this has completed.
    Write {
        /// The bytes.
        data: List,
    },
    /// Makes all writes durable that completed before this was submitted.
    Flush,
    /// Discards the bytes. They may read as anything until they are written again.
    Trim {
        /// Length.
        length: u64,
    },
    /// Makes the bytes zeros.
    Zero {
        /// Length.
        length: u64,
    },
    /// Returns the status of the bytes, [`Outcome::Status`]: at least of the first of them, at most
    /// [`StatusExtent::MOST`] runs.
    Status {
        /// Length.
        length: u64,
    },
}

impl Op {
    /// Returns whether the operation changes the device.
    pub fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Trim { .. } | Self::Zero { .. })
    }

    /// Returns whether the operation transfers bytes of the device.
    pub fn carries_data(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::ReadInto { .. } | Self::Write { .. })
    }
}

/// Options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Force unit access: changes are durable when the request completes.
    pub fua: bool,
    /// Zeroes keep their space allocated.
    pub no_hole: bool,
    /// Fails with [`Error::Unsupported`] rather than writing zeros as data.
    pub fast: bool,
}

/// A request to a device: one container that crosses every layer whole.
#[derive(Debug)]
pub struct Request {
    /// Offset in bytes.
    pub offset: u64,
    /// The operation.
    pub op: Op,
    /// Its options.
    pub flags: Flags,
    /// Destination of the outcome.
    pub caller: Caller,
}

impl Request {
    /// Creates a request without flags.
    pub fn new(caller: Caller, offset: u64, op: Op) -> Self {
        Self { offset, op, flags: Flags::default(), caller }
    }

    /// Returns the request with these flags.
    pub fn with_flags(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }

    /// Returns the length in bytes; 0 for a flush.
    pub fn length(&self) -> u64 {
        match &self.op {
            Op::Read { length } | Op::Trim { length } | Op::Zero { length } | Op::Status { length } => {
                *length
            }
            Op::ReadInto { buffer } => buffer.len() as u64,
            Op::Write { data } => data.len() as u64,
            Op::Flush => 0,
        }
    }

    /// Returns the end offset.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length())
    }

    /// Completes the request.
    pub fn complete(self, now: Time, result: Result<Outcome, Error>) {
        self.caller.complete(now, result);
    }
}
