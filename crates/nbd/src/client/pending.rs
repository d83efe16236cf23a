//! Requests of a device, and their steps at the server.

use super::negotiation::Agreed;
use super::reading::Reading;
use crate::codec::{CommandFlags, ErrorCode, HeaderStyle, RequestHeader, RequestType, TransmissionFlags};
use onego_block::{BlockStatus, Caller, Error, Flags, Op, Outcome, Request, StatusExtent, zeros};
use onego_buf::List;
use onego_wire::Time;

/// Maximum length of a step in 32-bit headers, in bytes: a multiple of every block size.
const STEP_MAX: u64 = 1 << 31;

/// Number of zeros to send at a time to a server without `WRITE_ZEROES`.
const ZEROS_AT_A_TIME: u64 = 4 << 20;

/// Maximum attempts per request, so that a request that crashes the server is not repeated forever.
const ATTEMPTS_MAX: u32 = 8;

/// The operation of a request, with its results so far.
#[derive(Debug)]
pub(super) enum PendingWork {
    Read(Reading),
    Write(List),
    Flush,
    Trim,
    Zero,
    Status(Vec<StatusExtent>),
}

#[derive(Debug)]
pub(super) struct Pending {
    caller: Caller,
    pub(super) offset: u64,
    pub(super) length: u64,
    flags: Flags,
    pub(super) work: PendingWork,
    done: u64,
    /// Length of the current step in bytes.
    step: u64,
    /// Only a final flush is missing, because the server does not support FUA.
    flushes: bool,
    attempts: u32,
    pub(super) error: Option<Error>,
    pub(super) errors: u32,
    /// Cookie of the current step while it is in flight.
    pub(super) cookie: Option<u64>,
    pub(super) link: usize,
    /// For a flush in flight: the number of acknowledged changes that it covers.
    pub(super) covers: u64,
}

pub(super) enum Next {
    Send(RequestHeader, List),
    Complete(Result<Outcome, Error>),
}

impl Pending {
    pub(super) fn new(request: Request) -> Self {
        let (offset, length) = (request.offset, request.length());
        let Request { op, flags, caller, .. } = request;
        let work = match op {
            Op::Read { length } => PendingWork::Read(Reading::new(length as usize)),
            Op::ReadInto { buffer } => PendingWork::Read(Reading::into_buffer(buffer)),
            Op::Write { data } => PendingWork::Write(data),
            Op::Flush => PendingWork::Flush,
            Op::Trim { .. } => PendingWork::Trim,
            Op::Zero { .. } => PendingWork::Zero,
            Op::Status { .. } => PendingWork::Status(Vec::new()),
        };
        Self {
            caller,
            offset,
            length,
            flags,
            work,
            done: 0,
            step: 0,
            flushes: false,
            attempts: 0,
            error: None,
            errors: 0,
            cookie: None,
            link: 0,
            covers: 0,
        }
    }

    /// Returns whether the request makes changes that a flush must cover; with FUA they are already durable.
    pub(super) fn leaves_unflushed(&self) -> bool {
        matches!(self.work, PendingWork::Write(_) | PendingWork::Trim | PendingWork::Zero) && !self.flags.fua
    }

    pub(super) fn is_flush(&self) -> bool {
        self.flushes || matches!(self.work, PendingWork::Flush)
    }

    /// Returns the next step, depending on the negotiated features. `cookie` identifies it to the server.
    pub(super) fn next(&mut self, agreed: &Agreed, cookie: u64) -> Next {
        let can = |flag| agreed.info.flags.contains(flag);
        type Can = TransmissionFlags;
        if self.length == 0 && !matches!(self.work, PendingWork::Flush) {
            return Next::Complete(Ok(self.nothing()));
        }
        self.attempts += 1;
        if self.attempts > ATTEMPTS_MAX {
            let why = "the connection to the server ends whenever this request is sent";
            return Next::Complete(Err(Error::Failed(why.into())));
        }
        let left = self.length - self.done;
        let most = if agreed.style == HeaderStyle::Extended { u64::MAX } else { STEP_MAX };
        let mut flags = CommandFlags::default().with(CommandFlags::FUA, self.flags.fua && can(Can::SEND_FUA));
        let mut payload = List::new();
        let (command, step) = match &self.work {
            _ if self.flushes => (RequestType::Flush, 0),
            PendingWork::Read(_) => (RequestType::Read, left),
            PendingWork::Write(data) => {
                payload = data.clone();
                (RequestType::Write, left)
            }
            PendingWork::Flush if !can(Can::SEND_FLUSH) => return Next::Complete(Ok(Outcome::Done)),
            PendingWork::Flush => (RequestType::Flush, 0),
            // Trims are only hints.
            PendingWork::Trim if !can(Can::SEND_TRIM) => return Next::Complete(Ok(Outcome::Done)),
            PendingWork::Trim => (RequestType::Trim, left.min(most)),
            PendingWork::Zero if self.flags.fast && !can(Can::SEND_FAST_ZERO) => {
                return Next::Complete(Err(Error::Unsupported("make zeros faster than it writes them")));
            }
            PendingWork::Zero if !can(Can::SEND_WRITE_ZEROES) => {
                let step = left.min(ZEROS_AT_A_TIME).min(agreed.sizes.payload_max.into());
                payload = zeros(step);
                (RequestType::Write, step)
            }
            PendingWork::Zero => {
                flags = flags
                    .with(CommandFlags::NO_HOLE, self.flags.no_hole)
                    .with(CommandFlags::FAST_ZERO, self.flags.fast);
                (RequestType::WriteZeroes, left.min(most))
            }
            PendingWork::Status(_) if agreed.context.is_none() => {
                let unknown = StatusExtent { length: self.length, status: BlockStatus::DATA };
                return Next::Complete(Ok(Outcome::Status(vec![unknown])));
            }
            PendingWork::Status(_) => (RequestType::BlockStatus, left.min(most)),
        };
        if command == RequestType::Flush {
            flags = CommandFlags::default();
        }
        if agreed.style == HeaderStyle::Extended {
            flags = flags.with(CommandFlags::PAYLOAD_LEN, command == RequestType::Write);
        }
        (self.step, self.cookie, self.errors) = (step, Some(cookie), 0);
        let offset = if command == RequestType::Flush { 0 } else { self.offset + self.done };
        Next::Send(RequestHeader { flags, command, cookie, offset, length: step }, payload)
    }

    pub(super) fn step(&self) -> u64 {
        self.step
    }

    pub(super) fn step_done(&mut self, agreed: &Agreed) -> bool {
        (self.cookie, self.attempts) = (None, 0);
        if self.error.is_some() || self.flushes {
            return false;
        }
        match self.work {
            PendingWork::Read(_) | PendingWork::Flush | PendingWork::Status(_) => false,
            PendingWork::Write(_) | PendingWork::Trim | PendingWork::Zero => {
                self.done += self.step;
                let can = |flag| agreed.info.flags.contains(flag);
                let all = self.done >= self.length;
                self.flushes = all
                    && self.flags.fua
                    && !can(TransmissionFlags::SEND_FUA)
                    && can(TransmissionFlags::SEND_FLUSH);
                !all || self.flushes
            }
        }
    }

    /// Resets the current step after its connection has ended.
    pub(super) fn restart(&mut self) {
        (self.cookie, self.error) = (None, None);
        match &mut self.work {
            PendingWork::Read(reading) => reading.restart(),
            PendingWork::Status(extents) => extents.clear(),
            _ => {}
        }
    }

    fn nothing(&mut self) -> Outcome {
        match std::mem::replace(&mut self.work, PendingWork::Flush) {
            PendingWork::Read(reading) => reading.finish().unwrap_or(Outcome::Data(List::new())),
            PendingWork::Status(extents) => Outcome::Status(extents),
            PendingWork::Write(_) | PendingWork::Flush | PendingWork::Trim | PendingWork::Zero => {
                Outcome::Done
            }
        }
    }

    pub(super) fn complete(self, now: Time, result: Result<Outcome, Error>) {
        self.caller.complete(now, result);
    }
}

pub(super) fn error_of(number: u32, message: &str) -> Error {
    let code = ErrorCode::of(number);
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    match code {
        ErrorCode::Permission => Error::NotPermitted(format!("by the server{said}")),
        ErrorCode::NoSpace => Error::NoSpace(format!("on the server{said}")),
        ErrorCode::NotSupported => Error::Unsupported("make zeros faster than it writes them"),
        ErrorCode::Shutdown => Error::Failed(format!("the server is shutting down{said}")),
        ErrorCode::Io => Error::Failed(format!("I/O error on the server{said}")),
        ErrorCode::NoMemory => Error::Failed(format!("the server is out of memory{said}")),
        ErrorCode::Invalid | ErrorCode::Overflow => {
            Error::Failed(format!("the server refuses the request (error {number}){said}"))
        }
    }
}
