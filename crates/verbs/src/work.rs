//! Work that the device has, and the memory that it holds.

use crate::memory::Regions;
use onego_buf::{List, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Status};
use std::collections::VecDeque;

/// Work that is posted. Its memory is the device's until it is complete.
#[derive(Debug)]
pub(crate) struct Work {
    /// The caller's name for it.
    pub(crate) id: u64,
    pub(crate) kind: WorkKind,
    /// What is registered for it alone, until it is complete.
    pub(crate) regions: Regions,
}

/// Kinds of work, with what the device reads or writes for it.
#[derive(Debug)]
pub(crate) enum WorkKind {
    Send(#[expect(dead_code, reason = "the device reads it")] List),
    Write(#[expect(dead_code, reason = "the device reads it")] List),
    Read(SegmentMut),
    Receive(SegmentMut),
}

impl WorkKind {
    /// What it is called in messages for people.
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
    /// It is complete; `len` are the bytes of a message.
    pub(crate) fn end(self, status: Status, len: usize) -> Completion {
        // Nobody but their owner uses the memory any more.
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

/// Work that completes in its order.
///
/// A device has two queues, but there is no order between an RDMA Read and what was posted after it to the same queue: siw
/// completes a send once it is on its way, and a Read once it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Sends and RDMA Writes.
    Sends,
    Reads,
    Receives,
}

impl Line {
    /// Bits of a device's name for work that say what it is.
    const BITS: u32 = 2;

    /// The device's name for work: which it is, and where.
    pub(crate) fn name(self, number: u64) -> u64 {
        number << Self::BITS | self as u64
    }

    /// What a device means by its name.
    pub(crate) fn of(name: u64) -> (Self, u64) {
        let line = match name & ((1 << Self::BITS) - 1) {
            0 => Self::Sends,
            1 => Self::Reads,
            _ => Self::Receives,
        };
        (line, name >> Self::BITS)
    }
}

/// The work of a line that the device has.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    works: VecDeque<Work>,
    /// The number of the first of them: they are counted.
    first: u64,
}

impl Queue {
    /// The number of the work that is pushed next.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.works.len() as u64
    }

    pub(crate) fn push(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Takes the work of that number, which is to be the first.
    pub(crate) fn complete(&mut self, number: u64) -> Option<Work> {
        if number != self.first {
            return None;
        }
        let work = self.works.pop_front()?;
        self.first += 1;
        Some(work)
    }

    /// Takes what is left.
    pub(crate) fn take(&mut self) -> VecDeque<Work> {
        self.first = self.next();
        std::mem::take(&mut self.works)
    }
}
