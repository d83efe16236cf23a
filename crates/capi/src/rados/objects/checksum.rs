//! Checksums that OSDs make of objects' bytes.

use super::ops::read::ReadOps;
use super::request::{How, submit};
use crate::border::{Errno, Handle, In, Out, Text};
use crate::rados::ioctx::IoCtx;
use onego_ceph::ops::{ChecksumKind, Op};
use std::ffi::c_int;

/// Checksums of a range, by chunks. Numbers of kinds are the same on the wire (`rados_checksum_type_t`).
fn operation(
    kind: c_int,
    (init, init_len): (In<u8>, usize),
    (offset, length): (u64, usize),
    chunk: usize,
) -> Result<Op, Errno> {
    let kind = u8::try_from(kind).ok().and_then(ChecksumKind::from_wire).ok_or(Errno::INVAL)?;
    let init = init.slice(init_len)?.into();
    let chunk = u32::try_from(chunk).map_err(|_| Errno::INVAL)?;
    Ok(Op::Checksum { kind: kind as u8, offset, length: length as u64, chunk, init })
}

/// Gives checksums to a program, unless it only asks whether they can be made.
fn give(sums: Out<u8>, len: usize, output: &[u8]) -> Result<(), Errno> {
    if sums.is_null() { Ok(()) } else { sums.copy(output, len) }
}

/// Gives how many there are, and the checksums, as they are on the wire.
#[unsafe(no_mangle)]
extern "C" fn rados_checksum(
    ioctx: Handle<IoCtx>,
    oid: Text,
    kind: c_int,
    init: In<u8>,
    init_len: usize,
    length: usize,
    offset: u64,
    chunk: usize,
    sums: Out<u8>,
    sums_len: usize,
) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        request.ops.push((operation(kind, (init, init_len), (offset, length), chunk)?, 0));
        Ok(())
    };
    submit(ioctx, oid, How::Wait, ask, move |reply| {
        let result = Errno::check(reply.result)?;
        let output = reply.ops.first().map(|op| op.output.to_segment()).ok_or(Errno::IO)?;
        give(sums, sums_len, &output)?;
        Ok(result.into())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_read_op_checksum(
    ops: Handle<ReadOps>,
    kind: c_int,
    init: In<u8>,
    init_len: usize,
    offset: u64,
    length: usize,
    chunk: usize,
    sums: Out<u8>,
    sums_len: usize,
    result: Out<c_int>,
) {
    super::ops::read::add(
        ops,
        || operation(kind, (init, init_len), (offset, length), chunk),
        result,
        move |output| give(sums, sums_len, &output.to_segment()),
    );
}
