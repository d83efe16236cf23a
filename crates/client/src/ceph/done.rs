//! Where the results of requests go.

use super::error::Error;
use futures_channel::oneshot;
use onego_buf::SegmentMut;
use onego_ceph::client;
use onego_rbd::Outcome;
use std::collections::VecDeque;

/// Where the result of a request to an image goes.
pub(crate) enum ReplyTo {
    /// To a future.
    Future(oneshot::Sender<Result<Outcome, Error>>),
    /// To the completions of the reactor.
    Tag(u64),
    /// To a function.
    Function(Box<dyn FnOnce(Result<Outcome, Error>) + Send>),
}

impl ReplyTo {
    /// Does nobody wait for it any more?
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Future(done) if done.is_canceled())
    }
}

/// Tells a result to whom it is for. `completed`: the completions of the reactor.
#[inline]
pub(super) fn tell(
    completed: &mut VecDeque<(u64, Result<Outcome, Error>)>,
    done: ReplyTo,
    result: Result<Outcome, Error>,
) {
    match done {
        // The caller may have stopped waiting.
        ReplyTo::Future(done) => drop(done.send(result)),
        ReplyTo::Tag(tag) => completed.push_back((tag, result)),
        ReplyTo::Function(done) => done(result),
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
