//! The clones of an image, or of the snapshot that is shown.

use super::linked::{Linked, LinkedImage};
use crate::border::{Errno, Handle, In, Out, call, copied_text, done, fill, free};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::{give, joined};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::clones::{Child, children_of_id};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

fn children(image: &RbdImage) -> Result<Vec<Child>, Errno> {
    if image.known().is_old_format() {
        return Ok(Vec::new()); // there are no clones of such images
    }
    Ok(block_on(children_of_id(image.pool(), image.id(), image.snapshot()))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list_children(
    image: Handle<RbdImage>,
    pools: Out<u8>,
    pools_len: Out<usize>,
    images: Out<u8>,
    images_len: Out<usize>,
) -> isize {
    call(|| {
        let all = children(image.get()?)?;
        let shown = || all.iter().filter(|child| !child.in_trash);
        let filled = (
            fill(pools, pools_len, &joined(shown().map(|child| &child.pool))),
            fill(images, images_len, &joined(shown().map(|child| &child.image))),
        );
        filled.0.and(filled.1)?;
        Ok(shown().count() as isize)
    })
}

/// A clone (`rbd_child_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ChildInfo {
    pool: *mut c_char,
    image: *mut c_char,
    id: *mut c_char,
    in_trash: bool,
}

/// There must be room for one more: behind the last stands one without names.
#[unsafe(no_mangle)]
extern "C" fn rbd_list_children2(image: Handle<RbdImage>, infos: Out<ChildInfo>, most: Out<c_int>) -> c_int {
    call(|| {
        let mut all: Vec<Option<Child>> = children(image.get()?)?.into_iter().map(Some).collect();
        let count = all.len();
        all.push(None);
        give(infos, most, &all, |child| {
            let null = std::ptr::null_mut();
            let Some(child) = child else {
                return Ok(ChildInfo { pool: null, image: null, id: null, in_trash: false });
            };
            Ok(ChildInfo {
                pool: copied_text(&to_bytes(&child.pool))?,
                image: copied_text(&to_bytes(&child.image))?,
                id: copied_text(&to_bytes(&child.id))?,
                in_trash: child.in_trash,
            })
        })?;
        most.set(count as c_int)?;
        Ok(count as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list_child_cleanup(info: In<ChildInfo>) {
    rbd_list_children_cleanup(info, 1);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list_children_cleanup(infos: In<ChildInfo>, count: usize) {
    call(|| {
        for info in infos.slice(count)? {
            for text in [info.pool, info.image, info.id] {
                free(text.cast());
            }
        }
        Ok(())
    });
}

async fn linked(pool: &Pool, child: Child) -> Result<Linked, Error> {
    let pool_id = pool.cluster().pool(&child.pool).await?.id();
    let Child { pool, namespace, image: name, id, in_trash, .. } = child;
    Ok(Linked { pool_id, pool, namespace, id, name, in_trash })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list_children3(
    image: Handle<RbdImage>,
    images: Out<LinkedImage>,
    most: Out<usize>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let mut all = Vec::new();
        for child in children(image)? {
            all.push(block_on(linked(image.pool(), child))?);
        }
        give(images, most, &all, Linked::copied)
    })
}

/// Clones, and their clones, and so on.
async fn descendants(pool: &Pool, mut next: Vec<Child>) -> Result<Vec<Linked>, Error> {
    let mut all = Vec::new();
    while let Some(child) = next.pop() {
        let child = linked(pool, child).await?;
        let within = pool.cluster().pool(&child.pool).await?.in_namespace(&child.namespace);
        next.extend(children_of_id(&within, &child.id, None).await?);
        all.push(child);
    }
    all.sort();
    Ok(all)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list_descendants(
    image: Handle<RbdImage>,
    images: Out<LinkedImage>,
    most: Out<usize>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let all = block_on(descendants(image.pool(), children(image)?))?;
        give(images, most, &all, Linked::copied)
    })
}
