use super::error::Error;
use super::image_key::ImageKey;
use onego_rbd::notify::Operation;
use onego_rbd::{Copied, ImageView, Migration};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct OpenedImage {
    pub(crate) key: ImageKey,
    pub(crate) view: Arc<ImageView>,
}

#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) operator: Option<Box<dyn Operator>>,
    pub(crate) migration: Option<Migration>,
}

pub(crate) type JobFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

pub(crate) trait Operator: Send {
    fn operate(
        &self,
        image: OpenedImage,
        number: u32,
        operation: Operation,
        progress: OperationProgress,
    ) -> JobFuture<()>;

    /// Copies an object of an image that is being migrated here; see [`onego_rbd::Host::copy_object`].
    fn copy_object(&self, object: u64, is_whole: bool, snaps: &[u64]) -> JobFuture<Copied>;
}

/// Progress of an operation: (done, total) in its own unit.
#[derive(Clone, Default)]
pub(crate) struct OperationProgress(Arc<Mutex<Option<(u64, u64)>>>);

impl OperationProgress {
    pub(crate) fn set(&self, done: u64, all: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, all));
    }

    /// Returns the progress if it has changed since the last call.
    pub(super) fn take(&self) -> Option<(u64, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
