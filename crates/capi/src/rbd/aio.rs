//! Completions of librbd.

use crate::border::{Handle, Opaque, Out, call, done};
use crate::runtime::{AioCompletion, Callback};
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_create_completion(
    argument: Opaque,
    complete: Callback,
    completion: Out<Handle<AioCompletion>>,
) -> c_int {
    done(|| completion.give(AioCompletion::new(argument, [complete, None])))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_release(completion: Handle<AioCompletion>) {
    call(|| completion.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_wait_for_complete(completion: Handle<AioCompletion>) -> c_int {
    done(|| {
        // As librbd's, which is complete once its callback has returned.
        completion.share()?.wait_called_back();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_is_complete(completion: Handle<AioCompletion>) -> c_int {
    call(|| Ok(completion.get()?.is_complete().into()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_get_return_value(completion: Handle<AioCompletion>) -> isize {
    call(|| Ok(completion.get()?.result() as isize))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_get_arg(completion: Handle<AioCompletion>) -> *mut std::ffi::c_void {
    call(|| Ok(completion.get()?.argument.0))
}
