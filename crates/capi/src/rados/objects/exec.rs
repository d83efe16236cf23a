//! Methods of object classes.

use super::request::{How, submit};
use crate::border::{Errno, Handle, In, Out, Text};
use crate::rados::ioctx::IoCtx;
use crate::runtime::AioCompletion;
use onego_ceph::ops::Op;
use std::ffi::c_int;

fn exec(
    ioctx: Handle<IoCtx>,
    oid: Text,
    how: How,
    (class, method): (Text, Text),
    (input, input_len): (In<u8>, usize),
    (buf, len): (Out<u8>, usize),
) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        let (class, method) = (class.text()?.into_owned(), method.text()?.into_owned());
        request.ops.push((Op::Call { class, method, input: input.slice(input_len)?.into() }, 0));
        Ok(())
    };
    submit(ioctx, oid, how, ask, move |reply| {
        let result = Errno::check(reply.result)?;
        let output = reply.ops.first().map(|op| op.output.to_segment());
        match output.filter(|output| !output.is_empty()) {
            Some(output) => {
                buf.copy(&output, len)?;
                Ok(output.len() as i64)
            }
            None => Ok(result.into()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_exec(
    ioctx: Handle<IoCtx>,
    oid: Text,
    class: Text,
    method: Text,
    input: In<u8>,
    input_len: usize,
    buf: Out<u8>,
    len: usize,
) -> c_int {
    exec(ioctx, oid, How::Wait, (class, method), (input, input_len), (buf, len))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_exec(
    ioctx: Handle<IoCtx>,
    oid: Text,
    completion: Handle<AioCompletion>,
    class: Text,
    method: Text,
    input: In<u8>,
    input_len: usize,
    buf: Out<u8>,
    len: usize,
) -> c_int {
    exec(ioctx, oid, How::Later(completion), (class, method), (input, input_len), (buf, len))
}
