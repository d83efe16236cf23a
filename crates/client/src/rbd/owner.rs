//! Who changes an image: where it has an exclusive lock, its owner alone.

use super::details::{Header, ImageDetails};
use super::image::Image;
use crate::ceph::error::Error;
use onego_ceph::rbd::Features;

impl Header {
    /// Does something that changes the image, as its owner. `body` is given what the image is from then on: the owner of before
    /// may have changed it last.
    pub(super) async fn owned<T>(
        &self,
        body: impl AsyncFnOnce(&ImageDetails) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let details = self.details().await?;
        if !details.info.features.contains(Features::EXCLUSIVE_LOCK) {
            return body(&details).await;
        }
        let image = Image::open_bare(&self.pool, details.info).await?;
        let owned = async {
            image.lock().await?;
            body(&self.details().await?).await
        };
        let result = owned.await;
        // Others wait for the lock, also where something failed. The first error is the one to tell.
        let closed = image.close().await;
        result.and_then(|value| closed.map(|()| value))
    }
}
