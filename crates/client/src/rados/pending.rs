//! What becomes of an answer that comes when nobody waits for it any more.

use super::cluster::Cluster;
use crate::ceph::done::RequestOutcome;
use crate::ceph::error::Error;
use crate::pending::{Asker, Pending};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::WatchId;
use onego_ceph::osdmap::OsdMap;
use std::sync::Arc;

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

impl<T: Answer> Asker<T> for Cluster {
    fn abandoned(&self, late: Option<T>) {
        match late.and_then(|late| late.watch()) {
            Some(watch) => self.unwatch(watch),
            None => self.sweep(),
        }
    }
}

impl Cluster {
    /// Waits for an answer of the reactor.
    pub(crate) fn answer<T: Answer>(&self, answer: oneshot::Receiver<T>) -> Pending<'_, T, Self> {
        Pending::new(self, answer)
    }
}
