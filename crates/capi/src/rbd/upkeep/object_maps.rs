//! Maps of objects are made anew; blocks of zeros give their room back.

use crate::border::{Errno, Handle, Opaque, done};
use crate::rbd::image::RbdImage;
use crate::rbd::progress::{CallbackResult, Progress, run_until_refused, tell, tell_and_ask};
use onego::rbd::upkeep;
use std::ffi::c_int;

/// Of a snapshot that is shown, the map of that alone.
#[unsafe(no_mangle)]
extern "C" fn rbd_rebuild_object_map(image: Handle<RbdImage>, progress: Progress, argument: Opaque) -> c_int {
    done(|| {
        let image = image.get()?;
        let snapshot = match image.snapshot() {
            Some(id) => Some(image.details()?.snapshot_by_id(id)?.name.clone()),
            None => None,
        };
        image.change(async |pool, name| {
            upkeep::rebuild_object_map(pool, name, snapshot.as_deref(), tell(progress, argument)).await
        })
    })
}

fn sparsify(
    image: Handle<RbdImage>,
    block: usize,
    progress: Progress,
    argument: Opaque,
) -> Result<(), Errno> {
    let (image, answer) = (image.get()?, CallbackResult::default());
    image.check_head()?;
    let told = tell_and_ask(progress, argument, &answer);
    image.change_until(
        async |pool, name| upkeep::sparsify(pool, name, block as u64, told).await,
        |work| run_until_refused(&answer, work),
    )
}

#[unsafe(no_mangle)]
extern "C" fn rbd_sparsify(image: Handle<RbdImage>, block: usize) -> c_int {
    done(|| sparsify(image, block, None, Opaque(std::ptr::null_mut())))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_sparsify_with_progress(
    image: Handle<RbdImage>,
    block: usize,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| sparsify(image, block, progress, argument))
}
