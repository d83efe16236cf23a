//! The life of images: created, renamed, resized, removed.

use super::image::{RbdImage, pool_of};
use super::new_image::NewImage;
use super::options::ImageOptions;
use super::progress::{CallbackResult, Progress, run_until_refused, tell_and_ask, tell_objects};
use crate::border::{Errno, Handle, Opaque, Out, Text, done};
use crate::rados::IoCtx;
use crate::runtime::block_on;
use onego::rbd::{self, pools};
use std::ffi::c_int;

/// Creates an image; gives its order.
fn create(ioctx: Handle<IoCtx>, name: Text, wanted: &NewImage) -> Result<u8, Errno> {
    let options = wanted.options(ioctx.get()?, None)?;
    block_on(rbd::create(&pool_of(ioctx)?, &name.text()?, &options))?;
    Ok(options.layout.order())
}

/// Creates an image with the order that is given, or says which one it got.
fn create_with_order(ioctx: Handle<IoCtx>, name: Text, order: Out<c_int>, wanted: NewImage) -> c_int {
    done(|| {
        let given = u64::try_from(order.read()?).map_err(|_| Errno(libc::EDOM))?;
        let got = create(ioctx, name, &NewImage { order: given, ..wanted })?;
        order.set(got.into())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_create(ioctx: Handle<IoCtx>, name: Text, size: u64, order: Out<c_int>) -> c_int {
    let wanted = NewImage::sized(size, None);
    create_with_order(ioctx, name, order, wanted)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_create2(
    ioctx: Handle<IoCtx>,
    name: Text,
    size: u64,
    features: u64,
    order: Out<c_int>,
) -> c_int {
    let wanted = NewImage::sized(size, Some(features));
    create_with_order(ioctx, name, order, wanted)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_create3(
    ioctx: Handle<IoCtx>,
    name: Text,
    size: u64,
    features: u64,
    order: Out<c_int>,
    stripe_unit: u64,
    stripe_count: u64,
) -> c_int {
    let wanted = NewImage { stripe_unit, stripe_count, ..NewImage::sized(size, Some(features)) };
    create_with_order(ioctx, name, order, wanted)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_create4(
    ioctx: Handle<IoCtx>,
    name: Text,
    size: u64,
    options: Handle<ImageOptions>,
) -> c_int {
    done(|| {
        let wanted = NewImage { size, ..NewImage::of(options.get()?)? };
        create(ioctx, name, &wanted).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_remove(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Ok(block_on(rbd::remove(&pool_of(ioctx)?, &name.text()?, |_, _| {}))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_remove_with_progress(
    ioctx: Handle<IoCtx>,
    name: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| {
        let (pool, name, answer) = (pool_of(ioctx)?, name.text()?, CallbackResult::default());
        run_until_refused(&answer, rbd::remove(&pool, &name, tell_and_ask(progress, argument, &answer)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_rename(ioctx: Handle<IoCtx>, from: Text, to: Text) -> c_int {
    done(|| Ok(block_on(pools::rename(&pool_of(ioctx)?, &from.text()?, &to.text()?))?))
}

fn resize(image: Handle<RbdImage>, size: u64, progress: Progress, argument: Opaque) -> Result<(), Errno> {
    let (image, answer) = (image.get()?, CallbackResult::default());
    image.check_head()?;
    let open = image.image()?;
    open.check_writable().map_err(|_| Errno::ROFS)?;
    let told = tell_objects(progress, argument, &answer, open.info().layout.object_size());
    // Of an encrypted image it is the size of the data, which only the open image knows.
    if open.is_encrypted() {
        return run_until_refused(&answer, open.resize(size, told));
    }
    image.change_until(
        async |pool, name| rbd::resize(pool, name, size, told).await,
        |work| run_until_refused(&answer, work),
    )
}

#[unsafe(no_mangle)]
extern "C" fn rbd_resize(image: Handle<RbdImage>, size: u64) -> c_int {
    done(|| resize(image, size, None, Opaque(std::ptr::null_mut())))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_resize_with_progress(
    image: Handle<RbdImage>,
    size: u64,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| resize(image, size, progress, argument))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_resize2(
    image: Handle<RbdImage>,
    size: u64,
    may_shrink: bool,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| {
        if !may_shrink && size < image.get()?.image()?.size() {
            return Err(Errno::INVAL);
        }
        resize(image, size, progress, argument)
    })
}
