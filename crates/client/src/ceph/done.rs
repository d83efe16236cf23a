//! Where the results of requests go.

use super::error::Error;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client;

/// A run of an image's bytes: do objects hold them?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes.
    pub length: u64,
    /// Objects hold them. If not, they read as zeros.
    pub is_there: bool,
}

/// What a tagged request to an image gave.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done.
    Done,
    /// The caller's buffer, filled.
    Buffer(SegmentMut),
    /// The bytes of a read without a buffer.
    Data(List),
    /// Which bytes objects hold.
    Allocated(Vec<Allocated>),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl From<SegmentMut> for Outcome {
    fn from(buffer: SegmentMut) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<List> for Outcome {
    fn from(data: List) -> Self {
        Self::Data(data)
    }
}

impl From<Vec<Allocated>> for Outcome {
    fn from(runs: Vec<Allocated>) -> Self {
        Self::Allocated(runs)
    }
}

/// Where the result of a request to an image goes.
#[derive(Debug)]
pub(crate) enum ReplyTo<T> {
    /// To a future.
    Future(oneshot::Sender<Result<T, Error>>),
    /// To the completions of the reactor.
    Tag(u64),
}

impl<T> ReplyTo<T> {
    /// Does nobody wait for it any more?
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Future(done) if done.is_canceled())
    }
}

/// What is wrong with a completion that does not fit its request.
pub(crate) const OTHER_KIND: client::Error = client::Error::Mismatch("it is of another kind");

/// What came of a plain request, with the buffer that it was given.
pub(crate) type RequestOutcome = (Result<client::Outcome, client::Error>, Option<SegmentMut>);

/// A tagged request to an image that is done with.
#[derive(Debug)]
pub struct Completed {
    /// The caller's name for the request.
    pub tag: u64,
    /// What came of it.
    pub result: Result<Outcome, Error>,
}
