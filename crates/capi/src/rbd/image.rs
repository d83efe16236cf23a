//! Handles of images: open, close, and the events of their completions.

use crate::border::{Errno, Handle, Out, Text, call, done};
use crate::rados::IoCtx;
use crate::runtime::{AioCompletion, Events, SharedClient, block_on, lock};
use onego::rados::Pool;
use onego::rbd::Image;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// A handle of an image (`rbd_image_t`).
pub(crate) struct RbdImage {
    client: Arc<SharedClient>,
    pool: Pool,
    pub(super) image: Image,
    pub(super) is_at_snapshot: bool,
    events: Mutex<Option<Arc<Events>>>,
}

/// Which image is opened, and for what.
pub(super) struct OpenRequest {
    name: String,
    /// `None`: as it is now.
    snapshot: Option<String>,
    access: Access,
}

/// Is the image to be written? At a snapshot it never is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    Write,
    ReadOnly,
}

impl OpenRequest {
    fn new(name: Text, snapshot: Text, access: Access) -> Result<Self, Errno> {
        let snapshot = Some(snapshot.text_or_empty().into_owned()).filter(|name| !name.is_empty());
        Ok(Self { name: name.text()?.into_owned(), snapshot, access })
    }
}

impl RbdImage {
    async fn open(client: Arc<SharedClient>, pool: Pool, wanted: &OpenRequest) -> Result<Arc<Self>, Errno> {
        let OpenRequest { name, snapshot, access } = wanted;
        let image = match (snapshot, access) {
            (Some(snapshot), _) => Image::open_at(&pool, name, snapshot).await?,
            (None, Access::Write) => Image::open(&pool, name).await?,
            (None, Access::ReadOnly) => Image::open_read_only(&pool, name).await?,
        };
        let is_at_snapshot = snapshot.is_some();
        Ok(Arc::new(Self { client, pool, image, is_at_snapshot, events: Mutex::default() }))
    }

    pub(super) fn client(&self) -> &Arc<SharedClient> {
        &self.client
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where its completions go besides.
    pub(super) fn events(&self) -> Option<Arc<Events>> {
        lock(&self.events).clone()
    }

    /// Waits for what is in flight, and lets go of the image.
    async fn close(self: Arc<Self>) -> Result<(), Errno> {
        let image = self.image.clone();
        drop(self);
        image.flush().await?;
        Ok(image.close().await?)
    }
}

fn open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    access: Access,
) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let (client, pool) = (Arc::clone(ioctx.client()), ioctx.pool()?);
        let wanted = OpenRequest::new(name, snapshot, access)?;
        let opened = block_on(RbdImage::open(client, pool, &wanted))?;
        image.set(Handle::give(opened))
    })
}

fn aio_open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    access: Access,
    completion: Handle<AioCompletion>,
) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let wanted = OpenRequest::new(name, snapshot, access)?;
        let (client, pool) = (Arc::clone(ioctx.client()), ioctx.pool()?);
        let opener = Arc::clone(&client);
        client.start(completion.share()?, None, |_| {
            Ok(async move {
                image.set(Handle::give(RbdImage::open(opener, pool, &wanted).await?))?;
                Ok(0)
            })
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
) -> c_int {
    open(ioctx, name, image, snapshot, Access::Write)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_open_read_only(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
) -> c_int {
    open(ioctx, name, image, snapshot, Access::ReadOnly)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, name, image, snapshot, Access::Write, completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open_read_only(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, name, image, snapshot, Access::ReadOnly, completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_close(image: Handle<RbdImage>) -> c_int {
    done(|| block_on(image.take()?.close()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_close(image: Handle<RbdImage>, completion: Handle<AioCompletion>) -> c_int {
    done(|| {
        let image = image.take()?;
        let client = Arc::clone(image.client());
        client.start(completion.share()?, None, |_| Ok(async move { image.close().await.map(|()| 0) }));
        Ok(())
    })
}

/// The descriptor is a pipe's or an eventfd's (`EVENT_TYPE_PIPE`, `EVENT_TYPE_EVENTFD`): both take the same eight bytes.
#[unsafe(no_mangle)]
extern "C" fn rbd_set_image_notification(image: Handle<RbdImage>, descriptor: c_int, kind: c_int) -> c_int {
    done(|| {
        let image = image.get()?;
        if !matches!(kind, 1 | 2) {
            return Err(Errno::INVAL);
        }
        *lock(&image.events) = Some(Arc::new(Events::new(descriptor)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_poll_io_events(
    image: Handle<RbdImage>,
    completions: Out<Handle<AioCompletion>>,
    most: c_int,
) -> c_int {
    call(|| {
        let events = image.get()?.events().ok_or(Errno::INVAL)?;
        let most = usize::try_from(most).map_err(|_| Errno::INVAL)?;
        let completed: Vec<_> = events.take(most).iter().map(Handle::of).collect();
        completions.copy(&completed, most)?;
        Ok(completed.len() as c_int)
    })
}
