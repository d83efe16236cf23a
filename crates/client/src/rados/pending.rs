//! Answers that are waited for. A caller that stops waiting takes back what it asked for.

use super::cluster::Cluster;
use crate::ceph::core::RequestOutcome;
use crate::ceph::error::Error;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::WatchId;
use onego_ceph::osdmap::OsdMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What an answer turns out to be that came when nobody waited any more.
pub(crate) trait Answer {
    /// The watch that it established, if it did.
    fn watch(&self) -> Option<WatchId> {
        None
    }
}

impl Answer for RequestOutcome {}

impl Answer for Result<(), Error> {}

impl Answer for Result<List, Error> {}

impl Answer for Result<SegmentMut, Error> {}

impl Answer for Result<Arc<OsdMap>, Error> {}

impl Answer for Result<WatchId, Error> {
    fn watch(&self) -> Option<WatchId> {
        self.as_ref().ok().copied()
    }
}

/// An answer under way. Dropping it before the answer is here cancels what was asked for.
pub(crate) struct Pending<'a, T: Answer> {
    cluster: &'a Cluster,
    answer: oneshot::Receiver<T>,
    has_ended: bool,
}

impl<T: Answer> Future for Pending<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        self.has_ended = answer.is_ready();
        answer.map_err(|_| Error::Closed)
    }
}

impl<T: Answer> Drop for Pending<'_, T> {
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
    pub(crate) fn answer<T: Answer>(&self, answer: oneshot::Receiver<T>) -> Pending<'_, T> {
        Pending { cluster: self, answer, has_ended: false }
    }
}
