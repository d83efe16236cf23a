//! Handles of images.

use super::image_watch::ImageWatches;
use super::settings::{Settings, discard_grain};
use crate::border::Errno;
use crate::rados::IoCtx;
use crate::runtime::{Events, SharedClient, block_on, lock};
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{Image, ImageDetails, ImageInfo};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};

/// A handle of an image (`rbd_image_t`).
pub(crate) struct RbdImage {
    client: Arc<SharedClient>,
    pool: Pool,
    /// What was known of the image when it was opened.
    info: ImageInfo,
    access: Access,
    shown: Mutex<Shown>,
    events: Mutex<Option<Arc<Events>>>,
    watches: ImageWatches,
    settings: Settings,
    discard_grain: u64,
}

/// The handles of this program, those that are gone included.
static HANDLES: Mutex<Vec<Weak<RbdImage>>> = Mutex::new(Vec::new());

/// What a handle shows.
struct Shown {
    /// The image as it is. `None`: it was opened at a snapshot.
    head: Option<Image>,
    /// The snapshot that is shown, if one is, by its number.
    at: Option<(u64, Image)>,
}

/// How an image is named.
pub(super) enum ImageKey {
    Name(String),
    Id(String),
}

/// Is the image to be written? At a snapshot it never is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    Write,
    ReadOnly,
}

/// Which image is opened, and for what.
pub(super) struct OpenRequest {
    pub(super) key: ImageKey,
    /// `None`: as it is now.
    pub(super) snapshot: Option<String>,
    pub(super) access: Access,
    pub(super) settings: Settings,
}

impl RbdImage {
    pub(super) async fn open(
        client: Arc<SharedClient>,
        pool: Pool,
        wanted: OpenRequest,
    ) -> Result<Arc<Self>, Errno> {
        let OpenRequest { key, snapshot, access, settings } = wanted;
        let shown = match (snapshot, key) {
            (None, ImageKey::Name(name)) => Shown::head(open_name(&pool, &name, access).await?),
            (None, ImageKey::Id(id)) => Shown::head(open_id(&pool, &id, access).await?),
            (Some(snapshot), key) => {
                let details = match key {
                    ImageKey::Name(name) => ImageDetails::of(&pool, &name).await?,
                    ImageKey::Id(id) => ImageDetails::of_id(&pool, &id).await?,
                };
                Shown::at(&pool, &details, &snapshot).await?
            }
        };
        let info = shown.image().ok_or(Errno::IO)?.info().clone();
        let discard_grain = discard_grain(&settings, info.layout.stripe_unit());
        let image = Arc::new(Self {
            client,
            pool,
            info,
            access,
            shown: Mutex::new(shown),
            events: Mutex::default(),
            watches: ImageWatches::default(),
            settings,
            discard_grain,
        });
        let mut handles = lock(&HANDLES);
        if handles.len() == handles.capacity() {
            handles.retain(|handle| handle.strong_count() > 0);
        }
        handles.push(Arc::downgrade(&image));
        Ok(image)
    }

    /// The image as it is open by the handle of the same client that owns its exclusive lock.
    pub(super) fn lock_owner(&self) -> Option<Image> {
        let is_same = |other: &RbdImage| {
            Arc::ptr_eq(&self.client, &other.client)
                && (self.pool.id(), self.pool.namespace(), self.header_object())
                    == (other.pool.id(), other.pool.namespace(), other.header_object())
        };
        let handles: Vec<_> = lock(&HANDLES).iter().filter_map(Weak::upgrade).collect();
        let mut heads = handles.iter().filter(|other| is_same(other)).filter_map(|other| other.head());
        heads.find(Image::is_lock_owner)
    }

    fn head(&self) -> Option<Image> {
        lock(&self.shown).head.clone()
    }

    pub(super) fn client(&self) -> &Arc<SharedClient> {
        &self.client
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its id; empty: it is of format 1.
    pub(super) fn id(&self) -> &str {
        &self.info.id
    }

    /// What was known of the image when it was opened, of which the name may be another by now.
    pub(super) fn known(&self) -> &ImageInfo {
        &self.info
    }

    /// The object that has its header.
    pub(super) fn header_object(&self) -> String {
        self.info.header_object()
    }

    pub(super) fn setting(&self, name: &str) -> Option<String> {
        (self.settings)(name)
    }

    /// Bytes that discards give up as a whole or not at all.
    pub(super) fn discard_grain(&self) -> u64 {
        self.discard_grain
    }

    pub(super) fn watches(&self) -> &ImageWatches {
        &self.watches
    }

    /// What is read and written.
    pub(super) fn image(&self) -> Result<Image, Errno> {
        lock(&self.shown).image().cloned().ok_or(Errno::IO)
    }

    /// The snapshot that is shown, if one is.
    pub(super) fn snapshot(&self) -> Option<u64> {
        lock(&self.shown).at.as_ref().map(|(snapshot, _)| *snapshot)
    }

    /// What the image is called now.
    pub(super) fn name(&self) -> Result<String, Errno> {
        Ok(block_on(self.info.current_name(&self.pool))?)
    }

    /// What is known of it now.
    pub(super) fn details(&self) -> Result<ImageDetails, Errno> {
        Ok(block_on(ImageDetails::of_known(&self.pool, &self.info))?)
    }

    /// Fails if the image was opened for reading alone.
    pub(super) fn check_access(&self) -> Result<(), Errno> {
        if self.access == Access::Write { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// The same, and if a snapshot is shown.
    pub(super) fn check_head(&self) -> Result<(), Errno> {
        self.check_access()?;
        if self.snapshot().is_none() { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// Changes the image by its name. What is open of it knows of the change then, and owns the exclusive lock, as in librbd.
    pub(super) fn change<T>(
        &self,
        change: impl AsyncFnOnce(&Pool, &str) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        self.change_until(change, |work| block_on(work).map_err(Errno::from))
    }

    /// The same, as `run` runs it.
    pub(super) fn change_until<T>(
        &self,
        change: impl AsyncFnOnce(&Pool, &str) -> Result<T, Error>,
        run: impl FnOnce(Pin<&mut dyn Future<Output = Result<T, Error>>>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.check_access()?;
        let name = self.name()?;
        // Another image may have the name by now, where this one is in the trash.
        let pool = match self.id() {
            "" => self.pool.clone(),
            id => self.pool.with_image(&name, id),
        };
        let changed = run(pin!(change(&pool, &name)))?;
        self.refresh()?;
        if let Some(head) = self.head().filter(Image::is_writable) {
            // The change is made, also where another client keeps the lock and has made it.
            let _ = block_on(head.own());
        }
        Ok(changed)
    }

    /// Has what is open of the image read its header again.
    pub(super) fn refresh(&self) -> Result<(), Errno> {
        // Its own watch tells it, too, a moment later.
        match self.head() {
            Some(head) => Ok(block_on(head.refresh())?),
            None => Ok(()),
        }
    }

    /// Shows a snapshot, or the image as it is.
    pub(super) fn show(&self, snapshot: Option<u64>) -> Result<(), Errno> {
        let at = match snapshot {
            Some(snapshot) => {
                Some((snapshot, block_on(Image::open_known_at(&self.pool, &self.info, snapshot))?))
            }
            None if lock(&self.shown).head.is_none() => {
                let head = block_on(open_known(&self.pool, &self.info, self.access))?;
                lock(&self.shown).head = Some(head);
                None
            }
            None => None,
        };
        let before = std::mem::replace(&mut lock(&self.shown).at, at);
        if let Some((_, image)) = before {
            // Its snapshot may be gone by now.
            let _ = block_on(image.close());
        }
        Ok(())
    }

    /// Has another view of the same image be read and written: that of what is decrypted. Gives what was shown before to `make`.
    pub(super) fn replace(&self, make: impl AsyncFnOnce(Image) -> Result<Image, Error>) -> Result<(), Errno> {
        let shown = self.image()?;
        let made = block_on(make(shown))?;
        let mut shown = lock(&self.shown);
        match &mut shown.at {
            Some((_, image)) => *image = made,
            None => shown.head = Some(made),
        }
        Ok(())
    }

    /// Where its completions go besides.
    pub(super) fn events(&self) -> Option<Arc<Events>> {
        lock(&self.events).clone()
    }

    pub(super) fn set_events(&self, events: Events) {
        *lock(&self.events) = Some(Arc::new(events));
    }

    /// Waits for what is in flight, and lets go of the image.
    pub(super) async fn close(self: Arc<Self>) -> Result<(), Errno> {
        self.watches.clear();
        let (head, at) = {
            let mut shown = lock(&self.shown);
            (shown.head.take(), shown.at.take())
        };
        drop(self);
        if let Some((_, image)) = at {
            // The snapshot may be gone by now, and nothing was written there.
            let _ = image.close().await;
        }
        let Some(image) = head else { return Ok(()) };
        let flushed = image.flush().await;
        match flushed.and(image.close().await).map_err(Errno::from) {
            // Others have broken the lock and shut this client out: writes have failed on their own, and nothing is left
            // to release.
            Err(Errno::SHUTDOWN | Errno::ROFS) => Ok(()),
            closed => closed,
        }
    }
}

impl Shown {
    fn head(image: Image) -> Self {
        Self { head: Some(image), at: None }
    }

    /// An image at a user's snapshot.
    async fn at(pool: &Pool, details: &ImageDetails, snapshot: &str) -> Result<Self, Error> {
        let snapshot = details.snapshot(snapshot)?.id;
        let image = Image::open_known_at(pool, &details.info, snapshot).await?;
        Ok(Self { head: None, at: Some((snapshot, image)) })
    }

    fn image(&self) -> Option<&Image> {
        self.at.as_ref().map(|(_, image)| image).or(self.head.as_ref())
    }
}

async fn open_name(pool: &Pool, name: &str, access: Access) -> Result<Image, Error> {
    match access {
        Access::Write => Image::open(pool, name).await,
        Access::ReadOnly => Image::open_read_only(pool, name).await,
    }
}

async fn open_id(pool: &Pool, id: &str, access: Access) -> Result<Image, Error> {
    match access {
        Access::Write => Image::open_by_id(pool, id).await,
        Access::ReadOnly => Image::open_by_id_read_only(pool, id).await,
    }
}

async fn open_known(pool: &Pool, info: &ImageInfo, access: Access) -> Result<Image, Error> {
    match access {
        Access::Write => Image::open_known(pool, info).await,
        Access::ReadOnly => Image::open_known_read_only(pool, info).await,
    }
}

/// The pool of an image that is named beside its pool's handle.
pub(super) fn pool_of(ioctx: crate::border::Handle<IoCtx>) -> Result<Pool, Errno> {
    ioctx.get()?.pool()
}
