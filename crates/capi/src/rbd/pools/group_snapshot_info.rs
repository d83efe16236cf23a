//! All that is known of groups' snapshots.

use crate::border::{Errno, Handle, In, Out, Text, call, copied_array, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::{check_size, give};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::image_name;
use onego_ceph::cls::rbd::{DirGetId, GroupSnapList, GroupSnapshot, ImageSnapshotSpec, group_snapshot_state};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// A snapshot of an image that a group's is made of (`rbd_group_image_snap_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ImageSnap {
    image: *mut c_char,
    pool: i64,
    snapshot: u64,
}

/// A snapshot of a group (`rbd_group_snap_info2_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupSnapDetails {
    id: *mut c_char,
    name: *mut c_char,
    image_snap_name: *mut c_char,
    is_complete: c_int,
    /// The kind of the group's snapshots: a user asked for it.
    kind: c_int,
    images_count: usize,
    images: *mut ImageSnap,
}

/// The object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
const DIRECTORY: &str = "rbd_group_directory";

/// Snapshots asked for at a time.
const PAGE: u64 = 1024;

/// A group's snapshots, and its id.
async fn records(pool: &Pool, group: &str) -> Result<(String, Vec<GroupSnapshot>), Error> {
    let id = pool.call(DIRECTORY, &DirGetId { name: group.to_owned() }).await?;
    let header = format!("rbd_group_header.{id}");
    let mut all: Vec<GroupSnapshot> = Vec::new();
    loop {
        let after = all.last().cloned().unwrap_or_default();
        let page = pool.call(&header, &GroupSnapList { after, max: PAGE }).await?;
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok((id, all));
        }
    }
}

fn image_snap(pool: &Pool, part: &ImageSnapshotSpec) -> Result<ImageSnap, Errno> {
    let home = block_on(pool.cluster().pool_by_id(part.pool))?.in_namespace(pool.namespace());
    let name = block_on(image_name(&home, &part.image_id))?;
    Ok(ImageSnap { image: copied_text(&to_bytes(&name))?, pool: part.pool, snapshot: part.snap })
}

fn details(pool: &Pool, group: &str, record: &GroupSnapshot) -> Result<GroupSnapDetails, Errno> {
    let images = record.snaps.iter().map(|part| image_snap(pool, part)).collect::<Result<Vec<_>, _>>()?;
    // As the snapshots of the images are called.
    let image_snap_name = match images.is_empty() {
        true => String::new(),
        false => format!(".group.{:x}_{group}_{}", pool.id(), record.id),
    };
    Ok(GroupSnapDetails {
        id: copied_text(&to_bytes(&record.id))?,
        name: copied_text(&to_bytes(&record.name))?,
        image_snap_name: copied_text(&to_bytes(&image_snap_name))?,
        is_complete: (record.state == group_snapshot_state::COMPLETE).into(),
        kind: 0,
        images_count: images.len(),
        images: copied_array(&images)?,
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_get_info(
    ioctx: Handle<IoCtx>,
    group: Text,
    snapshot: Text,
    found: Out<GroupSnapDetails>,
) -> c_int {
    done(|| {
        let (pool, snapshot) = (pool_of(ioctx)?, snapshot.text()?);
        let (id, all) = block_on(records(&pool, &group.text()?))?;
        let record = all.iter().find(|record| record.name == snapshot).ok_or(Errno::NOENT)?;
        found.set(details(&pool, &id, record)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_get_info_cleanup(found: In<GroupSnapDetails>) {
    call(|| {
        if let Some(found) = found.get() {
            release(found)?;
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_list2(
    ioctx: Handle<IoCtx>,
    group: Text,
    snapshots: Out<GroupSnapDetails>,
    size: usize,
    most: Out<usize>,
) -> c_int {
    done(|| {
        check_size::<GroupSnapDetails>(size)?;
        let pool = pool_of(ioctx)?;
        let (id, all) = block_on(records(&pool, &group.text()?))?;
        give(snapshots, most, &all, |record| details(&pool, &id, record))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_list2_cleanup(
    snapshots: In<GroupSnapDetails>,
    size: usize,
    count: usize,
) -> c_int {
    done(|| {
        check_size::<GroupSnapDetails>(size)?;
        snapshots.slice(count)?.iter().try_for_each(release)
    })
}

fn release(found: &GroupSnapDetails) -> Result<(), Errno> {
    for image in In::at(found.images).slice(found.images_count)? {
        free(image.image.cast());
    }
    free(found.images.cast());
    for text in [found.id, found.name, found.image_snap_name] {
        free(text.cast());
    }
    Ok(())
}
