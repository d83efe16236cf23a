//! Lists of the images of a pool that are mirrored. They are given where there are none, and are refused where there are some.

use super::images::MirrorInfo;
use super::status::{GlobalStatus, ImageStatus};
use crate::border::{Errno, Handle, In, Out, Text, call, done, free};
use crate::missing::no_mirroring;
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::runtime::block_on;
use onego::rbd::pools::mirroring;
use std::ffi::{c_char, c_int};

/// Says that no image behind the one with the id `after` is mirrored.
fn give_none(
    ioctx: Handle<IoCtx>,
    after: Text,
    len: Out<usize>,
    function: &'static str,
) -> Result<(), Errno> {
    if block_on(mirroring::has_images(&pool_of(ioctx)?, &after.text_or_empty()))? {
        return Err(no_mirroring(function));
    }
    len.set(0)
}

fn free_texts(texts: In<*mut c_char>, len: usize) -> Result<(), Errno> {
    for text in texts.slice(len)? {
        free(text.cast());
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_global_status_list(
    ioctx: Handle<IoCtx>,
    after: Text,
    _most: usize,
    _ids: Out<*mut c_char>,
    _statuses: Out<GlobalStatus>,
    len: Out<usize>,
) -> c_int {
    done(|| give_none(ioctx, after, len, "rbd_mirror_image_global_status_list"))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_global_status_list_cleanup(
    ids: In<*mut c_char>,
    statuses: In<GlobalStatus>,
    len: usize,
) {
    call(|| {
        free_texts(ids, len)?;
        statuses.slice(len)?.iter().try_for_each(GlobalStatus::free)
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_status_list(
    ioctx: Handle<IoCtx>,
    after: Text,
    _most: usize,
    _ids: Out<*mut c_char>,
    _statuses: Out<ImageStatus>,
    len: Out<usize>,
) -> c_int {
    done(|| give_none(ioctx, after, len, "rbd_mirror_image_status_list"))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_status_list_cleanup(
    ids: In<*mut c_char>,
    statuses: In<ImageStatus>,
    len: usize,
) {
    call(|| {
        free_texts(ids, len)?;
        statuses.slice(len)?.iter().for_each(ImageStatus::free);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_instance_id_list(
    ioctx: Handle<IoCtx>,
    after: Text,
    _most: usize,
    _ids: Out<*mut c_char>,
    _instances: Out<*mut c_char>,
    len: Out<usize>,
) -> c_int {
    done(|| give_none(ioctx, after, len, "rbd_mirror_image_instance_id_list"))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_instance_id_list_cleanup(
    ids: In<*mut c_char>,
    instances: In<*mut c_char>,
    len: usize,
) {
    call(|| {
        free_texts(ids, len)?;
        free_texts(instances, len)
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_info_list(
    ioctx: Handle<IoCtx>,
    _mode: In<c_int>,
    after: Text,
    _most: usize,
    _ids: Out<*mut c_char>,
    _modes: Out<c_int>,
    _infos: Out<MirrorInfo>,
    len: Out<usize>,
) -> c_int {
    done(|| give_none(ioctx, after, len, "rbd_mirror_image_info_list"))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_info_list_cleanup(ids: In<*mut c_char>, infos: In<MirrorInfo>, len: usize) {
    call(|| {
        free_texts(ids, len)?;
        infos.slice(len)?.iter().for_each(MirrorInfo::free);
        Ok(())
    });
}

/// How many images are in which state: counted by the cluster, also where there are some.
#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_status_summary(
    ioctx: Handle<IoCtx>,
    states: Out<c_int>,
    counts: Out<c_int>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let summary = block_on(mirroring::status_summary(&pool_of(ioctx)?))?;
        let room = len.read()?;
        let known: Vec<c_int> = summary.keys().map(|state| c_int::from(*state)).collect();
        states.copy(&known, room)?;
        counts.copy(&summary.into_values().collect::<Vec<_>>(), room)?;
        len.set(known.len())
    })
}
