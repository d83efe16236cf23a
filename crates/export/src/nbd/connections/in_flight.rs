//! Requests that are at a device, whole or step by step.

use crate::nbd::exports::Served;
use crate::nbd::limits::STEPS;
use crate::operations::{ClientRequest, RequestKind};
use onego_block::{Completions, Error, Flags, Op, Outcome, Request, StatusExtent};
use onego_buf::List;
use onego_nbd::codec::{CommandFlags, RequestHeader, RequestType};
use onego_wire::{ConnId, Time};
use smallvec::SmallVec;
use std::rc::Rc;

/// A request of a client. A device gets it as one or more steps, each of at most as many bytes as the device does at a time.
pub(super) struct InFlight {
    pub(super) conn: ConnId,
    pub(super) export: Rc<Served>,
    pub(super) header: RequestHeader,
    /// What is counted of it.
    pub(super) asked: ClientRequest,
    /// Bytes that it counts for on its connection.
    pub(super) held: usize,
    work: Work,
    /// The next byte of the device that no step is about.
    at: u64,
    /// Steps that are at the device.
    out: u32,
    /// The first error.
    pub(super) error: Option<Error>,
    /// It waits for its turn to go on.
    pub(super) queued: bool,
}

/// What is left to do, and what has come of it.
enum Work {
    /// The data of each step.
    Read(SmallVec<[List; 1]>),
    /// What is still to be written.
    Write(List),
    Trim,
    Zero,
    Flush,
    Status(Vec<StatusExtent>),
}

/// What has come of a request.
pub(super) enum Gained {
    Nothing,
    Data(List),
    Status(Vec<StatusExtent>),
}

impl InFlight {
    /// A request for a device. `None`: there is nothing to do for it.
    pub(super) fn new(
        now: Time,
        conn: ConnId,
        export: Rc<Served>,
        header: RequestHeader,
        payload: List,
    ) -> Option<Self> {
        let (kind, work, held) = match header.command {
            RequestType::Read => (RequestKind::Read, Work::Read(SmallVec::new()), header.length as usize),
            RequestType::Write => {
                let bytes = payload.len();
                (RequestKind::Write, Work::Write(payload), bytes)
            }
            RequestType::Trim => (RequestKind::Trim, Work::Trim, 0),
            RequestType::WriteZeroes => (RequestKind::Zero, Work::Zero, 0),
            RequestType::Flush => (RequestKind::Flush, Work::Flush, 0),
            RequestType::BlockStatus => (RequestKind::Status, Work::Status(Vec::new()), 0),
            // Nothing is cached, and that is no error (nbd proto.md, 'Request types').
            RequestType::Cache | RequestType::Disconnect | RequestType::Unknown(_) => return None,
        };
        if header.length == 0 && header.command != RequestType::Flush {
            return None;
        }
        export.operations.begin();
        let at = header.offset;
        let asked = ClientRequest { kind, offset: at, bytes: held as u64, since: now };
        Some(Self { conn, export, header, asked, held, work, at, out: 0, error: None, queued: false })
    }

    fn end(&self) -> u64 {
        self.header.offset + self.header.length
    }

    /// Is there nothing at the device, and nothing left for it?
    pub(super) fn is_over(&self) -> bool {
        self.out == 0 && !self.has_more()
    }

    /// Nothing of it is at the device.
    pub(super) fn is_idle(&self) -> bool {
        self.out == 0
    }

    /// Is there a step to be started, sooner or later?
    pub(super) fn has_more(&self) -> bool {
        self.error.is_none() && self.at < self.end()
    }

    /// Starts the next step, unless enough are at the device. `key` names the request among the completions.
    pub(super) fn step(&mut self, key: usize, completions: &Completions) -> Option<Request> {
        let fast = self.header.flags.contains(CommandFlags::FAST_ZERO);
        // A device that cannot do it fast says so of the first step, before anything has changed.
        let most_out = if fast && self.at == self.header.offset { 1 } else { STEPS };
        let is_flush = matches!(self.work, Work::Flush);
        if self.out >= most_out || !(self.has_more() || is_flush && self.out == 0) {
            return None;
        }
        let offset = self.at;
        let length = self.step_len();
        self.at += length;
        self.out += 1;
        let mut index = 0;
        let op = match &mut self.work {
            Work::Read(parts) => {
                index = parts.len() as u64;
                parts.push(List::new());
                Op::Read { length }
            }
            Work::Write(rest) => Op::Write { data: rest.split_to(length as usize) },
            Work::Trim => Op::Trim { length },
            Work::Zero => Op::Zero { length },
            Work::Flush => Op::Flush,
            Work::Status(_) => Op::Status { length },
        };
        let changes = op.changes();
        let flag = |flag| changes && self.header.flags.contains(flag);
        let flags = Flags {
            fua: flag(CommandFlags::FUA),
            no_hole: flag(CommandFlags::NO_HOLE),
            fast: flag(CommandFlags::FAST_ZERO),
        };
        let tag = key as u64 | index << 32;
        Some(Request::new(completions.caller(tag), offset, op).with_flags(flags))
    }

    /// The request and the step that a completion is about.
    pub(super) fn names(tag: u64) -> (usize, usize) {
        (tag as u32 as usize, (tag >> 32) as usize)
    }

    /// Bytes of the next step.
    fn step_len(&self) -> u64 {
        let left = self.end() - self.at;
        if matches!(self.work, Work::Status(_) | Work::Flush) {
            return left;
        }
        let geometry = self.export.geometry();
        let most = geometry.whole_blocks(geometry.max_io).max(u64::from(geometry.block.max(1)));
        let keeps_space = self.header.flags.contains(CommandFlags::NO_HOLE);
        let most = match self.work {
            Work::Zero if keeps_space => most.max(geometry.whole_blocks(geometry.max_zero)),
            Work::Trim | Work::Zero => most.max(geometry.whole_blocks(geometry.max_hole)),
            _ => return left.min(most),
        };
        // Steps end where the device's objects end.
        left.min(most - self.at % most)
    }

    /// A step has completed.
    pub(super) fn completed(&mut self, index: usize, result: Result<Outcome, Error>) {
        self.out -= 1;
        match (&mut self.work, result) {
            (Work::Read(parts), Ok(Outcome::Data(data))) => {
                if let Some(part) = parts.get_mut(index) {
                    *part = data;
                }
            }
            (Work::Status(runs), Ok(Outcome::Status(status))) => *runs = status,
            // What is not known may be data.
            (Work::Status(_), Err(Error::Unsupported(_))) => {}
            (Work::Write(_) | Work::Trim | Work::Zero | Work::Flush, Ok(_)) => {}
            (Work::Read(_) | Work::Status(_), Ok(_)) => {
                self.fail(Error::Failed("the device gave what it was not asked for".into()));
            }
            (_, Err(error)) => self.fail(error),
        }
    }

    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// What has come of it, once it is over.
    pub(super) fn gained(&mut self) -> Result<Gained, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match &mut self.work {
            Work::Read(parts) => {
                let mut data = List::new();
                parts.drain(..).for_each(|part| match data.is_empty() {
                    true => data = part,
                    false => data.append(part),
                });
                match data.len() as u64 == self.header.length {
                    true => Ok(Gained::Data(data)),
                    false => Err(Error::Failed("the device gave less than it was asked for".into())),
                }
            }
            Work::Status(runs) => {
                let runs = std::mem::take(runs);
                let only_one = self.header.flags.contains(CommandFlags::REQ_ONE);
                Ok(Gained::Status(clipped(runs, self.header.length, only_one)))
            }
            Work::Write(_) | Work::Trim | Work::Zero | Work::Flush => Ok(Gained::Nothing),
        }
    }
}

/// Runs of at most `length` bytes together, at least one: bytes of which nothing is known may be data.
fn clipped(runs: Vec<StatusExtent>, length: u64, only_one: bool) -> Vec<StatusExtent> {
    let most = if only_one { 1 } else { StatusExtent::MOST };
    let mut left = length;
    let mut clipped = Vec::with_capacity(runs.len().min(most));
    for run in runs.into_iter().filter(|run| run.length > 0).take(most) {
        let length = run.length.min(left);
        if length == 0 {
            break;
        }
        left -= length;
        clipped.push(StatusExtent { length, ..run });
    }
    if clipped.is_empty() {
        clipped.push(StatusExtent { length, status: Default::default() });
    }
    clipped
}
