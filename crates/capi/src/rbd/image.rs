//! Handles of images: opened, closed, and told of their events.

use crate::border::{Errno, Handle, Out, Text, call, done};
use crate::rados::IoCtx;
use crate::runtime::{Client, Completion, Events, block_on, lock};
use onego::rados::Pool;
use onego::rbd::Image;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// A handle of an image (`rbd_image_t`).
pub(crate) struct RbdImage {
    client: Arc<Client>,
    pool: Pool,
    pub(crate) image: Image,
    events: Mutex<Option<Arc<Events>>>,
}

/// Is the image to be written?
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    Write,
    ReadOnly,
}

impl RbdImage {
    async fn open(client: Arc<Client>, pool: Pool, name: &str, access: Access) -> Result<Arc<Self>, Errno> {
        let image = match access {
            Access::Write => Image::open(&pool, name).await?,
            Access::ReadOnly => Image::open_read_only(&pool, name).await?,
        };
        Ok(Arc::new(Self { client, pool, image, events: Mutex::default() }))
    }

    pub(super) fn client(&self) -> &Arc<Client> {
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

/// Snapshots are not opened yet.
fn head_only(snapshot: Text) -> Result<(), Errno> {
    if snapshot.text_or_empty().is_empty() { Ok(()) } else { Err(Errno::NOTSUP) }
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
        head_only(snapshot)?;
        let (client, pool) = (Arc::clone(ioctx.client()), ioctx.pool()?);
        let opened = block_on(RbdImage::open(client, pool, &name.text()?, access))?;
        image.set(Handle::give(opened))
    })
}

fn aio_open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    access: Access,
    completion: Handle<Completion>,
) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        head_only(snapshot)?;
        let (client, pool, name) = (Arc::clone(ioctx.client()), ioctx.pool()?, name.text()?.into_owned());
        let opener = Arc::clone(&client);
        client.start(completion.share()?, None, |_| {
            Ok(async move {
                image.set(Handle::give(RbdImage::open(opener, pool, &name, access).await?))?;
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
    completion: Handle<Completion>,
) -> c_int {
    aio_open(ioctx, name, image, snapshot, Access::Write, completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open_read_only(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<Completion>,
) -> c_int {
    aio_open(ioctx, name, image, snapshot, Access::ReadOnly, completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_close(image: Handle<RbdImage>) -> c_int {
    done(|| block_on(image.take()?.close()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_close(image: Handle<RbdImage>, completion: Handle<Completion>) -> c_int {
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
    completions: Out<Handle<Completion>>,
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
