//! Images are opened and closed; the events of their completions.

use super::image::{Access, ImageKey, OpenRequest, RbdImage};
use crate::border::{Errno, Handle, Out, Text, call, done};
use crate::rados::IoCtx;
use crate::runtime::{AioCompletion, Events, block_on};
use std::ffi::c_int;
use std::sync::Arc;

/// An image by its name or its id, and its snapshot if one is wanted.
struct Wanted {
    key: fn(String) -> ImageKey,
    image: Text,
    snapshot: Text,
    access: Access,
}

impl Wanted {
    fn named(image: Text, snapshot: Text, access: Access) -> Self {
        Self { key: ImageKey::Name, image, snapshot, access }
    }

    fn with_id(image: Text, snapshot: Text, access: Access) -> Self {
        Self { key: ImageKey::Id, image, snapshot, access }
    }

    fn request(&self, ioctx: &IoCtx) -> Result<OpenRequest, Errno> {
        let snapshot = Some(self.snapshot.text_or_empty().into_owned()).filter(|name| !name.is_empty());
        // The image outlives its program's handle of the cluster only by mistake, and knows nothing of it then.
        let rados = Arc::downgrade(ioctx.rados());
        let settings = move |name: &str| rados.upgrade()?.conf().get(name);
        let key = (self.key)(self.image.text()?.into_owned());
        Ok(OpenRequest { key, snapshot, access: self.access, settings: Box::new(settings) })
    }
}

fn open(ioctx: Handle<IoCtx>, image: Out<Handle<RbdImage>>, wanted: &Wanted) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let (client, pool) = (Arc::clone(ioctx.client()), ioctx.pool()?);
        image.give(block_on(RbdImage::open(client, pool, wanted.request(ioctx)?))?)
    })
}

fn aio_open(
    ioctx: Handle<IoCtx>,
    image: Out<Handle<RbdImage>>,
    wanted: &Wanted,
    completion: Handle<AioCompletion>,
) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let request = wanted.request(ioctx)?;
        let (client, pool) = (Arc::clone(ioctx.client()), ioctx.pool()?);
        let opener = Arc::clone(&client);
        client.start(completion.share()?, None, |_| {
            Ok(async move {
                image.give(RbdImage::open(opener, pool, request).await?)?;
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
    open(ioctx, image, &Wanted::named(name, snapshot, Access::Write))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, image, &Wanted::named(name, snapshot, Access::Write), completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_open_read_only(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
) -> c_int {
    open(ioctx, image, &Wanted::named(name, snapshot, Access::ReadOnly))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open_read_only(
    ioctx: Handle<IoCtx>,
    name: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, image, &Wanted::named(name, snapshot, Access::ReadOnly), completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_open_by_id(
    ioctx: Handle<IoCtx>,
    id: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
) -> c_int {
    open(ioctx, image, &Wanted::with_id(id, snapshot, Access::Write))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open_by_id(
    ioctx: Handle<IoCtx>,
    id: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, image, &Wanted::with_id(id, snapshot, Access::Write), completion)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_open_by_id_read_only(
    ioctx: Handle<IoCtx>,
    id: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
) -> c_int {
    open(ioctx, image, &Wanted::with_id(id, snapshot, Access::ReadOnly))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_open_by_id_read_only(
    ioctx: Handle<IoCtx>,
    id: Text,
    image: Out<Handle<RbdImage>>,
    snapshot: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    aio_open(ioctx, image, &Wanted::with_id(id, snapshot, Access::ReadOnly), completion)
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
        image.set_events(Events::new(descriptor));
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
