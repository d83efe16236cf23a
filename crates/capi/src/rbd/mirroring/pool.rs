//! What of a pool is mirrored, and what it calls itself.

use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::runtime::block_on;
use onego::rbd::pools::mirroring::{
    MirrorMode, mode, remote_namespace, set_mode, set_remote_namespace, uuid,
};
use onego_wire::text::to_bytes;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_mode_get(ioctx: Handle<IoCtx>, found: Out<c_int>) -> c_int {
    done(|| {
        found.set(match block_on(mode(&pool_of(ioctx)?))? {
            MirrorMode::Image => 1,
            MirrorMode::Pool => 2,
            _ => 0,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_mode_set(ioctx: Handle<IoCtx>, wanted: c_int) -> c_int {
    done(|| {
        let wanted = match wanted {
            0 => MirrorMode::Disabled,
            1 => MirrorMode::Image,
            2 => MirrorMode::Pool,
            _ => return Err(Errno::INVAL),
        };
        Ok(block_on(set_mode(&pool_of(ioctx)?, wanted))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_uuid_get(ioctx: Handle<IoCtx>, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| fill(name, len, &[&*to_bytes(&block_on(uuid(&pool_of(ioctx)?))?), b"\0"].concat()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_remote_namespace_get(ioctx: Handle<IoCtx>, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| fill(name, len, &[&*to_bytes(&block_on(remote_namespace(&pool_of(ioctx)?))?), b"\0"].concat()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_remote_namespace_set(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| Ok(block_on(set_remote_namespace(&pool_of(ioctx)?, &name.text()?))?))
}
