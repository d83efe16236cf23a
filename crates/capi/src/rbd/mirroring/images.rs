//! Is an image mirrored? Images that are mirrored are not looked into further.

use crate::border::{Errno, Handle, In, Out, call, copied_text, done, free};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::check_size;
use crate::runtime::{AioCompletion, block_on};
use onego::rados::Pool;
use onego::rbd::pools::mirroring;
use onego_ceph::cls::rbd::mirror_state;
use std::ffi::{c_char, c_int};

/// How an image is mirrored (`rbd_mirror_image_info_t`).
#[repr(C)]
struct MirrorInfo {
    global_id: *mut c_char,
    state: c_int,
    is_primary: bool,
}

async fn info(pool: &Pool, id: &str) -> Result<MirrorInfo, Errno> {
    if mirroring::image(pool, id).await?.is_some() {
        return Err(Errno::NOTSUP);
    }
    Ok(MirrorInfo { global_id: copied_text(b"")?, state: mirror_state::DISABLED.into(), is_primary: false })
}

/// The number of the way in which an image is mirrored; ENOENT of one that is not.
async fn mode(pool: &Pool, id: &str) -> Result<c_int, Errno> {
    Ok(mirroring::image(pool, id).await?.ok_or(Errno::NOENT)?.mode.into())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_info(
    image: Handle<RbdImage>,
    found: Out<MirrorInfo>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<MirrorInfo>(size)?;
        let image = image.get()?;
        found.set(block_on(info(image.pool(), image.id()))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_info_cleanup(found: In<MirrorInfo>) {
    call(|| {
        if let Some(found) = found.get() {
            free(found.global_id.cast());
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_mode(image: Handle<RbdImage>, found: Out<c_int>) -> c_int {
    done(|| {
        let image = image.get()?;
        found.set(block_on(mode(image.pool(), image.id()))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_info(
    image: Handle<RbdImage>,
    found: Out<MirrorInfo>,
    size: usize,
    completion: Handle<AioCompletion>,
) -> c_int {
    done(|| {
        check_size::<MirrorInfo>(size)?;
        let image = image.share()?;
        let client = std::sync::Arc::clone(image.client());
        client.start(completion.share()?, None, |_| {
            Ok(async move {
                found.set(info(image.pool(), image.id()).await?)?;
                Ok(0)
            })
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_mode(
    image: Handle<RbdImage>,
    found: Out<c_int>,
    completion: Handle<AioCompletion>,
) -> c_int {
    done(|| {
        let image = image.share()?;
        let client = std::sync::Arc::clone(image.client());
        client.start(completion.share()?, None, |_| {
            Ok(async move {
                found.set(mode(image.pool(), image.id()).await?)?;
                Ok(0)
            })
        });
        Ok(())
    })
}
