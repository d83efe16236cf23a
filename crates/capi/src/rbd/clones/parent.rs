//! The snapshot that an image is a clone of.

use super::linked::{Linked, LinkedImage};
use crate::border::{Errno, Handle, In, Out, call, copied_text, done, free};
use crate::rbd::image::RbdImage;
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{ImageDetails, Parent};
use onego_ceph::cls::rbd::DirGetName;
use onego_ceph::rbd::DIRECTORY;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// A snapshot (`rbd_snap_spec_t`).
#[repr(C)]
struct SnapSpec {
    id: u64,
    kind: u32,
    name: *mut c_char,
}

/// A snapshot of an image, by all its names.
struct ParentSnapshot {
    image: Linked,
    id: u64,
    kind: u32,
    name: String,
}

async fn look_up(pool: &Pool, parent: &Parent) -> Result<ParentSnapshot, Error> {
    let home = pool.cluster().pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
    let in_trash = match home.call(DIRECTORY, &DirGetName { id: parent.image.clone() }).await {
        Ok(_) => false,
        Err(Error::NotFound { .. }) => true,
        Err(error) => return Err(error),
    };
    let details = ImageDetails::of_id(&home, &parent.image).await?;
    let snapshot = details.snapshot_by_id(parent.snapshot)?;
    let image = Linked {
        pool_id: parent.pool,
        pool: home.name().to_owned(),
        namespace: parent.namespace.clone(),
        id: parent.image.clone(),
        name: details.info.name.clone(),
        in_trash,
    };
    Ok(ParentSnapshot { image, id: snapshot.id, kind: snapshot.kind.kind(), name: snapshot.name.clone() })
}

/// The parent of what is shown; ENOENT of an image that is no clone.
fn parent(image: Handle<RbdImage>) -> Result<ParentSnapshot, Errno> {
    let image = image.get()?;
    let parent = match image.snapshot() {
        Some(_) => image.image()?.info().parent.clone(),
        None => image.details()?.info.parent,
    };
    Ok(block_on(look_up(image.pool(), &parent.ok_or(Errno::NOENT)?))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_parent(
    image: Handle<RbdImage>,
    parent_image: Out<LinkedImage>,
    snapshot: Out<SnapSpec>,
) -> c_int {
    done(|| {
        let found = parent(image)?;
        parent_image.set(found.image.copied()?)?;
        snapshot.set(SnapSpec { id: found.id, kind: found.kind, name: copied_text(&to_bytes(&found.name))? })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_spec_cleanup(snapshot: In<SnapSpec>) {
    call(|| {
        if let Some(snapshot) = snapshot.get() {
            free(snapshot.name.cast());
        }
        Ok(())
    });
}

/// Copies those of the names that are wanted.
fn copy_names(names: &[(Out<u8>, &str, usize)]) -> Result<(), Errno> {
    for (out, text, room) in names {
        if !out.is_null() {
            out.copy_text(&to_bytes(text), *room)?;
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_parent_info(
    image: Handle<RbdImage>,
    pool: Out<u8>,
    pool_len: usize,
    name: Out<u8>,
    name_len: usize,
    snapshot: Out<u8>,
    snapshot_len: usize,
) -> c_int {
    rbd_get_parent_info2(image, pool, pool_len, name, name_len, Out::NULL, 0, snapshot, snapshot_len)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_parent_info2(
    image: Handle<RbdImage>,
    pool: Out<u8>,
    pool_len: usize,
    name: Out<u8>,
    name_len: usize,
    id: Out<u8>,
    id_len: usize,
    snapshot: Out<u8>,
    snapshot_len: usize,
) -> c_int {
    done(|| {
        let found = parent(image)?;
        copy_names(&[
            (pool, &found.image.pool, pool_len),
            (name, &found.image.name, name_len),
            (id, &found.image.id, id_len),
            (snapshot, &found.name, snapshot_len),
        ])
    })
}
