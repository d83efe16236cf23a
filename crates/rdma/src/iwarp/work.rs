//! Work that waits to be sent, and what of it is next.

use super::inbound::{Read, Response};
use crate::{Completion, Done, Remote, SendFlags, Status};
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
            Self::Send { id, .. } => Some(Completion { id, status, done: Done::Sent }),
            Self::Write { id, .. } => Some(Completion { id, status, done: Done::Written }),
            Self::Read(read) => read.flushed(),
        }
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A read that waited for an earlier one to be answered.
    WaitingRead,
    /// What is posted.
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
    /// Was the last thing sent a posted one?
    responses_turn: bool,
}

impl Works {
    /// What is next, if the peer allows one more read (`read`).
    ///
    /// A message is sent whole before the next one that is posted. Between the segments of a response go sends and
    /// read requests, a message a segment, so that neither waits for long; but no writes: siw, and perhaps others,
    /// take no segments of two tagged messages in turns. A write waits for the end of one response, then it is next.
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
            _ if self.responses_turn => Turn::Response,
            _ => Turn::Posted,
        };
        self.responses_turn = turn == Turn::Posted;
        Some(turn)
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
