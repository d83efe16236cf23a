use super::error::Error;
use futures_channel::oneshot;
use onego_buf::SegmentMut;
use onego_ceph::client;
use onego_rbd::Outcome;
use std::collections::VecDeque;

pub(crate) enum ReplyTo {
    Future(oneshot::Sender<Result<Outcome, Error>>),
    Tag(u64),
    Function(Box<dyn FnOnce(Result<Outcome, Error>) + Send>),
}

impl ReplyTo {
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, Self::Future(done) if done.is_canceled())
    }
}

/// Delivers a result to its destination. `completed` is the completion queue of the reactor.
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

pub(crate) const OTHER_KIND: client::Error = client::Error::Mismatch("it is of another kind");

pub(crate) type RequestOutcome = (Result<client::Outcome, client::Error>, Option<SegmentMut>);

/// A completed tagged request to an image.
#[derive(Debug)]
pub struct Completed {
    /// Tag chosen by the caller.
    pub tag: u64,
    /// Result of the request.
    pub result: Result<Outcome, Error>,
}
