//! Clones become images of their own.

use crate::border::{Errno, Handle, Opaque, done};
use crate::rbd::image::RbdImage;
use crate::rbd::progress::{CallbackResult, Progress, run_until_refused, tell_and_ask};
use onego::rbd::clones;
use std::ffi::c_int;

fn flatten(image: Handle<RbdImage>, progress: Progress, argument: Opaque) -> Result<(), Errno> {
    let (image, answer) = (image.get()?, CallbackResult::default());
    image.check_head()?;
    let told = tell_and_ask(progress, argument, &answer);
    image.change_until(
        async |pool, name| clones::flatten(pool, name, told).await,
        |work| run_until_refused(&answer, work),
    )
}

#[unsafe(no_mangle)]
extern "C" fn rbd_flatten(image: Handle<RbdImage>) -> c_int {
    done(|| flatten(image, None, Opaque(std::ptr::null_mut())))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_flatten_with_progress(
    image: Handle<RbdImage>,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| flatten(image, progress, argument))
}
