//! The class `rbd`: objects with the data of an image (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use crate::osd::extent::check_extent;
use onego_ceph::cls::rbd::*;

pub(super) fn copyup(context: &mut Context<'_>, call: CopyUp) -> Outcome<()> {
    if !context.state.exists {
        context.write_all(call.data.0);
    }
    Ok(())
}

pub(super) fn sparsify(context: &mut Context<'_>, call: Sparsify) -> Outcome<()> {
    context.must_exist()?;
    let block = usize::try_from(call.block_size).ok().filter(|size| *size > 0).ok_or(Errno::INVAL)?;
    let data = context.read_all();
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if is_zero(&data) {
        if call.remove_empty {
            context.remove();
        } else if !data.is_empty() {
            context.changes();
            context.state.truncate(0);
        }
        return Ok(());
    }
    let mut end = 0;
    for (i, bytes) in data.chunks(block).enumerate() {
        let offset = (i * block) as u64;
        if is_zero(bytes) {
            context.changes();
            context.state.zero(offset, bytes.len() as u64);
        } else {
            end = offset + bytes.len() as u64;
        }
    }
    // Zeros at the end are cut off.
    if end < context.state.size {
        context.state.truncate(end);
    }
    Ok(())
}

pub(super) fn sparse_copyup(context: &mut Context<'_>, call: SparseCopyUp) -> Outcome<()> {
    if context.state.exists {
        return Ok(());
    }
    context.changes();
    let mut left = call.data.as_slice();
    for (offset, len) in call.extents {
        let (part, rest) =
            usize::try_from(len).ok().and_then(|len| left.split_at_checked(len)).ok_or(Errno::INVAL)?;
        check_extent(offset, len)?;
        // Also an extent without data makes the object as long.
        context.state.grow_to(offset + len);
        if !part.is_empty() {
            context.state.write(offset, part.to_vec().into());
        }
        left = rest;
    }
    Ok(())
}

pub(super) fn assert_snapc_seq(context: &mut Context<'_>, call: AssertSnapcSeq) -> Outcome<()> {
    let is_newer = context.state.snapset_seq().is_none_or(|seq| call.seq > seq);
    match call.state {
        snapc_seq::NEWER if is_newer => Ok(()),
        snapc_seq::NOT_NEWER if !is_newer => Ok(()),
        snapc_seq::NEWER | snapc_seq::NOT_NEWER => Err(Errno::RANGE),
        _ => Err(Errno::OPNOTSUPP),
    }
}
