//! Work in the device's hands, and its memory.

use crate::memory::Regions;
use onego_buf::{List, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Status};
use std::collections::VecDeque;

/// Posted work. Its memory is the device's until it is complete.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: u64,
    pub(crate) kind: WorkKind,
    /// Registrations for this work, released when it is complete.
    pub(crate) regions: Regions,
}

/// Kinds of work, with the memory that the device reads or writes.
#[derive(Debug)]
pub(crate) enum WorkKind {
    Send(#[expect(dead_code, reason = "the device reads it")] List),
    Write(#[expect(dead_code, reason = "the device reads it")] List),
    Read(SegmentMut),
    Receive(SegmentMut),
}

impl WorkKind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Send(_) => "a send",
            Self::Write(_) => "an RDMA Write",
            Self::Read(_) => "an RDMA Read",
            Self::Receive(_) => "a receive",
        }
    }
}

impl Work {
    /// Completes the work; `len` is the length of a message.
    pub(crate) fn end(self, status: Status, len: usize) -> Completion {
        // The device no longer uses the memory.
        drop(self.regions);
        let done = match self.kind {
            WorkKind::Send(_) => CompletedWork::Sent,
            WorkKind::Write(_) => CompletedWork::Written,
            WorkKind::Read(sink) => CompletedWork::Read(sink),
            WorkKind::Receive(buffer) => {
                let len = if status == Status::Success { len.min(buffer.len()) } else { 0 };
                CompletedWork::Received { buffer, len, solicited: false, invalidated: None }
            }
        };
        Completion { id: self.id, status, done }
    }
}

/// Work that completes in order.
///
/// A device has two queues, but does not order an RDMA Read and later work of the same queue: siw completes a send once
/// it is in flight, and a Read once its response has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Sends,
    Reads,
    Receives,
}

impl Line {
    /// Bits of a work request id that encode the line.
    const BITS: u32 = 2;

    /// Returns the work request id for the work with this number.
    pub(crate) fn name(self, number: u64) -> u64 {
        number << Self::BITS | self as u64
    }

    pub(crate) fn of(name: u64) -> (Self, u64) {
        let line = match name & ((1 << Self::BITS) - 1) {
            0 => Self::Sends,
            1 => Self::Reads,
            _ => Self::Receives,
        };
        (line, name >> Self::BITS)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    works: VecDeque<Work>,
    /// Number of the first work in `works`.
    first: u64,
}

impl Queue {
    pub(crate) fn next(&self) -> u64 {
        self.first + self.works.len() as u64
    }

    pub(crate) fn push(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Takes the work with that number, which must be the first.
    pub(crate) fn complete(&mut self, number: u64) -> Option<Work> {
        if number != self.first {
            return None;
        }
        let work = self.works.pop_front()?;
        self.first += 1;
        Some(work)
    }

    pub(crate) fn take(&mut self) -> VecDeque<Work> {
        self.first = self.next();
        std::mem::take(&mut self.works)
    }
}
