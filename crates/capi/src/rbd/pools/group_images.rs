//! The images of groups.

use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::{check_size, give};
use crate::runtime::block_on;
use onego::rbd::image_name;
use onego::rbd::pools::{GroupImage, add_to_group, group_images, remove_from_group};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn rbd_group_image_add(
    group_ioctx: Handle<IoCtx>,
    group: Text,
    image_ioctx: Handle<IoCtx>,
    image: Text,
) -> c_int {
    done(|| {
        let (group_pool, image_pool) = (pool_of(group_ioctx)?, pool_of(image_ioctx)?);
        let (group, image) = (group.text()?, image.text()?);
        Ok(block_on(add_to_group((&group_pool, &group), (&image_pool, &image)))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_image_remove(
    group_ioctx: Handle<IoCtx>,
    group: Text,
    image_ioctx: Handle<IoCtx>,
    image: Text,
) -> c_int {
    done(|| {
        let (group_pool, image_pool) = (pool_of(group_ioctx)?, pool_of(image_ioctx)?);
        let (group, image) = (group.text()?, image.text()?);
        Ok(block_on(remove_from_group((&group_pool, &group), (&image_pool, &image)))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_image_remove_by_id(
    group_ioctx: Handle<IoCtx>,
    group: Text,
    image_ioctx: Handle<IoCtx>,
    id: Text,
) -> c_int {
    done(|| {
        let (group_pool, image_pool) = (pool_of(group_ioctx)?, pool_of(image_ioctx)?);
        let image = block_on(image_name(&image_pool, &id.text()?))?;
        Ok(block_on(remove_from_group((&group_pool, &group.text()?), (&image_pool, &image)))?)
    })
}

/// An image of a group (`rbd_group_image_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ImageOfGroup {
    name: *mut c_char,
    pool: i64,
    state: c_int,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_image_list(
    ioctx: Handle<IoCtx>,
    group: Text,
    images: Out<ImageOfGroup>,
    size: usize,
    most: Out<usize>,
) -> c_int {
    call(|| {
        check_size::<ImageOfGroup>(size)?;
        let pool = pool_of(ioctx)?;
        let all = block_on(group_images(&pool, &group.text()?))?;
        give(images, most, &all, |image: &GroupImage| {
            Ok(ImageOfGroup {
                name: copied_text(&to_bytes(&image.image))?,
                pool: block_on(pool.cluster().pool(&image.pool))?.id(),
                state: image.is_incomplete.into(),
            })
        })?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_image_list_cleanup(images: In<ImageOfGroup>, size: usize, count: usize) -> c_int {
    done(|| -> Result<(), Errno> {
        check_size::<ImageOfGroup>(size)?;
        for image in images.slice(count)? {
            free(image.name.cast());
        }
        Ok(())
    })
}
