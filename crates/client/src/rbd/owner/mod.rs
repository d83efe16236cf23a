//! Changes of images with an exclusive lock: the lock's owner alone makes them. This client becomes the owner if the other one
//! lets go of the lock; an owner that keeps it is asked to make the change.

mod remote;
mod serve;

pub(super) use serve::ImageOperator;

use super::header::{Header, ImageDetails};
use super::image::Image;
use crate::ceph::error::{Errno, Error};
use onego_ceph::rbd::Features;
use onego_rbd::notify::{AsyncRequestId, Operation};

/// Owners that are asked one after the other.
const MAX_OWNERS: u32 = 16;

impl Header {
    /// Does something that changes the image, as its owner. `body` is given what the image is from then on: the owner of before
    /// may have changed it last.
    pub(super) async fn owned<T>(
        &self,
        body: impl AsyncFnOnce(&ImageDetails) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let details = self.details().await?;
        match self.take_over(&details).await? {
            Some(image) => self.as_owner(image, body).await,
            None => body(&details).await,
        }
    }

    /// The same, or, where another client keeps the lock, has that one carry out `operation`.
    pub(super) async fn owned_or_asked(
        &self,
        operation: impl Fn(AsyncRequestId) -> Operation,
        mut progress: impl FnMut(u64, u64),
        body: impl AsyncFn(&ImageDetails, &mut dyn FnMut(u64, u64)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let own = async |progress: &mut dyn FnMut(u64, u64)| {
            self.owned(async |details| body(details, progress).await).await
        };
        self.done_or_asked(operation, &mut progress, own).await
    }

    /// The same with an `own` that takes the lock itself. If an owner lets go of the lock before it is done, the next one does the
    /// work, which may be this client.
    pub(super) async fn done_or_asked(
        &self,
        operation: impl Fn(AsyncRequestId) -> Operation,
        mut progress: &mut dyn FnMut(u64, u64),
        own: impl AsyncFn(&mut dyn FnMut(u64, u64)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let busy = |reason| Err(Error::Busy { what: self.describe(), reason });
        for owners in 0..MAX_OWNERS {
            match own(progress).await {
                Err(Error::Image(onego_rbd::Error::LockRefused { .. })) => {}
                result => return result,
            }
            match self.ask_owner(&operation, &mut progress).await {
                Err(Error::Refused { errno: Errno::RESTART, .. }) => {}
                // What the owners before have done is not undone: this is no refusal that leaves everything as it was.
                Err(Error::Refused { errno: Errno::OPNOTSUPP, what }) if owners > 0 => {
                    return busy(format!(
                        "its lock changed hands before the work was done, and {what} refuses it"
                    ));
                }
                result => return result,
            }
        }
        busy(format!("each of {MAX_OWNERS} owners of its lock let go of it before the work was done"))
    }

    /// The image, which this client owns as long as it is open; `None`: it has no exclusive lock.
    async fn take_over(&self, details: &ImageDetails) -> Result<Option<Image>, Error> {
        if !details.info.features.contains(Features::EXCLUSIVE_LOCK) {
            return Ok(None);
        }
        let image = Image::open_bare(&self.pool, details.info.clone()).await?;
        if let Err(error) = image.lock().await {
            // The first error is the one to tell.
            let _ = image.close().await;
            return Err(error);
        }
        Ok(Some(image))
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
