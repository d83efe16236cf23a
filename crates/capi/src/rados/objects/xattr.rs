//! Extended attributes.

use super::pairs::{Pair, Pairs};
use super::request::{How, change, submit};
use crate::border::{Errno, Handle, In, Out, Text, call, done};
use crate::rados::ioctx::IoCtx;
use crate::runtime::AioCompletion;
use onego_buf::List;
use onego_ceph::ops::Op;
use onego_wire::{Decoded, Reader};
use std::ffi::{c_char, c_int};

/// Reads names and values in what an OSD gives.
pub(super) fn read_all(output: &List) -> Result<Vec<Pair>, Errno> {
    let bytes = output.to_segment();
    let mut r = Reader::new(&bytes);
    let mut read = || -> Decoded<Vec<_>> {
        let count = r.count(8, "xattrs")?;
        (0..count).map(|_| Ok((r.blob("xattr name")?.to_vec(), r.blob("xattr value")?.to_vec()))).collect()
    };
    read().map_err(|_| Errno::IO)
}

/// The first operation's output.
fn output(reply: onego_ceph::client::OpReply) -> Result<List, Errno> {
    Errno::check(reply.result)?;
    Ok(reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default())
}

fn get(ioctx: Handle<IoCtx>, oid: Text, how: How, name: Text, buf: Out<u8>, len: usize) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        request.ops.push((Op::GetXattr { name: name.bytes()?.to_vec() }, 0));
        Ok(())
    };
    submit(ioctx, oid, how, ask, move |reply| {
        let value = output(reply)?.to_segment();
        buf.copy(&value, len)?;
        Ok(value.len() as i64)
    })
}

fn get_all(ioctx: Handle<IoCtx>, oid: Text, how: How, iter: Out<Handle<Pairs>>) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        request.ops.push((Op::GetXattrs, 0));
        Ok(())
    };
    submit(ioctx, oid, how, ask, move |reply| {
        let pairs = read_all(&output(reply)?)?;
        Pairs::give(iter).fill(pairs);
        Ok(0)
    })
}

fn set(ioctx: Handle<IoCtx>, oid: Text, how: How, name: Text, buf: In<u8>, len: usize) -> c_int {
    change(ioctx, oid, how, |_| {
        Ok(Op::SetXattr { name: name.bytes()?.to_vec(), value: buf.slice(len)?.into() })
    })
}

fn remove(ioctx: Handle<IoCtx>, oid: Text, how: How, name: Text) -> c_int {
    change(ioctx, oid, how, |_| Ok(Op::RmXattr { name: name.bytes()?.to_vec() }))
}

#[unsafe(no_mangle)]
extern "C" fn rados_getxattr(ioctx: Handle<IoCtx>, oid: Text, name: Text, buf: Out<u8>, len: usize) -> c_int {
    get(ioctx, oid, How::Wait, name, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_getxattr(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    name: Text,
    buf: Out<u8>,
    len: usize,
) -> c_int {
    get(ioctx, oid, How::Later(completion), name, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_setxattr(ioctx: Handle<IoCtx>, oid: Text, name: Text, buf: In<u8>, len: usize) -> c_int {
    set(ioctx, oid, How::Wait, name, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_setxattr(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    name: Text,
    buf: In<u8>,
    len: usize,
) -> c_int {
    set(ioctx, oid, How::Later(completion), name, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_rmxattr(ioctx: Handle<IoCtx>, oid: Text, name: Text) -> c_int {
    remove(ioctx, oid, How::Wait, name)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_rmxattr(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    name: Text,
) -> c_int {
    remove(ioctx, oid, How::Later(completion), name)
}

#[unsafe(no_mangle)]
extern "C" fn rados_getxattrs(ioctx: Handle<IoCtx>, oid: Text, iter: Out<Handle<Pairs>>) -> c_int {
    get_all(ioctx, oid, How::Wait, iter)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_getxattrs(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    iter: Out<Handle<Pairs>>,
) -> c_int {
    get_all(ioctx, oid, How::Later(completion), iter)
}

#[unsafe(no_mangle)]
extern "C" fn rados_getxattrs_next(
    iter: Handle<Pairs>,
    name: Out<*const c_char>,
    value: Out<*const c_char>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let (next_name, next_value) = iter.get()?.next();
        name.set(next_name.ptr)?;
        value.set(next_value.ptr)?;
        len.set(next_value.len)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_getxattrs_end(iter: Handle<Pairs>) {
    call(|| iter.take().map(drop));
}
