//! Changes of images with an exclusive lock: the lock's owner alone makes them. This client becomes the owner if the other one
//! lets go of the lock; an owner that keeps it is asked to make the change.

mod remote;
mod serve;

pub(super) use serve::ImageOperator;

use super::details::{Header, ImageDetails};
use super::image::Image;
use crate::ceph::error::Error;
use onego_ceph::rbd::Features;
use onego_rbd::notify::{AsyncRequestId, Operation};

impl Header {
    /// Does something that changes the image, as its owner. `body` is given what the image is from then on: the owner of before
    /// may have changed it last.
    pub(super) async fn owned<T>(
        &self,
        body: impl AsyncFnOnce(&ImageDetails) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let details = self.details().await?;
        match self.take_over(&details).await? {
            Taken::Free => body(&details).await,
            Taken::Owned(image) => self.as_owner(image, body).await,
            Taken::Refused(error) => Err(error),
        }
    }

    /// The same, or, where another client keeps the lock, has that one carry out `operation`.
    pub(super) async fn owned_or_asked(
        &self,
        operation: impl FnOnce(AsyncRequestId) -> Operation,
        mut progress: impl FnMut(u64, u64),
        body: impl AsyncFnOnce(&ImageDetails, &mut dyn FnMut(u64, u64)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let details = self.details().await?;
        match self.take_over(&details).await? {
            Taken::Free => body(&details, &mut progress).await,
            Taken::Owned(image) => {
                self.as_owner(image, async |details| body(details, &mut progress).await).await
            }
            Taken::Refused(_) => self.ask_owner(operation, &mut progress).await,
        }
    }

    async fn take_over(&self, details: &ImageDetails) -> Result<Taken, Error> {
        if !details.info.features.contains(Features::EXCLUSIVE_LOCK) {
            return Ok(Taken::Free);
        }
        let image = Image::open_bare(&self.pool, details.info.clone()).await?;
        match image.lock().await {
            Ok(()) => Ok(Taken::Owned(image)),
            Err(error) => {
                // The first error is the one to tell.
                let _ = image.close().await;
                match error {
                    Error::Image(onego_rbd::Error::LockRefused { .. }) => Ok(Taken::Refused(error)),
                    error => Err(error),
                }
            }
        }
    }

    async fn as_owner<T>(
        &self,
        image: Image,
        body: impl AsyncFnOnce(&ImageDetails) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = match self.details().await {
            Ok(details) => body(&details).await,
            Err(error) => Err(error),
        };
        // Others wait for the lock, also where something failed. The first error is the one to tell.
        let closed = image.close().await;
        result.and_then(|value| closed.map(|()| value))
    }
}

/// What came of the wish to own an image.
enum Taken {
    /// It has no exclusive lock.
    Free,
    /// This client owns it as long as it is open.
    Owned(Image),
    /// Another client keeps the lock.
    Refused(Error),
}
