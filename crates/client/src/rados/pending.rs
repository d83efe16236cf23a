//! Answers that are waited for. Whoever stops waiting takes back what was asked for.

use super::Cluster;
use crate::Error;
use crate::core::{Outcome, RequestOutcome};
use futures_channel::oneshot;
use onego_ceph::client::WatchId;

/// What an answer turns out to be that came when nobody waited any more.
trait Unwanted {
    /// The watch that it established, if it did.
    fn watch(&self) -> Option<WatchId> {
        None
    }
}

impl Unwanted for RequestOutcome {}

impl Unwanted for Result<Outcome, Error> {}

impl Unwanted for Result<WatchId, Error> {
    fn watch(&self) -> Option<WatchId> {
        self.as_ref().ok().copied()
    }
}

/// An answer under way. Dropping it before the answer is here cancels what was asked for.
struct Pending<'a, T: Unwanted> {
    cluster: &'a Cluster,
    answer: oneshot::Receiver<T>,
    has_ended: bool,
}

impl<T: Unwanted> Drop for Pending<'_, T> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.answer.close();
        let late = self.answer.try_recv().ok().flatten();
        match late.and_then(|late| late.watch()) {
            Some(watch) => self.cluster.unwatch(watch),
            None => self.cluster.sweep(),
        }
    }
}

impl Cluster {
    /// Waits for an answer of the reactor.
    #[expect(private_bounds, reason = "the kinds of answers are listed here")]
    pub(crate) async fn answer<T: Unwanted>(&self, answer: oneshot::Receiver<T>) -> Result<T, Error> {
        let mut pending = Pending { cluster: self, answer, has_ended: false };
        let answer = (&mut pending.answer).await;
        pending.has_ended = true;
        answer.map_err(|_| Error::Closed)
    }
}
