//! Reads of one object that see it in one state.

use super::{Ops, bytes, compare_omap, compare_xattr, keys, request_flags};
use crate::border::{Errno, Handle, In, Out, Text, call, copied};
use crate::rados::ioctx::IoCtx;
use crate::rados::objects::data::TimeSpec;
use crate::rados::objects::pairs::Pairs;
use crate::rados::objects::request::{How, submit};
use crate::rados::objects::xattr;
use crate::runtime::AioCompletion;
use onego_buf::List;
use onego_ceph::ops::{self, Op, Stat};
use onego_msgr::encoding::Decode as _;
use onego_wire::{Decoded, Reader};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Operations of `rados_read_op_t`.
pub(crate) type ReadOps = Ops;

#[unsafe(no_mangle)]
extern "C" fn rados_create_read_op() -> Handle<ReadOps> {
    Handle::give(Arc::new(Ops::default()))
}

#[unsafe(no_mangle)]
extern "C" fn rados_release_read_op(ops: Handle<ReadOps>) {
    call(|| ops.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_set_flags(ops: Handle<ReadOps>, flags: c_int) {
    call(|| {
        ops.get()?.set_flags(flags);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_assert_exists(ops: Handle<ReadOps>) {
    call(|| {
        ops.get()?.add(Ok(Op::Stat));
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_assert_version(ops: Handle<ReadOps>, version: u64) {
    call(|| {
        ops.get()?.add(Ok(Op::AssertVer { version }));
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_cmpxattr(
    ops: Handle<ReadOps>,
    name: Text,
    comparison: u8,
    value: In<u8>,
    len: usize,
) {
    call(|| {
        ops.get()?.add(compare_xattr(name, comparison, value, len));
        Ok(())
    });
}

/// Adds an operation whose output a program wants: `take` gives it to the program. The result goes to `result`.
pub(in crate::rados::objects) fn add(
    ops: Handle<ReadOps>,
    op: impl FnOnce() -> Result<Op, Errno>,
    result: Out<c_int>,
    take: impl FnOnce(&List) -> Result<(), Errno> + Send + 'static,
) {
    call(|| {
        ops.get()?.add_taken(op(), move |errno, output| {
            let taken = Errno::check(errno).and_then(|value| take(output).map(|()| value));
            result.set_if_wanted(taken.unwrap_or_else(Errno::negative));
        });
        Ok(())
    });
}

/// Reads an output.
fn decode<T>(output: &List, read: impl FnOnce(&mut Reader<'_>) -> Decoded<T>) -> Result<T, Errno> {
    read(&mut Reader::new(&output.to_segment())).map_err(|_| Errno::IO)
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_cmpext(
    ops: Handle<ReadOps>,
    buf: In<u8>,
    len: usize,
    offset: u64,
    result: Out<c_int>,
) {
    add(ops, || Ok(Op::CmpExt { offset, data: bytes(buf, len)? }), result, |_| Ok(()));
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_cmp(
    ops: Handle<ReadOps>,
    key: Text,
    comparison: u8,
    value: In<u8>,
    len: usize,
    result: Out<c_int>,
) {
    add(ops, || compare_omap(key.bytes()?, comparison, value, len), result, |_| Ok(()));
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_cmp2(
    ops: Handle<ReadOps>,
    key: In<u8>,
    comparison: u8,
    value: In<u8>,
    key_len: usize,
    len: usize,
    result: Out<c_int>,
) {
    add(ops, || compare_omap(key.slice(key_len)?, comparison, value, len), result, |_| Ok(()));
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_read(
    ops: Handle<ReadOps>,
    offset: u64,
    len: usize,
    buf: Out<u8>,
    read: Out<usize>,
    result: Out<c_int>,
) {
    add(
        ops,
        || Ok(Op::Read { offset, length: len as u64 }),
        result,
        move |output| {
            buf.copy(&output.to_segment(), len)?;
            read.set_if_wanted(output.len());
            Ok(())
        },
    );
}

fn stat(
    ops: Handle<ReadOps>,
    size: Out<u64>,
    result: Out<c_int>,
    set_time: impl FnOnce(u32, u32) + Send + 'static,
) {
    add(
        ops,
        || Ok(Op::Stat),
        result,
        move |output| {
            let stat = Stat::from_bytes(&output.to_segment()).map_err(|_| Errno::IO)?;
            size.set_if_wanted(stat.size);
            set_time(stat.mtime.sec, stat.mtime.nsec);
            Ok(())
        },
    );
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_stat(
    ops: Handle<ReadOps>,
    size: Out<u64>,
    time: Out<libc::time_t>,
    result: Out<c_int>,
) {
    stat(ops, size, result, move |sec, _| time.set_if_wanted(sec.into()));
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_stat2(
    ops: Handle<ReadOps>,
    size: Out<u64>,
    time: Out<TimeSpec>,
    result: Out<c_int>,
) {
    stat(ops, size, result, move |sec, nsec| {
        time.set_if_wanted(TimeSpec { seconds: sec.into(), nanoseconds: nsec.into() });
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_getxattrs(ops: Handle<ReadOps>, iter: Out<Handle<Pairs>>, result: Out<c_int>) {
    let pairs = Pairs::give(iter);
    add(
        ops,
        || Ok(Op::GetXattrs),
        result,
        move |output| {
            pairs.fill(xattr::read_all(output)?);
            Ok(())
        },
    );
}

fn call_op(class: Text, method: Text, input: In<u8>, len: usize) -> Result<Op, Errno> {
    Ok(Op::Call {
        class: class.text()?.into_owned(),
        method: method.text()?.into_owned(),
        input: bytes(input, len)?,
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_exec(
    ops: Handle<ReadOps>,
    class: Text,
    method: Text,
    input: In<u8>,
    len: usize,
    out: Out<*mut c_char>,
    out_len: Out<usize>,
    result: Out<c_int>,
) {
    add(
        ops,
        || call_op(class, method, input, len),
        result,
        move |output| {
            out.set_if_wanted(copied(&output.to_segment())?);
            out_len.set_if_wanted(output.len());
            Ok(())
        },
    );
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_exec_user_buf(
    ops: Handle<ReadOps>,
    class: Text,
    method: Text,
    input: In<u8>,
    len: usize,
    out: Out<u8>,
    out_len: usize,
    used: Out<usize>,
    result: Out<c_int>,
) {
    add(
        ops,
        || call_op(class, method, input, len),
        result,
        move |output| {
            let copied = out.copy(&output.to_segment(), out_len);
            used.set_if_wanted(if copied.is_ok() { output.len() } else { 0 });
            copied
        },
    );
}

fn vals(
    ops: Handle<ReadOps>,
    (after, prefix): (Text, Text),
    max: u64,
    iter: Out<Handle<Pairs>>,
    more: Out<u8>,
    result: Out<c_int>,
) {
    let op = || {
        let [after, prefix] = [after, prefix].map(|text| text.bytes_or_empty().to_vec());
        Ok(Op::OmapGetVals { after, max, prefix })
    };
    let pairs = Pairs::give(iter);
    add(ops, op, result, move |output| {
        let (entries, has_more) = decode(output, |r| Ok((ops::decode_omap(r)?, r.bool("more")?)))?;
        more.set_if_wanted(has_more.into());
        pairs.fill(entries.into_iter().map(|(key, value)| (key, value.to_vec())));
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_vals(
    ops: Handle<ReadOps>,
    after: Text,
    prefix: Text,
    max: u64,
    iter: Out<Handle<Pairs>>,
    result: Out<c_int>,
) {
    vals(ops, (after, prefix), max, iter, Out::NULL, result);
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_vals2(
    ops: Handle<ReadOps>,
    after: Text,
    prefix: Text,
    max: u64,
    iter: Out<Handle<Pairs>>,
    more: Out<u8>,
    result: Out<c_int>,
) {
    vals(ops, (after, prefix), max, iter, more, result);
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_keys(
    ops: Handle<ReadOps>,
    after: Text,
    max: u64,
    iter: Out<Handle<Pairs>>,
    result: Out<c_int>,
) {
    rados_read_op_omap_get_keys2(ops, after, max, iter, Out::NULL, result);
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_keys2(
    ops: Handle<ReadOps>,
    after: Text,
    max: u64,
    iter: Out<Handle<Pairs>>,
    more: Out<u8>,
    result: Out<c_int>,
) {
    let op = || Ok(Op::OmapGetKeys { after: after.bytes_or_empty().to_vec(), max });
    let pairs = Pairs::give(iter);
    add(ops, op, result, move |output| {
        let (keys, has_more) = decode(output, |r| {
            let count = r.count(4, "keys")?;
            let keys = (0..count).map(|_| Ok(r.blob("key")?.to_vec())).collect::<Decoded<Vec<_>>>()?;
            Ok((keys, r.bool("more")?))
        })?;
        more.set_if_wanted(has_more.into());
        pairs.fill(keys.into_iter().map(|key| (key, Vec::new())));
        Ok(())
    });
}

fn vals_by_keys(
    ops: Handle<ReadOps>,
    wanted: impl FnOnce() -> Result<Vec<Vec<u8>>, Errno>,
    iter: Out<Handle<Pairs>>,
    result: Out<c_int>,
) {
    let op = || Ok(Op::OmapGetValsByKeys { keys: wanted()?.into_iter().collect() });
    let pairs = Pairs::give(iter);
    add(ops, op, result, move |output| {
        let entries = decode(output, ops::decode_omap)?;
        pairs.fill(entries.into_iter().map(|(key, value)| (key, value.to_vec())));
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_vals_by_keys(
    ops: Handle<ReadOps>,
    names: In<Text>,
    count: usize,
    iter: Out<Handle<Pairs>>,
    result: Out<c_int>,
) {
    vals_by_keys(ops, || keys(names, None, count), iter, result);
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_omap_get_vals_by_keys2(
    ops: Handle<ReadOps>,
    names: In<Text>,
    count: usize,
    lengths: In<usize>,
    iter: Out<Handle<Pairs>>,
    result: Out<c_int>,
) {
    vals_by_keys(ops, || keys(names, Some(lengths), count), iter, result);
}

fn operate(ops: Handle<ReadOps>, ioctx: Handle<IoCtx>, object: Text, how: How, flags: c_int) -> c_int {
    call(|| {
        let (ops, take) = ops.get()?.take()?;
        let ask = |request: &mut onego_ceph::client::Request, _: &_| {
            request.ops.extend(ops);
            request.flags |= request_flags(flags);
            Ok(())
        };
        Ok(submit(ioctx, object, how, ask, move |reply| {
            take(&reply);
            Errno::check(reply.result).map(i64::from)
        }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_operate(
    ops: Handle<ReadOps>,
    ioctx: Handle<IoCtx>,
    object: Text,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Wait, flags)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_read_op_operate(
    ops: Handle<ReadOps>,
    ioctx: Handle<IoCtx>,
    completion: Handle<AioCompletion>,
    object: Text,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Later(completion), flags)
}
