//! What is known of an image.

use super::image::RbdImage;
use super::lists::check_size;
use crate::border::{Errno, Handle, In, Out, call, copied_text, done, fill, free};
use crate::runtime::block_on;
use onego::rbd::{ImageDetails, ImageInfo};
use onego_ceph::cls::rbd::DirGetName;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};
use std::time::SystemTime;

/// The sizes of an image (`rbd_image_info_t`); of the deprecated fields the first is set, and the others say "no parent".
#[repr(C)]
struct Stat {
    size: u64,
    obj_size: u64,
    num_objs: u64,
    order: c_int,
    block_name_prefix: [u8; 24],
    parent_pool: i64,
    parent_name: [u8; 96],
}

#[unsafe(no_mangle)]
extern "C" fn rbd_version(major: Out<c_int>, minor: Out<c_int>, extra: Out<c_int>) {
    major.set_if_wanted(1);
    minor.set_if_wanted(20);
    extra.set_if_wanted(0);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_stat(image: Handle<RbdImage>, stat: Out<Stat>, _len: usize) -> c_int {
    done(|| {
        let image = image.get()?.image()?;
        let (info, size) = (image.info(), image.size());
        let mut block_name_prefix = [0; 24];
        let shown = info.object_prefix.len().min(block_name_prefix.len() - 1);
        block_name_prefix[..shown].copy_from_slice(&to_bytes(&info.object_prefix)[..shown]);
        stat.set(Stat {
            size,
            obj_size: info.layout.object_size(),
            num_objs: info.layout.objects(size),
            order: info.layout.order().into(),
            block_name_prefix,
            parent_pool: -1,
            parent_name: [0; 96],
        })
    })
}

/// Says something of an image that never changes.
fn tell<T>(image: Handle<RbdImage>, out: Out<T>, what: impl FnOnce(&ImageInfo) -> T) -> c_int {
    done(|| out.set(what(image.get()?.image()?.info())))
}

/// Says something of an image as its header has it now.
fn tell_now<T>(image: Handle<RbdImage>, out: Out<T>, what: impl FnOnce(&ImageDetails) -> T) -> c_int {
    done(|| out.set(what(&image.get()?.details()?)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_size(image: Handle<RbdImage>, size: Out<u64>) -> c_int {
    done(|| size.set(image.get()?.image()?.size()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_old_format(image: Handle<RbdImage>, old: Out<u8>) -> c_int {
    tell(image, old, |info| info.is_old_format().into())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_features(image: Handle<RbdImage>, features: Out<u64>) -> c_int {
    tell_now(image, features, |details| details.info.features.0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_op_features(image: Handle<RbdImage>, features: Out<u64>) -> c_int {
    tell_now(image, features, |details| details.op_features)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_flags(image: Handle<RbdImage>, flags: Out<u64>) -> c_int {
    done(|| {
        let image = image.get()?;
        let details = image.details()?;
        flags.set(match image.snapshot() {
            Some(snapshot) => details.snapshot_by_id(snapshot)?.flags,
            None => details.flags,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_stripe_unit(image: Handle<RbdImage>, unit: Out<u64>) -> c_int {
    tell(image, unit, |info| info.layout.stripe_unit())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_stripe_count(image: Handle<RbdImage>, count: Out<u64>) -> c_int {
    tell(image, count, |info| info.layout.stripe_count())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_overlap(image: Handle<RbdImage>, overlap: Out<u64>) -> c_int {
    done(|| {
        let image = image.get()?;
        let details = image.details()?;
        let shown = match image.snapshot() {
            Some(snapshot) => details.snapshot_by_id(snapshot)?.overlap,
            None => details.info.parent.map(|parent| parent.overlap),
        };
        overlap.set(shown.unwrap_or(0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_data_pool_id(image: Handle<RbdImage>) -> i64 {
    call(|| {
        let image = image.get()?;
        Ok(image.image()?.info().data_pool.unwrap_or_else(|| image.pool().id()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_id(image: Handle<RbdImage>, id: Out<u8>, len: usize) -> c_int {
    done(|| {
        let image = image.get()?;
        if image.known().is_old_format() {
            return Err(Errno::INVAL); // such an image has none
        }
        id.copy_text(&to_bytes(image.id()), len)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_block_name_prefix(image: Handle<RbdImage>, prefix: Out<u8>, len: usize) -> c_int {
    done(|| prefix.copy_text(&to_bytes(&image.get()?.image()?.info().object_prefix), len))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_name(image: Handle<RbdImage>, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| fill(name, len, &[&*to_bytes(&image.get()?.name()?), b"\0"].concat()))
}

/// A time as C has it; all zeros: it is not known.
pub(super) fn timespec(time: Option<SystemTime>) -> libc::timespec {
    let age = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
    libc::timespec { tv_sec: age.as_secs() as i64, tv_nsec: age.subsec_nanos().into() }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_create_timestamp(image: Handle<RbdImage>, time: Out<libc::timespec>) -> c_int {
    tell(image, time, |info| timespec(info.created))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_access_timestamp(image: Handle<RbdImage>, time: Out<libc::timespec>) -> c_int {
    tell_now(image, time, |details| timespec(details.accessed))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_modify_timestamp(image: Handle<RbdImage>, time: Out<libc::timespec>) -> c_int {
    tell_now(image, time, |details| timespec(details.modified))
}

/// The group that an image is in (`rbd_group_info_t`).
#[repr(C)]
struct GroupInfo {
    name: *mut c_char,
    pool: i64,
}

/// The object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
const GROUPS: &str = "rbd_group_directory";

#[unsafe(no_mangle)]
extern "C" fn rbd_get_group(image: Handle<RbdImage>, group: Out<GroupInfo>, size: usize) -> c_int {
    done(|| {
        check_size::<GroupInfo>(size)?;
        let image = image.get()?;
        // Number -1: it is in none (`RBD_GROUP_INVALID_POOL`).
        let Some((pool, id)) = image.details()?.group else {
            return group.set(GroupInfo { name: copied_text(b"")?, pool: -1 });
        };
        let within = block_on(image.client().cluster().pool_by_id(pool))?;
        let within = within.in_namespace(image.pool().namespace());
        let name = block_on(within.call(GROUPS, &DirGetName { id }))?;
        group.set(GroupInfo { name: copied_text(&to_bytes(&name))?, pool })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_group_info_cleanup(group: In<GroupInfo>, size: usize) -> c_int {
    done(|| {
        check_size::<GroupInfo>(size)?;
        if let Some(group) = group.get() {
            free(group.name.cast());
        }
        Ok(())
    })
}
