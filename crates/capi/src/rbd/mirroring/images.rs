//! Is an image mirrored? Images that are mirrored are not looked into further.

use crate::border::{Errno, Handle, In, Out, call, copied_text, done, free};
use crate::missing::no_mirroring;
use crate::rbd::image::RbdImage;
use crate::rbd::lists::check_size;
use crate::runtime::{AioCompletion, block_on};
use onego::rbd::pools::mirroring;
use onego_ceph::cls::rbd::{mirror_image_mode, mirror_state};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// How an image is mirrored (`rbd_mirror_image_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MirrorInfo {
    global_id: *mut c_char,
    state: c_int,
    is_primary: bool,
}

impl MirrorInfo {
    /// Of an image that is not mirrored.
    pub(super) fn unmirrored() -> Result<Self, Errno> {
        Ok(Self { global_id: copied_text(b"")?, state: mirror_state::DISABLED.into(), is_primary: false })
    }

    pub(super) fn free(&self) {
        free(self.global_id.cast());
    }
}

/// Fails for an image that is mirrored: `function` would have to look into it.
pub(super) async fn check_unmirrored(image: &RbdImage, function: &'static str) -> Result<(), Errno> {
    match mirroring::image(image.pool(), image.id()).await? {
        None => Ok(()),
        Some(_) => Err(no_mirroring(function)),
    }
}

/// Begins an action on an image. Its outcome is the completion's.
pub(super) fn begin<F>(
    image: Handle<RbdImage>,
    completion: Handle<AioCompletion>,
    action: impl FnOnce(Arc<RbdImage>) -> F,
) -> c_int
where
    F: Future<Output = Result<(), Errno>> + Send + 'static,
{
    done(|| {
        let image = image.share()?;
        let client = Arc::clone(image.client());
        let action = action(image);
        client.start(completion.share()?, None, |_| Ok(async move { action.await.map(|()| 0) }));
        Ok(())
    })
}

async fn give_info(image: &RbdImage, found: Out<MirrorInfo>, function: &'static str) -> Result<(), Errno> {
    check_unmirrored(image, function).await?;
    found.set(MirrorInfo::unmirrored()?)
}

/// Gives the number of the way in which an image is mirrored. One that is not has the first, as Ceph's library has it before 20.
async fn give_mode(image: &RbdImage, found: Out<c_int>) -> Result<(), Errno> {
    let mirrored = mirroring::image(image.pool(), image.id()).await?;
    found.set(mirrored.map_or(mirror_image_mode::JOURNAL, |image| image.mode).into())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_info(
    image: Handle<RbdImage>,
    found: Out<MirrorInfo>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<MirrorInfo>(size)?;
        block_on(give_info(image.get()?, found, "rbd_mirror_image_get_info"))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_info_cleanup(found: In<MirrorInfo>) {
    call(|| {
        if let Some(found) = found.get() {
            found.free();
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_mode(image: Handle<RbdImage>, found: Out<c_int>) -> c_int {
    done(|| block_on(give_mode(image.get()?, found)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_info(
    image: Handle<RbdImage>,
    found: Out<MirrorInfo>,
    size: usize,
    completion: Handle<AioCompletion>,
) -> c_int {
    if let Err(errno) = check_size::<MirrorInfo>(size) {
        return errno.negative();
    }
    begin(image, completion, move |image| async move {
        give_info(&image, found, "rbd_aio_mirror_image_get_info").await
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_mode(
    image: Handle<RbdImage>,
    found: Out<c_int>,
    completion: Handle<AioCompletion>,
) -> c_int {
    begin(image, completion, move |image| async move { give_mode(&image, found).await })
}
