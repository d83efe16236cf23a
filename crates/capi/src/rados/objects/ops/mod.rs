//! Operations that are applied as one.

pub(super) mod read;
mod write;

use crate::border::{Errno, In, Out, Text};
use crate::runtime::lock;
use onego_ceph::client::OpReply;
use onego_ceph::ops::{Compare, CompareWith, Op, flag, op_flag};
use std::ffi::c_int;
use std::sync::Mutex;

/// What becomes of the result of one operation, and of its output.
type Taker = Box<dyn FnOnce(i32, &onego_buf::List) + Send>;

/// Hands the program the outcomes of operations.
type TakeReply = Box<dyn FnOnce(&OpReply) + Send>;

/// Operations that a program has put together (`rados_write_op_t`, `rados_read_op_t`). Once they are carried out, there are none,
/// and others may be added.
#[derive(Default)]
pub(super) struct Ops {
    ops: Mutex<Added>,
}

#[derive(Default)]
struct Added {
    /// The operations and their flags.
    ops: Vec<(Op, u32)>,
    takers: Vec<(usize, Taker)>,
    /// Error of the first operation that could not be added. Functions that add return nothing, so all operations fail.
    refused: Option<Errno>,
}

impl Ops {
    fn add(&self, op: Result<Op, Errno>) {
        lock(&self.ops).push(op);
    }

    /// Adds an operation whose outcome the program wants.
    fn add_taken(&self, op: Result<Op, Errno>, taker: impl FnOnce(i32, &onego_buf::List) + Send + 'static) {
        let mut added = lock(&self.ops);
        added.push(op);
        let index = added.ops.len().saturating_sub(1);
        added.takers.push((index, Box::new(taker)));
    }

    /// Adds an operation whose result the program wants.
    fn add_with_result(&self, op: Result<Op, Errno>, result: Out<c_int>) {
        self.add_taken(op, move |errno, _| result.set_if_wanted(errno));
    }

    /// Sets the flags of the last operation (`LIBRADOS_OP_FLAG_*`). Those that advise the OSD's cache are left out.
    fn set_flags(&self, flags: c_int) {
        if let Some((_, last)) = lock(&self.ops).ops.last_mut() {
            *last = flags as u32 & (op_flag::EXCL | op_flag::FAIL_OK);
        }
    }

    /// The operations, and what becomes of their outcomes.
    fn take(&self) -> Result<(Vec<(Op, u32)>, TakeReply), Errno> {
        let Added { ops, takers, refused } = std::mem::take(&mut *lock(&self.ops));
        if let Some(errno) = refused {
            return Err(errno);
        }
        let take = Box::new(move |reply: &OpReply| {
            for (index, taker) in takers {
                if let Some(op) = reply.ops.get(index) {
                    taker(op.result, &op.output);
                }
            }
        });
        Ok((ops, take))
    }
}

impl Added {
    fn push(&mut self, op: Result<Op, Errno>) {
        match op {
            Ok(op) => self.ops.push((op, 0)),
            Err(errno) => self.refused = self.refused.or(Some(errno)),
        }
    }
}

/// Flags of a request that the program asks for (`LIBRADOS_OPERATION_*`), as they are on the wire.
fn request_flags(flags: c_int) -> u32 {
    const FLAGS: [(c_int, u32); 9] = [
        (1, flag::BALANCE_READS),
        (2, flag::LOCALIZE_READS),
        (4, flag::RW_ORDERED),
        (8, flag::IGNORE_CACHE),
        (32, flag::IGNORE_OVERLAY),
        (64, flag::FULL_TRY),
        (128, flag::FULL_FORCE),
        (512, flag::ORDER_SNAP),
        (1024, flag::RETURN_VEC),
    ];
    FLAGS.iter().filter(|(asked, _)| flags & asked != 0).fold(0, |all, (_, flag)| all | flag)
}

/// A copy of the program's bytes, which it may have back at once.
fn bytes(buf: In<u8>, len: usize) -> Result<onego_buf::List, Errno> {
    if len == 0 {
        return Ok(onego_buf::List::new());
    }
    Ok(buf.slice(len)?.into())
}

fn comparison(number: u8) -> Result<Compare, Errno> {
    Compare::from_wire(number).map_err(|_| Errno::INVAL)
}

fn compare_xattr(name: Text, number: u8, value: In<u8>, len: usize) -> Result<Op, Errno> {
    Ok(Op::CmpXattr {
        name: name.bytes()?.to_vec(),
        compare: comparison(number)?,
        with: CompareWith::Bytes(bytes(value, len)?.to_vec()),
    })
}

fn compare_omap(key: &[u8], number: u8, value: In<u8>, len: usize) -> Result<Op, Errno> {
    let assertion = (bytes(value, len)?, comparison(number)?);
    Ok(Op::OmapCmp { assertions: [(key.to_vec(), assertion)].into() })
}

/// Keys that end with a zero each, or have these lengths.
fn keys(keys: In<Text>, lengths: Option<In<usize>>, count: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let keys = keys.slice(count)?;
    match lengths {
        None => keys.iter().map(|key| Ok(key.bytes()?.to_vec())).collect(),
        Some(lengths) => {
            let lengths = lengths.slice(count)?;
            keys.iter().zip(lengths).map(|(key, len)| Ok(key.as_bytes().slice(*len)?.to_vec())).collect()
        }
    }
}
