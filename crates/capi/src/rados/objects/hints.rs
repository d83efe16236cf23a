//! What a program says of how an object is kept.

use super::request::{How, change};
use crate::border::{Handle, Text};
use crate::rados::ioctx::IoCtx;
use onego_ceph::ops::Op;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rados_set_alloc_hint(
    ioctx: Handle<IoCtx>,
    oid: Text,
    object_size: u64,
    write_size: u64,
) -> c_int {
    rados_set_alloc_hint2(ioctx, oid, object_size, write_size, 0)
}

#[unsafe(no_mangle)]
extern "C" fn rados_set_alloc_hint2(
    ioctx: Handle<IoCtx>,
    oid: Text,
    object_size: u64,
    write_size: u64,
    flags: u32,
) -> c_int {
    change(ioctx, oid, How::Wait, |_| Ok(Op::SetAllocHint { object_size, write_size, flags }))
}

/// OSDs refuse it in pools that are no cache tiers.
#[unsafe(no_mangle)]
extern "C" fn rados_cache_pin(ioctx: Handle<IoCtx>, oid: Text) -> c_int {
    change(ioctx, oid, How::Wait, |_| Ok(Op::CachePin { is_pinned: true }))
}

#[unsafe(no_mangle)]
extern "C" fn rados_cache_unpin(ioctx: Handle<IoCtx>, oid: Text) -> c_int {
    change(ioctx, oid, How::Wait, |_| Ok(Op::CachePin { is_pinned: false }))
}
