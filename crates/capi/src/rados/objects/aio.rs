//! Completions of librados.

use crate::border::{Handle, Opaque, Out, call, done};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{AioCompletion, Callback};
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rados_aio_create_completion(
    argument: Opaque,
    complete: Callback,
    safe: Callback,
    completion: Out<Handle<AioCompletion>>,
) -> c_int {
    done(|| completion.give(AioCompletion::new(argument, [complete, safe])))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_create_completion2(
    argument: Opaque,
    complete: Callback,
    completion: Out<Handle<AioCompletion>>,
) -> c_int {
    done(|| completion.give(AioCompletion::new(argument, [complete, None])))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_release(completion: Handle<AioCompletion>) {
    call(|| completion.take().map(drop));
}

/// Takes a request back. It may have been carried out all the same, and that it is complete already is no error.
#[unsafe(no_mangle)]
extern "C" fn rados_aio_cancel(_ioctx: Handle<IoCtx>, completion: Handle<AioCompletion>) -> c_int {
    done(|| {
        completion.share()?.cancel();
        Ok(())
    })
}

/// "Safe" is "complete": a change is acknowledged when it is durable.
macro_rules! waits {
    ($($name:ident: $wait:ident;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(completion: Handle<AioCompletion>) -> c_int {
            done(|| {
                completion.share()?.$wait();
                Ok(())
            })
        }
    )* };
}

waits! {
    rados_aio_wait_for_complete: wait;
    rados_aio_wait_for_safe: wait;
    rados_aio_wait_for_complete_and_cb: wait_called_back;
    rados_aio_wait_for_safe_and_cb: wait_called_back;
}

macro_rules! asks {
    ($($name:ident: $ask:ident;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name(completion: Handle<AioCompletion>) -> c_int {
            call(|| Ok(completion.get()?.$ask().into()))
        }
    )* };
}

asks! {
    rados_aio_is_complete: is_complete;
    rados_aio_is_safe: is_complete;
    rados_aio_is_complete_and_cb: is_called_back;
    rados_aio_is_safe_and_cb: is_called_back;
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_get_return_value(completion: Handle<AioCompletion>) -> c_int {
    call(|| Ok(completion.get()?.result() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_get_version(completion: Handle<AioCompletion>) -> u64 {
    call(|| Ok(completion.get()?.version()))
}
