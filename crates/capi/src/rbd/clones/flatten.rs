//! Clones become images of their own.

use crate::border::{Errno, Handle, Opaque, done};
use crate::rbd::image::RbdImage;
use crate::rbd::progress::{Progress, tell};
use onego::rbd::clones;
use std::ffi::c_int;

fn flatten(image: Handle<RbdImage>, told: impl FnMut(u64, u64)) -> Result<(), Errno> {
    let image = image.get()?;
    image.check_head()?;
    image.change(async |pool, name| clones::flatten(pool, name, told).await)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_flatten(image: Handle<RbdImage>) -> c_int {
    done(|| flatten(image, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_flatten_with_progress(
    image: Handle<RbdImage>,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| flatten(image, tell(progress, argument)))
}
