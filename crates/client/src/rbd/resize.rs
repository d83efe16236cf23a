use super::clear::clear;
use super::header::{Header, ImageDetails};
use super::image::Image;
use super::objects::for_each_object;
use super::owner::Progress;
use super::view::{CopyDown, refuse_own_key};
use crate::ceph::error::Error;
use crate::ceph::image_key::ImageControl;
use crate::rados::Pool;
use onego_rbd::notify::Operation;

/// Resizes an image. A shrink discards the data past the new end. Calls `progress` with (done, total) in bytes.
pub async fn resize(
    pool: &Pool,
    name: &str,
    size: u64,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = Header::named(pool, name).await?;
    let ask = |id| Operation::Resize { size, id, allow_shrink: true };
    let progress = Progress::new(progress);
    header
        .done_or_asked(ask, &progress, || async {
            let info = header.details().await?.info;
            info.check_writable()?;
            let is_shrink = size < info.size;
            // A shrink frees space and must not wait for it.
            let pool = if is_shrink { pool.with_full_try() } else { pool.clone() };
            if is_shrink {
                let header = &header.with_full_try();
                header.owned(|details| async move { copy_what_is_cut(header, &details, size).await }).await?;
            }
            let image = Image::open_bare(&pool, info).await?;
            let resized = async {
                let _hold = image.hold_lock().await?;
                image.change_size(size, |done, all| progress.report(done, all)).await
            };
            let resized = resized.await;
            // The first error is the one to report.
            let closed = image.close().await;
            resized.and(closed)
        })
        .await
}

/// Preserves, in a clone that is not open, the parent's data past a new end for its snapshots.
async fn copy_what_is_cut(header: &Header, details: &ImageDetails, size: u64) -> Result<(), Error> {
    if details.snapshots.iter().all(|snapshot| snapshot.overlap.is_none()) {
        return Ok(());
    }
    CopyDown::new(header, details).await?.cut_objects(size).await
}

impl Image {
    /// Resizes an open image as its lock owner; for an encrypted one, `size` is that of the decrypted data. A shrink
    /// discards the data past the new end. Calls `progress` with (done, total) in bytes.
    pub async fn resize(&self, size: u64, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
        let _hold = self.hold_lock().await?;
        self.resize_held(size, progress).await
    }

    /// Resizes as the owner of the lock, and waits until the other clients have been notified. Calls `progress` with
    /// (done, total) in bytes.
    pub(super) async fn resize_held(
        &self,
        size: u64,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), Error> {
        if size < self.header_size() {
            self.keep_what_is_cut(size).await?;
        }
        self.change_size(size, progress).await
    }

    /// Resizes an image whose snapshots need nothing from the parent past the new end.
    async fn change_size(&self, size: u64, mut progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
        let id = self.cluster().random()?;
        let guard = ResizeGuard { image: self, id };
        self.control(|done| ImageControl::BeginResize { size, id, done }).await?;
        if size < self.header_size() {
            clear(self, size, &mut progress).await?;
        }
        self.control(|done| ImageControl::FinishResize(id, done)).await?;
        drop(guard); // the resize has ended
        Header::of(self.pool(), self.info()).notify_changed().await
    }

    /// Preserves the parent's data past a new end for a clone's snapshots. An earlier shrink has preserved the data
    /// past the current end.
    async fn keep_what_is_cut(&self, size: u64) -> Result<(), Error> {
        let header = &Header::of(self.pool(), self.info());
        let details = header.details().await?;
        let showing = details.snapshots.iter().filter(|snapshot| snapshot.overlap.is_some());
        let showing: Vec<u64> = showing.map(|snapshot| snapshot.id).collect();
        let Some(parent) = details.info.parent.filter(|_| !showing.is_empty()) else { return Ok(()) };
        // With the image's key loaded, the copy of an object is encrypted with it.
        if !self.is_encrypted() {
            let advice = "its snapshots would lose what they show of the parent: resize it through its key \
                          (--encryption-passphrase-file), or remove them first";
            refuse_own_key(header, &showing, advice).await?;
        }
        let layout = details.info.layout;
        let is_cut = |object| layout.object_end(object, size) < layout.object_end(object, parent.overlap);
        let copy = |object| async move { if is_cut(object) { self.copy_up(object).await } else { Ok(()) } };
        for_each_object(layout.objects(parent.overlap), |_, _| {}, copy).await
    }
}

/// Cancels an unfinished size change on drop.
struct ResizeGuard<'a> {
    image: &'a Image,
    id: u64,
}

impl Drop for ResizeGuard<'_> {
    fn drop(&mut self) {
        self.image.cancel_resize(self.id);
    }
}
