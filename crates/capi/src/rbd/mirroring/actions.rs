//! Mirroring of single images is switched on and off, and images change their roles. Of an image that is not mirrored each of these
//! is refused as Ceph's library refuses it; to mirror images is left to Ceph's own programs.
//!
//! Sources: ceph `src/librbd/api/Mirror.cc`, `src/librbd/mirror/{Promote,Demote}Request.cc`.

use super::images::{begin, check_unmirrored};
use crate::border::{Errno, Handle, Out, done};
use crate::missing::no_mirroring;
use crate::rbd::image::RbdImage;
use crate::rbd::snapshots::quiesce;
use crate::runtime::{AioCompletion, block_on};
use onego::rbd::ImageDetails;
use onego::rbd::pools::mirroring::{self, MirrorMode};
use std::ffi::c_int;

/// Refuses to mirror an image. EINVAL: the pool is not one whose images are chosen, or the image is a clone of one that is not
/// mirrored.
async fn enable(image: &RbdImage, function: &'static str) -> Result<(), Errno> {
    if mirroring::mode(image.pool()).await? != MirrorMode::Image {
        return Err(Errno::INVAL);
    }
    if let Some(parent) = ImageDetails::of_known(image.pool(), image.known()).await?.info.parent {
        let home = image.pool().cluster().pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
        if mirroring::image(&home, &parent.image).await?.is_none() {
            return Err(Errno::INVAL);
        }
    }
    Err(no_mirroring(function))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_enable(image: Handle<RbdImage>) -> c_int {
    done(|| block_on(enable(image.get()?, "rbd_mirror_image_enable")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_enable2(image: Handle<RbdImage>, _mode: c_int) -> c_int {
    done(|| block_on(enable(image.get()?, "rbd_mirror_image_enable2")))
}

/// Nothing is to be done for an image that is not mirrored. EINVAL: the pool is not one whose images are chosen.
async fn disable(image: &RbdImage) -> Result<(), Errno> {
    if mirroring::mode(image.pool()).await? != MirrorMode::Image {
        return Err(Errno::INVAL);
    }
    check_unmirrored(image, "rbd_mirror_image_disable").await
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_disable(image: Handle<RbdImage>, _force: bool) -> c_int {
    done(|| block_on(disable(image.get()?)))
}

/// Does what only a mirrored image can. `refusal`: it is not mirrored.
async fn need_mirroring(image: &RbdImage, refusal: Errno, function: &'static str) -> Result<(), Errno> {
    check_unmirrored(image, function).await?;
    Err(refusal)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_promote(image: Handle<RbdImage>, _force: bool) -> c_int {
    done(|| block_on(need_mirroring(image.get()?, Errno::NOENT, "rbd_mirror_image_promote")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_demote(image: Handle<RbdImage>) -> c_int {
    done(|| block_on(need_mirroring(image.get()?, Errno::INVAL, "rbd_mirror_image_demote")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_resync(image: Handle<RbdImage>) -> c_int {
    done(|| block_on(need_mirroring(image.get()?, Errno::NOENT, "rbd_mirror_image_resync")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_create_snapshot(image: Handle<RbdImage>, _snapshot: Out<u64>) -> c_int {
    done(|| block_on(need_mirroring(image.get()?, Errno::INVAL, "rbd_mirror_image_create_snapshot")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_create_snapshot2(
    image: Handle<RbdImage>,
    flags: u32,
    _snapshot: Out<u64>,
) -> c_int {
    done(|| {
        quiesce(flags)?;
        block_on(need_mirroring(image.get()?, Errno::INVAL, "rbd_mirror_image_create_snapshot2"))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_instance_id(
    image: Handle<RbdImage>,
    _id: Out<u8>,
    _len: Out<usize>,
) -> c_int {
    done(|| block_on(need_mirroring(image.get()?, Errno::INVAL, "rbd_mirror_image_get_instance_id")))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_promote(
    image: Handle<RbdImage>,
    _force: bool,
    completion: Handle<AioCompletion>,
) -> c_int {
    begin(image, completion, |image| async move {
        need_mirroring(&image, Errno::NOENT, "rbd_aio_mirror_image_promote").await
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_demote(
    image: Handle<RbdImage>,
    completion: Handle<AioCompletion>,
) -> c_int {
    begin(image, completion, |image| async move {
        need_mirroring(&image, Errno::INVAL, "rbd_aio_mirror_image_demote").await
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_create_snapshot(
    image: Handle<RbdImage>,
    flags: u32,
    _snapshot: Out<u64>,
    completion: Handle<AioCompletion>,
) -> c_int {
    begin(image, completion, move |image| async move {
        quiesce(flags)?;
        need_mirroring(&image, Errno::INVAL, "rbd_aio_mirror_image_create_snapshot").await
    })
}
