//! Work that waits to be sent, and its scheduling.

use super::inbound::{Read, Response};
use crate::memory::Remote;
use crate::verbs::{CompletedWork, Completion, SendFlags, Status};
use onego_buf::List;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) enum Work {
    /// A message, of which `offset` bytes are sent.
    Send {
        id: u64,
        bytes: List,
        offset: u32,
        flags: SendFlags,
    },
    /// The rest of a write, and its destination.
    Write {
        id: u64,
        bytes: List,
        to: Remote,
        begun: bool,
    },
    Read(Read),
}

impl Work {
    fn flushed(self) -> Option<Completion> {
        let status = Status::Flushed;
        match self {
            Self::Send { id, .. } => Some(Completion { id, status, done: CompletedWork::Sent }),
            Self::Write { id, .. } => Some(Completion { id, status, done: CompletedWork::Written }),
            Self::Read(read) => read.flushed(),
        }
    }
}

/// Bytes of posted work or of responses before the other gets its turn. A reading peer gets many segments of a response
/// in a row, and can receive them together; a message waits no longer than that takes.
const QUANTUM: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Turn {
    WaitingRead,
    #[default]
    Posted,
    Response,
}

#[derive(Debug, Default)]
pub(super) struct Works {
    pub(super) posted: VecDeque<Work>,
    /// Posted reads beyond the peer's limit. Other work overtakes them.
    pub(super) waiting: VecDeque<Read>,
    pub(super) responses: VecDeque<Response>,
    /// The last turn, and the bytes sent in it.
    turn: Turn,
    sent: usize,
}

impl Works {
    /// Selects the next work; `read`: the peer allows another read.
    ///
    /// A message is sent in full before the next posted work. Posted work and responses alternate in turns of
    /// [`QUANTUM`] bytes, so that neither waits for long. Sends and read requests may go between the segments of a
    /// response, but writes may not: siw, and perhaps others, do not accept interleaved segments of two tagged
    /// messages.
    pub(super) fn next(&mut self, read: bool) -> Option<Turn> {
        if read && !self.waiting.is_empty() {
            return Some(Turn::WaitingRead);
        }
        if !read {
            while let Some(Work::Read(_)) = self.posted.front() {
                let Some(Work::Read(read)) = self.posted.pop_front() else { break };
                self.waiting.push_back(read);
            }
        }
        let turn = match (self.posted.front(), self.responses.front()) {
            (None, None) => return None,
            (Some(_), None) => Turn::Posted,
            (None, Some(_)) => Turn::Response,
            (Some(Work::Send { offset: 1.., .. } | Work::Write { begun: true, .. }), _) => Turn::Posted,
            (Some(Work::Write { .. }), Some(Response { begun: true, .. })) => Turn::Response,
            _ if (self.turn == Turn::Response) == (self.sent < QUANTUM) => Turn::Response,
            _ => Turn::Posted,
        };
        if turn != self.turn {
            (self.turn, self.sent) = (turn, 0);
        }
        Some(turn)
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    pub(super) fn is_empty(&self, read: bool) -> bool {
        self.posted.iter().all(|work| !read && matches!(work, Work::Read(_)))
            && self.responses.is_empty()
            && (!read || self.waiting.is_empty())
    }

    pub(super) fn flush(&mut self, to: &mut VecDeque<Completion>) {
        self.responses.clear();
        to.extend(self.waiting.drain(..).filter_map(Read::flushed));
        to.extend(self.posted.drain(..).filter_map(Work::flushed));
    }
}
