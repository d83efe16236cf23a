//! Copies of images.

use crate::border::{Errno, Handle, Opaque, Text, done};
use crate::rados::IoCtx;
use crate::rbd::image::{RbdImage, pool_of};
use crate::rbd::new_image::NewImage;
use crate::rbd::options::ImageOptions;
use crate::rbd::progress::{Progress, tell};
use crate::runtime::block_on;
use onego::rbd::{MAX_IO, upkeep};
use std::ffi::c_int;

/// A copy that is to be made.
#[derive(Clone, Copy)]
struct Copy {
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
}

/// What of an image is copied.
enum Part {
    /// What it shows.
    Shown,
    /// All of it, with its snapshots.
    Deep,
}

impl Copy {
    /// Makes a new image.
    fn make(&self, part: &Part, wanted: &NewImage, told: impl FnMut(u64, u64) + Send) -> Result<(), Errno> {
        let image = self.image.get()?;
        let details = image.details()?;
        let options = wanted.options(self.ioctx.get()?, Some(&details.info))?;
        let snapshot = match image.snapshot() {
            Some(id) => Some(details.snapshot_by_id(id)?.name.clone()),
            None => None,
        };
        let to = (&pool_of(self.ioctx)?, &*self.name.text()?);
        let from = (image.pool(), &*details.info.name, snapshot.as_deref());
        block_on(image.image()?.flush())?;
        Ok(match part {
            Part::Shown => block_on(upkeep::copy(from, to, &options, told)),
            Part::Deep => block_on(upkeep::deep_copy(from, to, &options, wanted.copy_kind(), told)),
        }?)
    }
}

/// The bytes of an image go to another that is open, and must be as large.
fn copy_open(
    from: Handle<RbdImage>,
    to: Handle<RbdImage>,
    mut told: impl FnMut(u64, u64) + Send,
) -> Result<(), Errno> {
    let (from, to) = (from.get()?.image()?, to.get()?.image()?);
    if to.size() < from.size() {
        return Err(Errno::INVAL);
    }
    if !to.is_writable() {
        return Err(Errno::ROFS);
    }
    let part = from.info().layout.object_size().min(MAX_IO);
    let (all, mut at) = (from.size(), 0);
    while at < all {
        let len = part.min(all - at);
        let bytes = block_on(from.read(at, len))?;
        if bytes.is_zeros() {
            block_on(to.write_zeroes(at, len))?;
        } else {
            block_on(to.write(at, bytes))?;
        }
        at += len;
        told(at, all);
    }
    Ok(block_on(to.flush())?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy(image: Handle<RbdImage>, ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Copy { image, ioctx, name }.make(&Part::Shown, &NewImage::default(), |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy2(from: Handle<RbdImage>, to: Handle<RbdImage>) -> c_int {
    done(|| copy_open(from, to, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy3(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    rbd_copy4(image, ioctx, name, options, 0)
}

/// Blocks of zeros are left out, whatever their size.
#[unsafe(no_mangle)]
extern "C" fn rbd_copy4(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
    _sparse_size: usize,
) -> c_int {
    done(|| Copy { image, ioctx, name }.make(&Part::Shown, &NewImage::of(options.get()?)?, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy_with_progress(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| Copy { image, ioctx, name }.make(&Part::Shown, &NewImage::default(), tell(progress, argument)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy_with_progress2(
    from: Handle<RbdImage>,
    to: Handle<RbdImage>,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| copy_open(from, to, tell(progress, argument)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy_with_progress3(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    rbd_copy_with_progress4(image, ioctx, name, options, progress, argument, 0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_copy_with_progress4(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
    progress: Progress,
    argument: Opaque,
    _sparse_size: usize,
) -> c_int {
    done(|| {
        let wanted = NewImage::of(options.get()?)?;
        Copy { image, ioctx, name }.make(&Part::Shown, &wanted, tell(progress, argument))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_deep_copy(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    rbd_deep_copy_with_progress(image, ioctx, name, options, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_deep_copy_with_progress(
    image: Handle<RbdImage>,
    ioctx: Handle<IoCtx>,
    name: Text,
    options: Handle<ImageOptions>,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| {
        let wanted = NewImage::of(options.get()?)?;
        Copy { image, ioctx, name }.make(&Part::Deep, &wanted, tell(progress, argument))
    })
}
