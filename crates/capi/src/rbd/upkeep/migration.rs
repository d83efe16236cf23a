//! Moves of images while they are used, and imports.

use crate::border::{Handle, Opaque, Text, done};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::new_image::NewImage;
use crate::rbd::options::ImageOptions;
use crate::rbd::progress::{Progress, tell};
use crate::runtime::block_on;
use onego::rbd::{self, ImageFormat, migration};
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_prepare(
    ioctx: Handle<IoCtx>,
    image: Text,
    to_ioctx: Handle<IoCtx>,
    to: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    done(|| {
        let (pool, image) = (pool_of(ioctx)?, image.text()?);
        let (to_pool, to) = (pool_of(to_ioctx)?, to.text()?);
        let info = block_on(rbd::info(&pool, &image))?;
        let wanted = NewImage::of(options.get()?)?;
        let new = wanted.options(to_ioctx.get()?, Some(&info))?;
        Ok(block_on(migration::prepare((&pool, &image), (&to_pool, &to), &new, wanted.copy_kind()))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_prepare_import(
    source_spec: Text,
    ioctx: Handle<IoCtx>,
    image: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    done(|| {
        let (spec, pool, image) = (source_spec.text()?.parse()?, pool_of(ioctx)?, image.text()?);
        let mut wanted = NewImage::of(options.get()?)?;
        // As in librbd, the configuration has no say in it.
        wanted.image_format.get_or_insert(ImageFormat::V2);
        let new = wanted.options(ioctx.get()?, None)?;
        Ok(block_on(migration::prepare_import(&spec, (&pool, &image), &new))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_execute(ioctx: Handle<IoCtx>, image: Text) -> c_int {
    rbd_migration_execute_with_progress(ioctx, image, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_execute_with_progress(
    ioctx: Handle<IoCtx>,
    image: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| Ok(block_on(migration::execute(&pool_of(ioctx)?, &image.text()?, tell(progress, argument)))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_abort(ioctx: Handle<IoCtx>, image: Text) -> c_int {
    rbd_migration_abort_with_progress(ioctx, image, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_abort_with_progress(
    ioctx: Handle<IoCtx>,
    image: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| Ok(block_on(migration::abort(&pool_of(ioctx)?, &image.text()?, tell(progress, argument)))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_commit(ioctx: Handle<IoCtx>, image: Text) -> c_int {
    rbd_migration_commit_with_progress(ioctx, image, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_commit_with_progress(
    ioctx: Handle<IoCtx>,
    image: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| Ok(block_on(migration::commit(&pool_of(ioctx)?, &image.text()?, tell(progress, argument)))?))
}
