//! Clones are made.

use crate::border::{Errno, Handle, Out, Text, done};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::new_image::NewImage;
use crate::rbd::options::ImageOptions;
use crate::runtime::block_on;
use onego::rbd::{self, clones};
use std::ffi::c_int;

/// A snapshot by its name or its number.
enum SnapshotKey {
    Name(Text),
    Id(u64),
}

/// An image in the pool of a handle.
#[derive(Clone, Copy)]
struct Named {
    ioctx: Handle<IoCtx>,
    name: Text,
}

/// Makes a clone.
fn clone(parent: Named, snapshot: &SnapshotKey, child: Named, wanted: &NewImage) -> Result<(), Errno> {
    let (pool, name) = (pool_of(parent.ioctx)?, parent.name.text()?);
    let (child_pool, child_name) = (pool_of(child.ioctx)?, child.name.text()?);
    let info = block_on(rbd::info(&pool, &name))?;
    let options = wanted.options(child.ioctx.get()?, Some(&info))?;
    let format = wanted.clone_format(child.ioctx.get()?);
    let child = (&child_pool, &*child_name);
    match snapshot {
        SnapshotKey::Name(snapshot) => {
            let snapshot = snapshot.text()?;
            block_on(clones::clone((&pool, &name, &snapshot), child, &options, format))?;
        }
        SnapshotKey::Id(id) => {
            block_on(clones::clone_by_id((&pool, &name, *id), child, &options, format))?;
        }
    }
    Ok(())
}

/// Makes a clone with the order that is given, or with the parent's. Which one it got is not said.
fn clone_with_order(
    parent: Named,
    snapshot: Text,
    child: Named,
    order: Out<c_int>,
    wanted: NewImage,
) -> c_int {
    done(|| {
        let given = u64::try_from(order.read()?).map_err(|_| Errno(libc::EDOM))?;
        let wanted = NewImage { order: given, ..wanted };
        clone(parent, &SnapshotKey::Name(snapshot), child, &wanted)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_clone(
    parent_ioctx: Handle<IoCtx>,
    parent: Text,
    snapshot: Text,
    child_ioctx: Handle<IoCtx>,
    child: Text,
    features: u64,
    order: Out<c_int>,
) -> c_int {
    let parent = Named { ioctx: parent_ioctx, name: parent };
    let child = Named { ioctx: child_ioctx, name: child };
    clone_with_order(parent, snapshot, child, order, NewImage::sized(0, Some(features)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_clone2(
    parent_ioctx: Handle<IoCtx>,
    parent: Text,
    snapshot: Text,
    child_ioctx: Handle<IoCtx>,
    child: Text,
    features: u64,
    order: Out<c_int>,
    stripe_unit: u64,
    stripe_count: c_int,
) -> c_int {
    let parent = Named { ioctx: parent_ioctx, name: parent };
    let child = Named { ioctx: child_ioctx, name: child };
    let stripe_count = u64::try_from(stripe_count).unwrap_or(0);
    let wanted = NewImage { stripe_unit, stripe_count, ..NewImage::sized(0, Some(features)) };
    clone_with_order(parent, snapshot, child, order, wanted)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_clone3(
    parent_ioctx: Handle<IoCtx>,
    parent: Text,
    snapshot: Text,
    child_ioctx: Handle<IoCtx>,
    child: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    done(|| {
        let parent = Named { ioctx: parent_ioctx, name: parent };
        let child = Named { ioctx: child_ioctx, name: child };
        let wanted = NewImage::of(options.get()?)?;
        clone(parent, &SnapshotKey::Name(snapshot), child, &wanted)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_clone4(
    parent_ioctx: Handle<IoCtx>,
    parent: Text,
    snapshot: u64,
    child_ioctx: Handle<IoCtx>,
    child: Text,
    options: Handle<ImageOptions>,
) -> c_int {
    done(|| {
        let parent = Named { ioctx: parent_ioctx, name: parent };
        let child = Named { ioctx: child_ioctx, name: child };
        clone(parent, &SnapshotKey::Id(snapshot), child, &NewImage::of(options.get()?)?)
    })
}
