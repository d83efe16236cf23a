//! Work that waits to be sent, and what of it is next.

use super::inbound::{Read, Response};
use crate::memory::Remote;
use crate::verbs::{CompletedWork, Completion, SendFlags, Status};
use onego_buf::List;
use std::collections::VecDeque;

/// Something that is posted.
#[derive(Debug)]
pub(super) enum Work {
    /// A message, of which `offset` bytes are sent.
    Send {
        id: u64,
        bytes: List,
        offset: u32,
        flags: SendFlags,
    },
    /// What is still to be written, and where.
    Write {
        id: u64,
        bytes: List,
        to: Remote,
        begun: bool,
    },
    Read(Read),
}

impl Work {
    /// How it ends with its connection.
    fn flushed(self) -> Option<Completion> {
        let status = Status::Flushed;
        match self {
            Self::Send { id, .. } => Some(Completion { id, status, done: CompletedWork::Sent }),
            Self::Write { id, .. } => Some(Completion { id, status, done: CompletedWork::Written }),
            Self::Read(read) => read.flushed(),
        }
    }
}

/// Bytes of what is posted, or of answers, before it is the turn of the other. A peer that reads is sent many segments of an
/// answer in a row, and can receive them so; a message waits no longer than that takes.
const QUANTUM: usize = 256 << 10;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Turn {
    /// A read that waited for an earlier one to be answered.
    WaitingRead,
    /// What is posted.
    #[default]
    Posted,
    /// The answer to a read of the peer.
    Response,
}

/// All that waits to be sent on a connection.
#[derive(Debug, Default)]
pub(super) struct Works {
    pub(super) posted: VecDeque<Work>,
    /// Reads that are posted, beyond those that the peer allows at a time. Others pass them.
    pub(super) waiting: VecDeque<Read>,
    pub(super) responses: VecDeque<Response>,
    /// Whose turn it was last, and how many bytes were sent in it.
    turn: Turn,
    sent: usize,
}

impl Works {
    /// What is next, if the peer allows one more read (`read`).
    ///
    /// A message is sent whole before the next one that is posted. What is posted and responses take turns of
    /// [`QUANTUM`] bytes, so that neither waits for long. Sends and read requests may go between the segments of a
    /// response, but no writes: siw, and perhaps others, take no segments of two tagged messages in turns.
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

    /// `bytes` bytes of what was next are sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Is there something to send?
    pub(super) fn is_empty(&self, read: bool) -> bool {
        self.posted.iter().all(|work| !read && matches!(work, Work::Read(_)))
            && self.responses.is_empty()
            && (!read || self.waiting.is_empty())
    }

    /// Gives everything back.
    pub(super) fn flush(&mut self, to: &mut VecDeque<Completion>) {
        self.responses.clear();
        to.extend(self.waiting.drain(..).filter_map(Read::flushed));
        to.extend(self.posted.drain(..).filter_map(Work::flushed));
    }
}
