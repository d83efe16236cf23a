//! Changes of one object that are applied together. Their bytes are copied when they are added: the program may have its
//! memory back then.

use super::{Ops, bytes, compare_omap, compare_xattr, keys, request_flags};
use crate::border::{Errno, Handle, In, Out, Text, call};
use crate::rados::ioctx::IoCtx;
use crate::rados::objects::data::{TimeSpec, repeated};
use crate::rados::objects::request::{How, submit};
use crate::runtime::AioCompletion;
use onego_ceph::ops::{Op, flag};
use onego_ceph::types::Utime;
use std::ffi::c_int;
use std::sync::Arc;

/// Operations of `rados_write_op_t`.
pub(crate) type WriteOps = Ops;

#[unsafe(no_mangle)]
extern "C" fn rados_create_write_op() -> Handle<WriteOps> {
    Handle::give(Arc::new(Ops::default()))
}

#[unsafe(no_mangle)]
extern "C" fn rados_release_write_op(ops: Handle<WriteOps>) {
    call(|| ops.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rados_write_op_set_flags(ops: Handle<WriteOps>, flags: c_int) {
    call(|| {
        ops.get()?.set_flags(flags);
        Ok(())
    });
}

/// Functions that add an operation, by the arguments that follow the operations.
macro_rules! adds {
    ($($name:ident($($argument:ident: $type:ty),*) $op:block)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(ops: Handle<WriteOps>, $($argument: $type),*) {
            call(|| {
                let ops = ops.get()?;
                let op = || Ok($op);
                ops.add(op());
                Ok(())
            });
        }
    )* };
}

adds! {
    rados_write_op_assert_exists() { Op::Stat }
    rados_write_op_assert_version(version: u64) { Op::AssertVer { version } }
    rados_write_op_cmpxattr(name: Text, comparison: u8, value: In<u8>, len: usize) {
        compare_xattr(name, comparison, value, len)?
    }
    rados_write_op_setxattr(name: Text, value: In<u8>, len: usize) {
        Op::SetXattr { name: name.bytes()?.to_vec(), value: bytes(value, len)? }
    }
    rados_write_op_rmxattr(name: Text) { Op::RmXattr { name: name.bytes()?.to_vec() } }
    rados_write_op_create(exclusive: c_int, _category: Text) { Op::Create { exclusive: exclusive != 0 } }
    rados_write_op_write(buf: In<u8>, len: usize, offset: u64) {
        Op::Write { offset, data: bytes(buf, len)? }
    }
    rados_write_op_write_full(buf: In<u8>, len: usize) { Op::WriteFull { data: bytes(buf, len)? } }
    rados_write_op_writesame(buf: In<u8>, len: usize, write_len: usize, offset: u64) {
        Op::WriteSame { offset, length: repeated(write_len)?, data: bytes(buf, len)? }
    }
    rados_write_op_append(buf: In<u8>, len: usize) { Op::Append { data: bytes(buf, len)? } }
    rados_write_op_remove() { Op::Delete }
    rados_write_op_truncate(size: u64) { Op::Truncate { size } }
    rados_write_op_zero(offset: u64, length: u64) { Op::Zero { offset, length } }
    rados_write_op_omap_clear() { Op::OmapClear }
    rados_write_op_omap_rm_keys(names: In<Text>, count: usize) {
        Op::OmapRmKeys { keys: keys(names, None, count)?.into_iter().collect() }
    }
    rados_write_op_omap_rm_keys2(names: In<Text>, lengths: In<usize>, count: usize) {
        Op::OmapRmKeys { keys: keys(names, Some(lengths), count)?.into_iter().collect() }
    }
    rados_write_op_omap_rm_range2(from: In<u8>, from_len: usize, to: In<u8>, to_len: usize) {
        Op::OmapRmKeyRange { from: from.slice(from_len)?.to_vec(), to: to.slice(to_len)?.to_vec() }
    }
    rados_write_op_omap_set(names: In<Text>, values: In<In<u8>>, lengths: In<usize>, count: usize) {
        set(&keys(names, None, count)?, values, lengths)?
    }
    rados_write_op_omap_set2(
        names: In<Text>, values: In<In<u8>>, key_lengths: In<usize>, lengths: In<usize>, count: usize
    ) {
        set(&keys(names, Some(key_lengths), count)?, values, lengths)?
    }
    rados_write_op_set_alloc_hint(object_size: u64, write_size: u64) {
        Op::SetAllocHint { object_size, write_size, flags: 0 }
    }
    rados_write_op_set_alloc_hint2(object_size: u64, write_size: u64, flags: u32) {
        Op::SetAllocHint { object_size, write_size, flags }
    }
}

/// Sets entries of an object's map.
fn set(keys: &[Vec<u8>], values: In<In<u8>>, lengths: In<usize>) -> Result<Op, Errno> {
    let (values, lengths) = (values.slice(keys.len())?, lengths.slice(keys.len())?);
    let entries = keys.iter().zip(values).zip(lengths);
    let entry = |((key, value), len): ((&Vec<u8>, &In<u8>), &usize)| Ok((key.clone(), bytes(*value, *len)?));
    Ok(Op::OmapSetVals { entries: entries.map(entry).collect::<Result<_, Errno>>()? })
}

/// Functions that add an operation and say where its result goes.
macro_rules! adds_with_result {
    ($($name:ident($($argument:ident: $type:ty),*) $op:block)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(ops: Handle<WriteOps>, $($argument: $type,)* result: Out<c_int>) {
            call(|| {
                let ops = ops.get()?;
                let op = || Ok($op);
                ops.add_with_result(op(), result);
                Ok(())
            });
        }
    )* };
}

adds_with_result! {
    rados_write_op_cmpext(buf: In<u8>, len: usize, offset: u64) {
        Op::CmpExt { offset, data: bytes(buf, len)? }
    }
    rados_write_op_exec(class: Text, method: Text, input: In<u8>, len: usize) {
        Op::Call {
            class: class.text()?.into_owned(),
            method: method.text()?.into_owned(),
            input: bytes(input, len)?,
        }
    }
    rados_write_op_omap_cmp(key: Text, comparison: u8, value: In<u8>, len: usize) {
        compare_omap(key.bytes()?, comparison, value, len)?
    }
    rados_write_op_omap_cmp2(key: In<u8>, comparison: u8, value: In<u8>, key_len: usize, len: usize) {
        compare_omap(key.slice(key_len)?, comparison, value, len)?
    }
}

fn operate(
    ops: Handle<WriteOps>,
    ioctx: Handle<IoCtx>,
    object: Text,
    how: How,
    modified: Option<Utime>,
    flags: c_int,
) -> c_int {
    call(|| {
        let (ops, take) = ops.get()?.take()?;
        let ask = |request: &mut onego_ceph::client::Request, _: &_| {
            request.ops.extend(ops);
            request.flags |= flag::WRITE | request_flags(flags);
            request.mtime = modified;
            Ok(())
        };
        Ok(submit(ioctx, object, how, ask, move |reply| {
            take(&reply);
            Errno::check(reply.result).map(i64::from)
        }))
    })
}

/// A program's time in whole seconds.
fn seconds(time: In<libc::time_t>) -> Option<Utime> {
    time.get().map(|seconds| Utime { sec: *seconds as u32, nsec: 0 })
}

#[unsafe(no_mangle)]
extern "C" fn rados_write_op_operate(
    ops: Handle<WriteOps>,
    ioctx: Handle<IoCtx>,
    object: Text,
    modified: In<libc::time_t>,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Wait, seconds(modified), flags)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_write_op_operate(
    ops: Handle<WriteOps>,
    ioctx: Handle<IoCtx>,
    completion: Handle<AioCompletion>,
    object: Text,
    modified: In<libc::time_t>,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Later(completion), seconds(modified), flags)
}

fn nanoseconds(time: In<TimeSpec>) -> Option<Utime> {
    time.get().map(|time| Utime { sec: time.seconds as u32, nsec: time.nanoseconds as u32 })
}

#[unsafe(no_mangle)]
extern "C" fn rados_write_op_operate2(
    ops: Handle<WriteOps>,
    ioctx: Handle<IoCtx>,
    object: Text,
    modified: In<TimeSpec>,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Wait, nanoseconds(modified), flags)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_write_op_operate2(
    ops: Handle<WriteOps>,
    ioctx: Handle<IoCtx>,
    completion: Handle<AioCompletion>,
    object: Text,
    modified: In<TimeSpec>,
    flags: c_int,
) -> c_int {
    operate(ops, ioctx, object, How::Later(completion), nanoseconds(modified), flags)
}
