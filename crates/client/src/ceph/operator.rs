//! What an open image has done that needs more than its machine.

use super::error::Error;
use super::image_key::ImageKey;
use onego_rbd::notify::Operation;
use onego_rbd::{Copied, ImageView, Migration};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// An image that is being opened, or that is open.
pub(crate) struct OpenedImage {
    pub(crate) key: ImageKey,
    pub(crate) view: Arc<ImageView>,
}

/// What an image that is watched has beside others.
#[derive(Default)]
pub(crate) struct Watched {
    /// Does what needs more than the machine of the image.
    pub(crate) operator: Option<Box<dyn Operator>>,
    /// It is being moved here.
    pub(crate) migration: Option<Migration>,
}

/// Work under way.
pub(crate) type JobFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

/// Begins work for an image. It goes on on the reactor.
pub(crate) trait Operator: Send {
    /// Carries out an operation that another client asks for.
    fn operate(
        &self,
        image: OpenedImage,
        number: u32,
        operation: Operation,
        progress: OperationProgress,
    ) -> JobFuture<()>;

    /// Copies an object of an image that is being moved here; see [`onego_rbd::Host::copy_object`].
    fn copy_object(&self, object: u64, is_whole: bool, snaps: &[u64]) -> JobFuture<Copied>;
}

/// How far an operation is: (done, all), in whatever it counts.
#[derive(Clone, Default)]
pub(crate) struct OperationProgress(Arc<Mutex<Option<(u64, u64)>>>);

impl OperationProgress {
    pub(crate) fn set(&self, done: u64, all: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, all));
    }

    /// How far it is, if that has changed.
    pub(super) fn take(&self) -> Option<(u64, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
