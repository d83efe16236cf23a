//! Work for a queue pair, in its order, with as much posted as the queue pair takes.

use onego_buf::{List, SegmentMut};
use onego_rdma::{CompletedWork, PostError, QueuePair, Refused, Remote, SendFlags};
use std::collections::VecDeque;

#[derive(Debug)]
enum Work {
    Send(List, SendFlags),
    Write(List, Remote),
    Read(SegmentMut, Remote),
}

/// What is to be posted, and what is posted.
#[derive(Debug, Default)]
pub(super) struct Works {
    waiting: VecDeque<Work>,
    /// Bytes of sends and writes that are posted, which complete in their order.
    posted: VecDeque<usize>,
    /// Bytes of sends and writes that are not with the transport yet.
    unsent: usize,
    /// Sends that are not.
    messages: usize,
    /// Something was refused for good: what was to be sent is lost, and the connection has to end.
    failed: Option<PostError>,
}

impl Works {
    pub(super) fn send(&mut self, bytes: List, flags: SendFlags) {
        self.unsent += bytes.len();
        self.messages += 1;
        self.waiting.push_back(Work::Send(bytes, flags));
    }

    pub(super) fn write(&mut self, bytes: List, to: Remote) {
        self.unsent += bytes.len();
        self.waiting.push_back(Work::Write(bytes, to));
    }

    pub(super) fn read(&mut self, sink: SegmentMut, from: Remote) {
        self.waiting.push_back(Work::Read(sink, from));
    }

    /// Bytes that are not with the transport yet.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Messages that are not.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Posts what the queue pair takes. What a connection that is over does not take is dropped.
    pub(super) fn post(&mut self, queue_pair: &mut impl QueuePair) -> Result<(), PostError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while let Some(work) = self.waiting.pop_front() {
            let refused = match work {
                Work::Send(bytes, flags) => {
                    self.posted.push_back(bytes.len());
                    let posted = queue_pair.post_send(0, bytes, flags);
                    posted.map_err(|Refused { error, given }| (error, Work::Send(given, flags)))
                }
                Work::Write(bytes, to) => {
                    self.posted.push_back(bytes.len());
                    let posted = queue_pair.post_write(0, bytes, to);
                    posted.map_err(|Refused { error, given }| (error, Work::Write(given, to)))
                }
                Work::Read(sink, from) => {
                    let posted = queue_pair.post_read(0, sink, from);
                    posted.map_err(|Refused { error, given }| (error, Work::Read(given, from)))
                }
            };
            let Err((error, work)) = refused else { continue };
            if !matches!(work, Work::Read(..)) {
                self.posted.pop_back();
            }
            match error {
                PostError::QueueFull { .. } => self.waiting.push_front(work),
                PostError::Over => self.waiting.clear(),
                error => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
            break;
        }
        Ok(())
    }

    /// Was something refused for good? [`post`](Self::post) says what.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A send or a write is done.
    pub(super) fn done(&mut self, done: &CompletedWork) {
        if matches!(done, CompletedWork::Sent | CompletedWork::Written) {
            self.unsent -= self.posted.pop_front().unwrap_or_default();
            self.messages -= usize::from(matches!(done, CompletedWork::Sent));
        }
    }
}
