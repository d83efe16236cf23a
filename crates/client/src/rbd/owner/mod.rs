//! Changes of images with an exclusive lock, which only the lock's owner may make. A long change is delegated to a
//! live owner; otherwise, or if the owner does not accept requests, this client takes the lock.

mod remote;
mod serve;

pub(super) use serve::ImageOperator;

use super::header::{Header, ImageDetails, ImageInfo};
use super::image::Image;
use crate::ceph::error::{Errno, Error};
use onego_ceph::cls::lock::GetInfo;
use onego_ceph::rbd::Features;
use onego_rbd::notify::{AsyncRequestId, Operation};
use onego_rbd::{LOCK_NAME, LockOwner};
use remote::{Asked, is_done_already, is_short};
use std::sync::{Mutex, PoisonError};

const MAX_OWNERS: u32 = 16;

/// Callback for the progress of an operation, (done, total), shared by all parts of it.
pub(super) struct Progress<'a>(Mutex<Box<dyn FnMut(u64, u64) + Send + 'a>>);

impl<'a> Progress<'a> {
    pub(super) fn new(report: impl FnMut(u64, u64) + Send + 'a) -> Self {
        Self(Mutex::new(Box::new(report)))
    }

    pub(super) fn ignored() -> Self {
        Self::new(|_, _| {})
    }

    pub(super) fn report(&self, done: u64, all: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)(done, all);
    }
}

impl Header {
    /// Runs a change of the image as its owner. `body` receives the image's current properties, which the previous
    /// owner may have changed. Fails for an image that is being migrated.
    pub(super) async fn owned<T, F: Future<Output = Result<T, Error>>>(
        &self,
        body: impl FnOnce(ImageDetails) -> F,
    ) -> Result<T, Error> {
        let details = self.details().await?;
        self.refuse_migrating(&details.info)?;
        self.owned_as(details, body).await
    }

    /// Fails if the image is being migrated: until the end only its data and new snapshots may change.
    pub(super) fn refuse_migrating(&self, info: &ImageInfo) -> Result<(), Error> {
        if !info.features.contains(Features::MIGRATING) {
            return Ok(());
        }
        let what = format!(
            "{} is being migrated: finish with \"rbd migration execute\" and \"rbd migration commit\", or undo with \
             \"rbd migration abort\"",
            self.describe()
        );
        Err(Error::Unmet { what, errno: Errno::BUSY })
    }

    /// Fails if the image is being migrated and `operation` is not possible meanwhile.
    fn check_migrating(&self, info: &ImageInfo, operation: &Operation) -> Result<(), Error> {
        match operation {
            Operation::Migrate { .. } if !info.features.contains(Features::MIGRATING) => Err(Error::Unmet {
                what: format!("{} is not being migrated", self.describe()),
                errno: Errno::BUSY,
            }),
            Operation::Migrate { .. } | Operation::SnapCreate { .. } | Operation::MetadataUpdate { .. } => {
                Ok(())
            }
            _ => self.refuse_migrating(info),
        }
    }

    async fn owned_as<T, F: Future<Output = Result<T, Error>>>(
        &self,
        details: ImageDetails,
        body: impl FnOnce(ImageDetails) -> F,
    ) -> Result<T, Error> {
        if !details.info.features.contains(Features::EXCLUSIVE_LOCK) {
            return body(details).await;
        }
        let image = match details.info.features.contains(Features::MIGRATING) {
            true => Image::open_watched(self).await?,
            false => Image::open_bare(&self.pool, details.info).await?,
        };
        let result = async {
            let _hold = image.hold_lock().await?;
            body(self.details().await?).await
        };
        let result = result.await;
        // Other clients wait for the lock, so release it even after a failure. The first error is the one to report.
        let closed = image.close().await;
        result.and_then(|value| closed.map(|()| value))
    }

    /// Like [`owned`](Self::owned), but delegates `operation` to another client that owns the lock.
    pub(super) async fn owned_or_asked<F: Future<Output = Result<(), Error>>>(
        &self,
        operation: impl Fn(AsyncRequestId) -> Operation,
        progress: &Progress<'_>,
        body: impl Fn(ImageDetails) -> F,
    ) -> Result<(), Error> {
        let own = || async { self.owned_as(self.details().await?, &body).await };
        self.done_or_asked(operation, progress, own).await
    }

    /// Like [`owned_or_asked`](Self::owned_or_asked), with an `own` that takes the lock itself. If an owner releases
    /// the lock before it is done, the next owner, possibly this client, does the work.
    pub(super) async fn done_or_asked<F: Future<Output = Result<(), Error>>>(
        &self,
        operation: impl Fn(AsyncRequestId) -> Operation,
        progress: &Progress<'_>,
        own: impl Fn() -> F,
    ) -> Result<(), Error> {
        self.check_migrating(&self.details().await?.info, &operation(AsyncRequestId::default()))?;
        let busy = |reason| Err(Error::Busy { what: self.describe(), reason });
        let is_done = |error: &Error| is_done_already(&operation(AsyncRequestId::default()), error.errno());
        // A dead owner may have created the snapshot without answering. The caller has checked that the name was
        // unused.
        let is_snapshot = matches!(operation(AsyncRequestId::default()), Operation::SnapCreate { .. });
        let (mut is_kept, mut is_begun, mut may_be_done) = (false, false, false);
        for _ in 0..MAX_OWNERS {
            let mut refusal = None;
            // A live owner may be writing, and can continue while it executes long work. For short work it hands over
            // the lock instead, because old releases do not report its completion. It cannot while its writes wait
            // for space.
            let is_long = !is_short(&operation(AsyncRequestId::default()));
            if (is_long || is_kept || self.is_pool_full().await?) && self.has_live_owner().await? {
                match self.ask_owner(&operation, progress).await {
                    Ok(Asked::Done) => return Ok(()),
                    Ok(Asked::Unanswered) => {
                        may_be_done |= is_snapshot;
                        refusal = Some(self.unanswered());
                    }
                    // The owner has released the lock.
                    Err(Error::Refused { errno: Errno::RESTART, .. }) => {
                        (is_begun, may_be_done) = (true, true);
                        continue;
                    }
                    Err(error @ Error::Refused { errno: Errno::OPNOTSUPP, .. }) => refusal = Some(error),
                    Err(error) if may_be_done && is_done(&error) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            match own().await {
                Err(Error::Image(onego_rbd::Error::LockRefused { .. })) => is_kept = true,
                Err(error) if may_be_done && is_done(&error) => return Ok(()),
                result => return result,
            }
            match refusal {
                None => {}
                Some(error) if !is_begun => return Err(error),
                // Previous owners may have done part of the work, so this is not a refusal that leaves the image
                // unchanged.
                Some(error) => {
                    return busy(format!("its lock changed hands before the work was done: {error}"));
                }
            }
        }
        busy(format!("each of {MAX_OWNERS} owners released its lock before the work was done"))
    }

    fn unanswered(&self) -> Error {
        Error::Busy { what: self.describe(), reason: "the owner of its lock does not answer".into() }
    }

    async fn is_pool_full(&self) -> Result<bool, Error> {
        Ok(self.pool.cluster().osd_map().await?.is_pool_full(self.pool.id()))
    }

    async fn has_live_owner(&self) -> Result<bool, Error> {
        let object = self.object();
        let info = self.pool.call(&object, &GetInfo { name: LOCK_NAME.to_owned() }).await?;
        let Some(owner) = LockOwner::of(&info) else { return Ok(false) };
        let watchers = self.pool.watchers(&object).await?;
        Ok(watchers.iter().any(|watcher| owner.has_watch(watcher.cookie, &watcher.addr)))
    }
}
