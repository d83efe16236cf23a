//! The bytes of objects, and the objects as wholes.

use super::request::{How, change, submit};
use crate::border::{Errno, Handle, In, Out, Text};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{AioCompletion, Operation};
use onego_ceph::client::OpReply;
use onego_ceph::ops::{Op, Stat};
use onego_msgr::encoding::Decode as _;
use std::ffi::c_int;
use std::sync::Arc;

/// Most bytes of a write: above that librados says E2BIG.
const MAX_WRITE: usize = u32::MAX as usize / 2;

/// Fails if a write, or what it is repeated to, is longer than librados takes: before anything else, so that calls with
/// a completion fail themselves and leave it alone.
fn check_len(len: usize) -> Result<(), Errno> {
    if len > MAX_WRITE { Err(Errno::TOOBIG) } else { Ok(()) }
}

/// Lends the bytes of a write.
fn data(buf: In<u8>, len: usize, operation: &Arc<Operation>) -> Result<onego_buf::List, Errno> {
    if len == 0 {
        return Ok(onego_buf::List::new());
    }
    Ok(buf.lend(len, Arc::clone(operation))?.into())
}

/// Returns the length of a repeated write: OSDs make all of it in memory.
pub(super) fn repeated(write_len: usize) -> Result<u64, Errno> {
    check_len(write_len).map(|()| write_len as u64)
}

/// A change by bytes of these lengths.
fn change_by(
    ioctx: Handle<IoCtx>,
    oid: Text,
    how: How,
    lengths: &[usize],
    op: impl FnOnce(&Arc<Operation>) -> Result<Op, Errno>,
) -> c_int {
    match lengths.iter().try_for_each(|len| check_len(*len)) {
        Ok(()) => change(ioctx, oid, how, op),
        Err(errno) => errno.negative(),
    }
}

fn write(ioctx: Handle<IoCtx>, oid: Text, how: How, buf: In<u8>, len: usize, offset: u64) -> c_int {
    change_by(ioctx, oid, how, &[len], |operation| Ok(Op::Write { offset, data: data(buf, len, operation)? }))
}

fn write_full(ioctx: Handle<IoCtx>, oid: Text, how: How, buf: In<u8>, len: usize) -> c_int {
    change_by(ioctx, oid, how, &[len], |operation| Ok(Op::WriteFull { data: data(buf, len, operation)? }))
}

fn append(ioctx: Handle<IoCtx>, oid: Text, how: How, buf: In<u8>, len: usize) -> c_int {
    change_by(ioctx, oid, how, &[len], |operation| Ok(Op::Append { data: data(buf, len, operation)? }))
}

fn write_same(
    ioctx: Handle<IoCtx>,
    oid: Text,
    how: How,
    buf: In<u8>,
    lengths: (usize, usize),
    offset: u64,
) -> c_int {
    let (len, write_len) = lengths;
    change_by(ioctx, oid, how, &[len, write_len], |operation| {
        Ok(Op::WriteSame { offset, length: write_len as u64, data: data(buf, len, operation)? })
    })
}

fn read(ioctx: Handle<IoCtx>, oid: Text, how: How, buf: Out<u8>, len: usize, offset: u64) -> c_int {
    if len > c_int::MAX as usize {
        return -libc::EDOM;
    }
    if len == 0 {
        // On the wire a length of 0 would mean all that there is.
        let take = |reply: OpReply| Errno::check(reply.result).map(|_| 0);
        let ask = |request: &mut onego_ceph::client::Request, _: &_| {
            request.ops.push((Op::Stat, 0));
            Ok(())
        };
        return submit(ioctx, oid, how, ask, take);
    }
    submit(
        ioctx,
        oid,
        how,
        |request, operation| {
            request.ops.push((Op::Read { offset, length: len as u64 }, 0));
            request.read_into = Some(buf.lend(len, Arc::clone(operation))?);
            Ok(())
        },
        |reply| Errno::check(reply.result).map(|_| reply.filled as i64),
    )
}

fn stat(
    ioctx: Handle<IoCtx>,
    oid: Text,
    how: How,
    size: Out<u64>,
    set_time: impl FnOnce(u32, u32) + Send + 'static,
) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        request.ops.push((Op::Stat, 0));
        Ok(())
    };
    submit(ioctx, oid, how, ask, move |reply| {
        Errno::check(reply.result)?;
        let output = reply.ops.first().map(|op| op.output.to_segment()).ok_or(Errno::IO)?;
        let stat = Stat::from_bytes(&output).map_err(|_| Errno::IO)?;
        size.set_if_wanted(stat.size);
        set_time(stat.mtime.sec, stat.mtime.nsec);
        Ok(0)
    })
}

fn remove(ioctx: Handle<IoCtx>, oid: Text, how: How) -> c_int {
    change(ioctx, oid, how, |_| Ok(Op::Delete))
}

fn compare(ioctx: Handle<IoCtx>, oid: Text, how: How, buf: In<u8>, len: usize, offset: u64) -> c_int {
    change_by(ioctx, oid, how, &[len], |operation| {
        Ok(Op::CmpExt { offset, data: data(buf, len, operation)? })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_write(ioctx: Handle<IoCtx>, oid: Text, buf: In<u8>, len: usize, offset: u64) -> c_int {
    write(ioctx, oid, How::Wait, buf, len, offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_write(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    len: usize,
    offset: u64,
) -> c_int {
    write(ioctx, oid, How::Later(completion), buf, len, offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_write_full(ioctx: Handle<IoCtx>, oid: Text, buf: In<u8>, len: usize) -> c_int {
    write_full(ioctx, oid, How::Wait, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_write_full(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    len: usize,
) -> c_int {
    write_full(ioctx, oid, How::Later(completion), buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_append(ioctx: Handle<IoCtx>, oid: Text, buf: In<u8>, len: usize) -> c_int {
    append(ioctx, oid, How::Wait, buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_append(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    len: usize,
) -> c_int {
    append(ioctx, oid, How::Later(completion), buf, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_writesame(
    ioctx: Handle<IoCtx>,
    oid: Text,
    buf: In<u8>,
    data_len: usize,
    write_len: usize,
    offset: u64,
) -> c_int {
    write_same(ioctx, oid, How::Wait, buf, (data_len, write_len), offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_writesame(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    data_len: usize,
    write_len: usize,
    offset: u64,
) -> c_int {
    write_same(ioctx, oid, How::Later(completion), buf, (data_len, write_len), offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_read(ioctx: Handle<IoCtx>, oid: Text, buf: Out<u8>, len: usize, offset: u64) -> c_int {
    read(ioctx, oid, How::Wait, buf, len, offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_read(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: Out<u8>,
    len: usize,
    offset: u64,
) -> c_int {
    read(ioctx, oid, How::Later(completion), buf, len, offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_remove(ioctx: Handle<IoCtx>, oid: Text) -> c_int {
    remove(ioctx, oid, How::Wait)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_remove(ioctx: Handle<IoCtx>, oid: Text, completion: Handle<AioCompletion>) -> c_int {
    remove(ioctx, oid, How::Later(completion))
}

#[unsafe(no_mangle)]
extern "C" fn rados_trunc(ioctx: Handle<IoCtx>, oid: Text, size: u64) -> c_int {
    change(ioctx, oid, How::Wait, |_| Ok(Op::Truncate { size }))
}

#[unsafe(no_mangle)]
extern "C" fn rados_cmpext(ioctx: Handle<IoCtx>, oid: Text, buf: In<u8>, len: usize, offset: u64) -> c_int {
    compare(ioctx, oid, How::Wait, buf, len, offset)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_cmpext(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    len: usize,
    offset: u64,
) -> c_int {
    compare(ioctx, oid, How::Later(completion), buf, len, offset)
}

/// Sets whole seconds.
fn seconds(time: Out<libc::time_t>) -> impl FnOnce(u32, u32) + Send + 'static {
    move |sec, _| time.set_if_wanted(sec.into())
}

#[unsafe(no_mangle)]
extern "C" fn rados_stat(ioctx: Handle<IoCtx>, oid: Text, size: Out<u64>, time: Out<libc::time_t>) -> c_int {
    stat(ioctx, oid, How::Wait, size, seconds(time))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_stat(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    size: Out<u64>,
    time: Out<libc::time_t>,
) -> c_int {
    stat(ioctx, oid, How::Later(completion), size, seconds(time))
}

/// A time with nanoseconds (`struct timespec`).
#[repr(C)]
pub(super) struct TimeSpec {
    pub(super) seconds: i64,
    pub(super) nanoseconds: i64,
}

fn nanoseconds(time: Out<TimeSpec>) -> impl FnOnce(u32, u32) + Send + 'static {
    move |sec, nsec| time.set_if_wanted(TimeSpec { seconds: sec.into(), nanoseconds: nsec.into() })
}

#[unsafe(no_mangle)]
extern "C" fn rados_stat2(ioctx: Handle<IoCtx>, oid: Text, size: Out<u64>, time: Out<TimeSpec>) -> c_int {
    stat(ioctx, oid, How::Wait, size, nanoseconds(time))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_stat2(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    size: Out<u64>,
    time: Out<TimeSpec>,
) -> c_int {
    stat(ioctx, oid, How::Later(completion), size, nanoseconds(time))
}
