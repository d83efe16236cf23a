//! The life of images: created, resized, removed.

use super::image::RbdImage;
use super::options::{ImageOptions, option};
use crate::border::{Errno, Handle, Opaque, Out, Text, done};
use crate::rados::IoCtx;
use crate::runtime::block_on;
use onego::rbd::{self, CreateOptions, Features, Layout};
use std::ffi::c_int;

/// A program's function that is told how far something is.
type Progress = Option<extern "C" fn(u64, u64, Opaque) -> c_int>;

/// What a caller leaves open of a new image.
struct NewImage {
    size: u64,
    features: Option<u64>,
    order: u64,
    stripe_unit: u64,
    stripe_count: u64,
    data_pool: Option<String>,
}

impl NewImage {
    fn sized(size: u64, features: Option<u64>) -> Self {
        Self { size, features, order: 0, stripe_unit: 0, stripe_count: 0, data_pool: None }
    }
}

/// Creates an image; gives its order.
fn create(ioctx: Handle<IoCtx>, name: Text, wanted: &NewImage) -> Result<u8, Errno> {
    let ioctx = ioctx.get()?;
    let conf = ioctx.rados().conf().clone();
    let setting = |value: u64, name: &str, otherwise: u64| match value {
        0 => conf.number(name).filter(|value| *value > 0).unwrap_or(otherwise),
        value => value,
    };
    let order = setting(wanted.order, "rbd_default_order", 22);
    let order = u8::try_from(order).map_err(|_| Errno(libc::EDOM))?;
    let unit = setting(wanted.stripe_unit, "rbd_default_stripe_unit", 0);
    let count = setting(wanted.stripe_count, "rbd_default_stripe_count", 0);
    let layout = match (unit, count) {
        (0, 0 | 1) => Layout::plain(order),
        (0, _) | (_, 0) => return Err(Errno::INVAL),
        (unit, count) => Layout::striped(order, unit, count),
    };
    let features = match wanted.features {
        Some(features) => Features(features).without(Features::STRIPING),
        // Those of the defaults that can be kept true.
        None => Features(conf.number("rbd_default_features").unwrap_or(61) & Features::WRITABLE.0),
    };
    let layout = layout.map_err(|_| Errno(libc::EDOM))?;
    let mut options = CreateOptions::new(wanted.size).with_layout(layout).with_features(features);
    let default_pool = || conf.get("rbd_default_data_pool").filter(|name| !name.is_empty());
    if let Some(name) = wanted.data_pool.clone().or_else(default_pool) {
        options = options.with_data_pool(block_on(ioctx.client().cluster().pool(&name))?);
    }
    block_on(rbd::create(&ioctx.pool()?, &name.text()?, &options))?;
    Ok(order)
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
        let options = options.get()?;
        let number = |option| options.number(option).unwrap_or(0);
        let cleared = number(option::FEATURES_CLEAR);
        let wanted = NewImage {
            size,
            features: options.number(option::FEATURES).map(|features| features & !cleared),
            order: number(option::ORDER),
            stripe_unit: number(option::STRIPE_UNIT),
            stripe_count: number(option::STRIPE_COUNT),
            data_pool: options.text(option::DATA_POOL),
        };
        create(ioctx, name, &wanted).map(drop)
    })
}

/// Tells a program how far something is. What it answers is not listened to.
fn tell(progress: Progress, argument: Opaque) -> impl FnMut(u64, u64) {
    move |done, all| {
        if let Some(progress) = progress {
            progress(done, all, argument);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_remove(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Ok(block_on(rbd::remove(&ioctx.get()?.pool()?, &name.text()?, |_, _| {}))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_remove_with_progress(
    ioctx: Handle<IoCtx>,
    name: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| Ok(block_on(rbd::remove(&ioctx.get()?.pool()?, &name.text()?, tell(progress, argument)))?))
}

fn resize(image: Handle<RbdImage>, size: u64, told: impl FnMut(u64, u64)) -> Result<(), Errno> {
    let image = image.get()?;
    image.image.check_writable().map_err(|_| Errno::ROFS)?;
    block_on(rbd::resize(image.pool(), &image.image.info().name, size, told))?;
    // Its own watch tells it of the size, too, a moment later.
    Ok(block_on(image.image.refresh())?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_resize(image: Handle<RbdImage>, size: u64) -> c_int {
    done(|| resize(image, size, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_resize_with_progress(
    image: Handle<RbdImage>,
    size: u64,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| resize(image, size, tell(progress, argument)))
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
        if !may_shrink && size < image.get()?.image.size() {
            return Err(Errno::INVAL);
        }
        resize(image, size, tell(progress, argument))
    })
}
