//! The snapshots of groups.

use crate::border::{Errno, Handle, In, Opaque, Out, Text, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::{check_size, give};
use crate::rbd::progress::{Progress, tell};
use crate::rbd::snapshots::quiesce;
use crate::runtime::block_on;
use onego::rbd::pools::{
    create_group_snapshot, group_snapshots, remove_group_snapshot, rename_group_snapshot, rollback_group,
};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_create(ioctx: Handle<IoCtx>, group: Text, snapshot: Text) -> c_int {
    rbd_group_snap_create2(ioctx, group, snapshot, 0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_create2(ioctx: Handle<IoCtx>, group: Text, snapshot: Text, flags: u32) -> c_int {
    done(|| {
        let (pool, quiesce) = (pool_of(ioctx)?, quiesce(flags)?);
        Ok(block_on(create_group_snapshot(&pool, &group.text()?, &snapshot.text()?, quiesce))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_remove(ioctx: Handle<IoCtx>, group: Text, snapshot: Text) -> c_int {
    done(|| Ok(block_on(remove_group_snapshot(&pool_of(ioctx)?, &group.text()?, &snapshot.text()?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_rename(ioctx: Handle<IoCtx>, group: Text, from: Text, to: Text) -> c_int {
    done(|| {
        let (group, from, to) = (group.text()?, from.text()?, to.text()?);
        Ok(block_on(rename_group_snapshot(&pool_of(ioctx)?, &group, &from, &to))?)
    })
}

/// A snapshot of a group (`rbd_group_snap_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupSnap {
    name: *mut c_char,
    is_complete: c_int,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_list(
    ioctx: Handle<IoCtx>,
    group: Text,
    snapshots: Out<GroupSnap>,
    size: usize,
    most: Out<usize>,
) -> c_int {
    call(|| {
        check_size::<GroupSnap>(size)?;
        let all = block_on(group_snapshots(&pool_of(ioctx)?, &group.text()?))?;
        give(snapshots, most, &all, |(name, is_complete)| {
            Ok(GroupSnap { name: copied_text(&to_bytes(name))?, is_complete: (*is_complete).into() })
        })?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_list_cleanup(snapshots: In<GroupSnap>, size: usize, count: usize) -> c_int {
    done(|| {
        check_size::<GroupSnap>(size)?;
        for snapshot in snapshots.slice(count)? {
            free(snapshot.name.cast());
        }
        Ok(())
    })
}

fn rollback(
    ioctx: Handle<IoCtx>,
    group: Text,
    snapshot: Text,
    told: impl FnMut(u64, u64) + Send,
) -> Result<(), Errno> {
    Ok(block_on(rollback_group(&pool_of(ioctx)?, &group.text()?, &snapshot.text()?, told))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_rollback(ioctx: Handle<IoCtx>, group: Text, snapshot: Text) -> c_int {
    done(|| rollback(ioctx, group, snapshot, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_snap_rollback_with_progress(
    ioctx: Handle<IoCtx>,
    group: Text,
    snapshot: Text,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| rollback(ioctx, group, snapshot, tell(progress, argument)))
}
