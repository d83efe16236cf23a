//! Snapshots are made, renamed, protected, rolled back to, removed.

use crate::border::{Errno, Handle, Opaque, Text, done};
use crate::rbd::image::RbdImage;
use crate::rbd::locks::is_owned_elsewhere;
use crate::rbd::progress::{Progress, tell};
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{ImageDetails, clones, snapshots};
use std::ffi::c_int;

/// Flags of a new snapshot (`RBD_SNAP_CREATE_*`).
const SKIP_QUIESCE: u32 = 1;
const IGNORE_QUIESCE_ERROR: u32 = 2;

/// Flags of a removal (`RBD_SNAP_REMOVE_*`).
const REMOVE_UNPROTECT: u32 = 1;
const REMOVE_FLATTEN: u32 = 2;

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_create(image: Handle<RbdImage>, name: Text) -> c_int {
    rbd_snap_create2(image, name, 0, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_create2(
    image: Handle<RbdImage>,
    name: Text,
    flags: u32,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| {
        let quiesce = quiesce(flags)?;
        let snapshot = name.text()?;
        image.get()?.change(async |pool, name| {
            snapshots::create_quiesced(pool, name, &snapshot, quiesce).await?;
            tell(progress, argument)(1, 1);
            Ok(())
        })
    })
}

/// What a program says by flags of the quiescing before a snapshot.
pub(in crate::rbd) fn quiesce(flags: u32) -> Result<snapshots::Quiesce, Errno> {
    match flags {
        0 => Ok(snapshots::Quiesce::Must),
        SKIP_QUIESCE => Ok(snapshots::Quiesce::Skip),
        IGNORE_QUIESCE_ERROR => Ok(snapshots::Quiesce::May),
        _ => Err(Errno::INVAL),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_remove(image: Handle<RbdImage>, name: Text) -> c_int {
    rbd_snap_remove2(image, name, 0, None, Opaque(std::ptr::null_mut()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_remove2(
    image: Handle<RbdImage>,
    name: Text,
    flags: u32,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| {
        let snapshot = name.text()?;
        image.get()?.change(async |pool, name| {
            let known = ImageDetails::of(pool, name).await?;
            let known = known.snapshot(&snapshot)?;
            if flags & REMOVE_FLATTEN != 0 {
                flatten_children(pool, name, &snapshot, tell(progress, argument)).await?;
            }
            if flags & REMOVE_UNPROTECT != 0 && known.is_protected() {
                snapshots::unprotect(pool, name, &snapshot).await?;
            }
            snapshots::remove(pool, name, &snapshot).await
        })
    })
}

/// Ends that a snapshot has clones.
async fn flatten_children(
    pool: &Pool,
    image: &str,
    snapshot: &str,
    mut told: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let children = clones::children(pool, image, Some(snapshot)).await?;
    let all = children.len() as u64;
    for (done, child) in children.iter().enumerate() {
        let within = pool.cluster().pool(&child.pool).await?.in_namespace(&child.namespace);
        clones::flatten(&within, &child.image, |_, _| {}).await?;
        told(done as u64 + 1, all);
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_remove_by_id(image: Handle<RbdImage>, id: u64) -> c_int {
    done(|| image.get()?.change(async |pool, name| snapshots::remove_by_id(pool, name, id).await))
}

fn rollback(image: Handle<RbdImage>, snapshot: Text, told: impl FnMut(u64, u64) + Send) -> Result<(), Errno> {
    let (image, snapshot) = (image.get()?, snapshot.text()?);
    image.check_head()?;
    // A rollback takes the lock for itself, and no other client is asked for it.
    let open = image.image()?;
    if open.is_lock_owner() {
        crate::runtime::block_on(open.unlock())?;
    } else if is_owned_elsewhere(image)? {
        return Err(Errno::ROFS);
    }
    image.change(async |pool, name| snapshots::rollback(pool, name, &snapshot, told).await)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_rollback(image: Handle<RbdImage>, name: Text) -> c_int {
    done(|| rollback(image, name, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_rollback_with_progress(
    image: Handle<RbdImage>,
    name: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| rollback(image, name, tell(progress, argument)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_rename(image: Handle<RbdImage>, from: Text, to: Text) -> c_int {
    done(|| {
        let (from, to) = (from.text()?, to.text()?);
        image.get()?.change(async |pool, name| snapshots::rename(pool, name, &from, &to).await)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_protect(image: Handle<RbdImage>, name: Text) -> c_int {
    done(|| {
        let snapshot = name.text()?;
        image.get()?.change(async |pool, name| snapshots::protect(pool, name, &snapshot).await)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_unprotect(image: Handle<RbdImage>, name: Text) -> c_int {
    done(|| {
        let snapshot = name.text()?;
        image.get()?.change(async |pool, name| snapshots::unprotect(pool, name, &snapshot).await)
    })
}
