//! Calls that wait for what was begun before them.

use crate::border::{Handle, done};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{AioCompletion, Operation};
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rados_aio_flush(ioctx: Handle<IoCtx>) -> c_int {
    done(|| {
        ioctx.share()?.flights().wait();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_flush_async(ioctx: Handle<IoCtx>, completion: Handle<AioCompletion>) -> c_int {
    done(|| {
        let ioctx = ioctx.share()?;
        let operation = Operation::begin(ioctx.client(), completion.share()?, None);
        operation.end(Ok(0));
        ioctx.flights().drop_then(operation);
        Ok(())
    })
}
