//! Queue of work requests, posted in order as the queue pair has room.

use onego_buf::{List, SegmentMut};
use onego_rdma::{CompletedWork, PostError, QueuePair, Refused, Remote, SendFlags};
use std::collections::VecDeque;

#[derive(Debug)]
enum Work {
    Send(List, SendFlags),
    Write(List, Remote),
    Read(SegmentMut, Remote),
}

#[derive(Debug, Default)]
pub(super) struct Works {
    waiting: VecDeque<Work>,
    /// Sizes of posted sends and writes, which complete in order.
    posted: VecDeque<usize>,
    /// Total bytes of sends and writes that have not completed.
    unsent: usize,
    messages: usize,
    /// Work was permanently rejected: unsent data is lost, and the connection must be closed.
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

    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    /// Posts work while the queue pair has room. Drops it if the connection has ended.
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

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn done(&mut self, done: &CompletedWork) {
        if matches!(done, CompletedWork::Sent | CompletedWork::Written) {
            self.unsent -= self.posted.pop_front().unwrap_or_default();
            self.messages -= usize::from(matches!(done, CompletedWork::Sent));
        }
    }
}
