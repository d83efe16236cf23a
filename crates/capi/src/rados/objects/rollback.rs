//! Objects made what they were at a snapshot.

use super::request::{How, change};
use crate::border::{Handle, Text, call};
use crate::rados::ioctx::IoCtx;
use crate::rados::snap::named;
use onego_ceph::ops::Op;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_selfmanaged_snap_rollback(ioctx: Handle<IoCtx>, oid: Text, snap: u64) -> c_int {
    change(ioctx, oid, How::Wait, |_| Ok(Op::Rollback { snap }))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_rollback(ioctx: Handle<IoCtx>, oid: Text, name: Text) -> c_int {
    call(|| {
        let snap = named(ioctx, name)?;
        Ok(change(ioctx, oid, How::Wait, |_| Ok(Op::Rollback { snap })))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_rollback(ioctx: Handle<IoCtx>, oid: Text, name: Text) -> c_int {
    rados_ioctx_snap_rollback(ioctx, oid, name)
}
