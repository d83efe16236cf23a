//! The trash of a pool.

use crate::border::{Errno, Handle, In, Opaque, Out, Text, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::give;
use crate::rbd::progress::{Progress, tell};
use crate::runtime::block_on;
use onego::rados::Pool;
use onego::rbd::pools::{
    TrashEntry, TrashPurge, TrashSource, move_to_trash, purge_trash, remove_from_trash, restore, trash,
};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};
use std::time::{Duration, SystemTime};

/// An image in the trash (`rbd_trash_image_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct TrashInfo {
    id: *mut c_char,
    name: *mut c_char,
    source: c_int,
    deleted: libc::time_t,
    kept_until: libc::time_t,
}

fn seconds(at: SystemTime) -> libc::time_t {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as libc::time_t)
}

fn info(entry: &TrashEntry) -> Result<TrashInfo, Errno> {
    let source = match entry.source {
        TrashSource::User => 0,
        TrashSource::Mirroring => 1,
        TrashSource::Migration => 2,
        TrashSource::Removing => 3,
        TrashSource::UserParent => 4,
        TrashSource::Other(number) => number.into(),
        _ => return Err(Errno::IO),
    };
    Ok(TrashInfo {
        id: copied_text(&to_bytes(&entry.id))?,
        name: copied_text(&to_bytes(&entry.name))?,
        source,
        deleted: seconds(entry.deleted),
        kept_until: seconds(entry.kept_until),
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_move(ioctx: Handle<IoCtx>, name: Text, delay: u64) -> c_int {
    done(|| Ok(block_on(move_to_trash(&pool_of(ioctx)?, &name.text()?, Duration::from_secs(delay)))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_get(ioctx: Handle<IoCtx>, id: Text, found: Out<TrashInfo>) -> c_int {
    done(|| {
        let (all, id) = (block_on(trash(&pool_of(ioctx)?))?, id.text()?);
        found.set(info(all.iter().find(|entry| entry.id == id).ok_or(Errno::NOENT)?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_get_cleanup(found: In<TrashInfo>) {
    rbd_trash_list_cleanup(found, 1);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_list(ioctx: Handle<IoCtx>, entries: Out<TrashInfo>, most: Out<usize>) -> c_int {
    call(|| {
        let all = block_on(trash(&pool_of(ioctx)?))?;
        give(entries, most, &all, info)?;
        Ok(all.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_list_cleanup(entries: In<TrashInfo>, count: usize) {
    call(|| {
        for entry in entries.slice(count)? {
            free(entry.id.cast());
            free(entry.name.cast());
        }
        Ok(())
    });
}

fn remove(
    ioctx: Handle<IoCtx>,
    id: Text,
    force: bool,
    told: impl FnMut(u64, u64) + Send,
) -> Result<(), Errno> {
    Ok(block_on(remove_from_trash(&pool_of(ioctx)?, &id.text()?, force, told))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_remove(ioctx: Handle<IoCtx>, id: Text, force: bool) -> c_int {
    done(|| remove(ioctx, id, force, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_remove_with_progress(
    ioctx: Handle<IoCtx>,
    id: Text,
    force: bool,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| remove(ioctx, id, force, tell(progress, argument)))
}

/// Without a name it has that of before.
#[unsafe(no_mangle)]
extern "C" fn rbd_trash_restore(ioctx: Handle<IoCtx>, id: Text, name: Text) -> c_int {
    done(|| {
        let name = name.text_or_empty();
        let name = Some(&*name).filter(|name| !name.is_empty());
        Ok(block_on(restore(&pool_of(ioctx)?, &id.text()?, name))?)
    })
}

/// Without a time, up to now. With a threshold that is not negative, the times do not count.
fn purge(
    pool: &Pool,
    before: libc::time_t,
    threshold: f32,
    told: impl FnMut(u64, u64) + Send,
) -> Result<(), Errno> {
    let which = if threshold >= 0.0 {
        TrashPurge::Room(threshold.into())
    } else {
        let since = Duration::from_secs(before.max(0).unsigned_abs());
        TrashPurge::KeptUntil(if before == 0 { SystemTime::now() } else { SystemTime::UNIX_EPOCH + since })
    };
    Ok(block_on(purge_trash(pool, which, told))?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_purge(ioctx: Handle<IoCtx>, before: libc::time_t, threshold: f32) -> c_int {
    done(|| purge(&pool_of(ioctx)?, before, threshold, |_, _| {}))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_trash_purge_with_progress(
    ioctx: Handle<IoCtx>,
    before: libc::time_t,
    threshold: f32,
    progress: Progress,
    argument: Opaque,
) -> c_int {
    done(|| purge(&pool_of(ioctx)?, before, threshold, tell(progress, argument)))
}
