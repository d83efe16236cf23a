//! Cleanup of answers that arrive after their caller stopped waiting.

use super::cluster::Cluster;
use crate::ceph::commands::SessionInfo;
use crate::ceph::done::RequestOutcome;
use crate::ceph::error::Error;
use crate::ceph::image_key::ImageKey;
use crate::ceph::operator::OpenedImage;
use crate::pending::{Asker, Pending};
use futures_channel::oneshot;
use onego_ceph::client::WatchId;
use onego_ceph::osdmap::OsdMap;
use onego_rbd::Outcome;
use std::sync::Arc;

/// An answer that may carry a resource to release if nothing waits for it.
pub(crate) trait Answer {
    fn watch(&self) -> Option<WatchId> {
        None
    }

    fn image(&self) -> Option<ImageKey> {
        None
    }
}

impl Answer for RequestOutcome {}

impl Answer for SessionInfo {}

impl Answer for Option<std::time::Duration> {}

impl Answer for Result<Outcome, Error> {}

impl Answer for OpenedImage {
    fn image(&self) -> Option<ImageKey> {
        Some(self.key)
    }
}

impl Answer for Result<Arc<OsdMap>, Error> {}

impl Answer for Result<WatchId, Error> {
    fn watch(&self) -> Option<WatchId> {
        self.as_ref().ok().copied()
    }
}

impl<T: Answer> Asker<T> for Cluster {
    fn abandoned(&self, late: Option<T>) {
        match (late.as_ref().and_then(T::watch), late.as_ref().and_then(T::image)) {
            (Some(watch), _) => self.unwatch(watch),
            (None, Some(image)) => self.close_image(image, None),
            (None, None) => self.sweep(),
        }
    }
}

impl Cluster {
    pub(crate) fn answer<T: Answer>(&self, answer: oneshot::Receiver<T>) -> Pending<'_, T, Self> {
        Pending::new(self, answer)
    }
}
