//! Where the results of requests go.

use super::error::Error;
use futures_channel::oneshot;
use onego_buf::SegmentMut;
use onego_ceph::client;

/// What a tagged request to an image gave.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The caller's buffer, filled.
    Buffer(SegmentMut),
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
