//! The exclusive lock of an image.

use crate::border::{Errno, Handle, Out, done};
use crate::rbd::image::RbdImage;
use crate::runtime::block_on;
use onego::rbd::Features;
use std::ffi::c_int;

/// The only mode in which the lock is taken (`RBD_LOCK_MODE_EXCLUSIVE`).
pub(super) const EXCLUSIVE: c_int = 0;

/// The image, if it has the lock.
pub(super) fn lockable(image: &Handle<RbdImage>) -> Result<&RbdImage, Errno> {
    let image = image.get()?;
    let has_lock = image.details()?.info.features.contains(Features::EXCLUSIVE_LOCK);
    if has_lock { Ok(image) } else { Err(Errno::INVAL) }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_is_exclusive_lock_owner(image: Handle<RbdImage>, is_owner: Out<c_int>) -> c_int {
    done(|| {
        let image = image.get()?;
        let owns = image.snapshot().is_none() && image.image()?.is_lock_owner();
        if !owns {
            // This fails if the lock was broken: as in librbd, the former owner gets the error here.
            image.refresh()?;
        }
        is_owner.set(owns.into())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_acquire(image: Handle<RbdImage>, mode: c_int) -> c_int {
    done(|| {
        if mode != EXCLUSIVE {
            return Err(Errno::NOTSUP);
        }
        Ok(block_on(lockable(&image)?.image()?.lock())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_lock_release(image: Handle<RbdImage>) -> c_int {
    done(|| Ok(block_on(lockable(&image)?.image()?.unlock())?))
}
