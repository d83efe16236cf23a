use crate::caller::Caller;
use crate::error::Error;
use crate::outcome::Outcome;
#[cfg(doc)]
use crate::status::StatusExtent;
use onego_buf::{List, SegmentMut};
use onego_wire::Time;

/// What a device is asked to do. Lengths are bytes.
#[derive(Debug)]
pub enum Op {
    /// Gives the bytes as a list, [`Outcome::Data`], of whatever memory they are in.
    Read {
        /// Bytes.
        length: u64,
    },
    /// Fills the buffer and gives it back, [`Outcome::Filled`].
    ReadInto {
        /// Where the bytes go.
        buffer: SegmentMut,
    },
    /// Writes the bytes. A later read sees them as soon as this has completed.
    Write {
        /// The bytes.
        data: List,
    },
    /// Makes all writes durable that completed before this was submitted.
    Flush,
    /// The caller does not need the bytes any more. They may read as anything until they are written again.
    Trim {
        /// Bytes.
        length: u64,
    },
    /// The bytes are zeros from now on.
    Zero {
        /// Bytes.
        length: u64,
    },
    /// Gives what is known of the bytes, [`Outcome::Status`]: at least of the first of them, at most
    /// [`StatusExtent::MOST`] runs.
    Status {
        /// Bytes.
        length: u64,
    },
}

impl Op {
    /// Does it change the bytes of the device?
    pub fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Trim { .. } | Self::Zero { .. })
    }

    /// Do bytes of the device cross the layers with it?
    pub fn carries_data(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::ReadInto { .. } | Self::Write { .. })
    }
}

/// How a request is to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Force unit access: what the request changes is durable when it completes.
    pub fua: bool,
    /// Zeroes keep their space allocated.
    pub no_hole: bool,
    /// Fail with [`Error::Unsupported`] rather than write zeros as data.
    pub fast: bool,
}

/// A request to a device: one container that crosses every layer whole.
#[derive(Debug)]
pub struct Request {
    /// First byte of the device.
    pub offset: u64,
    /// What to do.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where the outcome goes.
    pub caller: Caller,
}

impl Request {
    /// A request without flags.
    pub fn new(caller: Caller, offset: u64, op: Op) -> Self {
        Self { offset, op, flags: Flags::default(), caller }
    }

    /// The same with these flags.
    pub fn with_flags(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }

    /// Bytes of the device that it is about; none for a flush.
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

    /// First byte behind it.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length())
    }

    /// Ends the request.
    pub fn complete(self, now: Time, result: Result<Outcome, Error>) {
        self.caller.complete(now, result);
    }
}
