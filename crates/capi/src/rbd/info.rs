//! What is known of an image.

use super::image::RbdImage;
use crate::border::{Errno, Handle, Out, call, done};
use crate::runtime::block_on;
use onego::rbd::ImageInfo;
use onego_ceph::cls::rbd::GetFlags;
use onego_ceph::rbd::header_object;
use onego_ceph::types::NOSNAP;
use std::ffi::c_int;
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
        let image = &image.get()?.image;
        let (info, size) = (image.info(), image.size());
        let mut block_name_prefix = [0; 24];
        let shown = info.object_prefix.len().min(block_name_prefix.len() - 1);
        block_name_prefix[..shown].copy_from_slice(&info.object_prefix.as_bytes()[..shown]);
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

/// Says something of an image.
fn tell<T>(image: Handle<RbdImage>, out: Out<T>, what: impl FnOnce(&ImageInfo) -> T) -> c_int {
    done(|| out.set(what(image.get()?.image.info())))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_size(image: Handle<RbdImage>, size: Out<u64>) -> c_int {
    done(|| size.set(image.get()?.image.size()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_old_format(image: Handle<RbdImage>, old: Out<u8>) -> c_int {
    tell(image, old, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_features(image: Handle<RbdImage>, features: Out<u64>) -> c_int {
    tell(image, features, |info| info.features.0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_op_features(image: Handle<RbdImage>, features: Out<u64>) -> c_int {
    tell(image, features, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_flags(image: Handle<RbdImage>, flags: Out<u64>) -> c_int {
    done(|| {
        let image = image.get()?;
        let header = header_object(&image.image.info().id).to_string();
        flags.set(block_on(image.pool().call(&header, &GetFlags { snap: NOSNAP }))?)
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
    tell(image, overlap, |info| info.parent.as_ref().map_or(0, |parent| parent.overlap))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_data_pool_id(image: Handle<RbdImage>) -> i64 {
    call(|| {
        let image = image.get()?;
        Ok(image.image.info().data_pool.unwrap_or_else(|| image.pool().id()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_id(image: Handle<RbdImage>, id: Out<u8>, len: usize) -> c_int {
    done(|| id.copy_text(image.get()?.image.info().id.as_bytes(), len))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_block_name_prefix(image: Handle<RbdImage>, prefix: Out<u8>, len: usize) -> c_int {
    done(|| prefix.copy_text(image.get()?.image.info().object_prefix.as_bytes(), len))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_name(image: Handle<RbdImage>, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| crate::border::fill(name, len, &[image.get()?.image.info().name.as_bytes(), b"\0"].concat()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_get_create_timestamp(image: Handle<RbdImage>, time: Out<libc::timespec>) -> c_int {
    tell(image, time, |info| {
        let age = info.created.and_then(|created| created.duration_since(SystemTime::UNIX_EPOCH).ok());
        let age = age.unwrap_or_default();
        libc::timespec { tv_sec: age.as_secs() as i64, tv_nsec: age.subsec_nanos().into() }
    })
}

/// The names of a clone's parent; ENOENT of an image that is none.
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
    done(|| {
        let image = image.get()?;
        let parent = image.image.info().parent.as_ref().ok_or(Errno::NOENT)?;
        let whole = block_on(parent.name(image.client().cluster()))?;
        let (in_pool, rest) = whole.split_once('/').ok_or(Errno::IO)?;
        let (of_image, at) = rest.rsplit_once('@').ok_or(Errno::IO)?;
        for (out, text, room) in
            [(pool, in_pool, pool_len), (name, of_image, name_len), (snapshot, at, snapshot_len)]
        {
            if !out.is_null() {
                out.copy_text(text.as_bytes(), room)?;
            }
        }
        Ok(())
    })
}
