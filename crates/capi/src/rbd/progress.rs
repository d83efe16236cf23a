//! How far something is, as programs are told.

use crate::border::{Errno, Opaque};
use crate::runtime::block_on;
use onego::ceph::Error;
use std::ffi::c_int;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;

/// A program's function that is told how far something is.
pub(super) type Progress = Option<extern "C" fn(u64, u64, Opaque) -> c_int>;

/// Tells a program how far something is, on the thread of its call. What it answers is not listened to.
pub(super) fn tell(progress: Progress, argument: Opaque) -> impl FnMut(u64, u64) + Send {
    move |done, all| {
        if let Some(progress) = progress {
            progress(done, all, argument);
        }
    }
}

/// What a program has answered last.
pub(super) type CallbackResult = Arc<AtomicI32>;

/// The same, with a place for what the program answers.
pub(super) fn tell_and_ask(
    progress: Progress,
    argument: Opaque,
    answer: &CallbackResult,
) -> impl FnMut(u64, u64) + Send + use<> {
    let answer = Arc::clone(answer);
    move |done, all| {
        if let Some(progress) = progress {
            answer.store(progress(done, all, argument), Ordering::Relaxed);
        }
    }
}

/// As [`tell_and_ask`], for work that counts bytes: librbd reports objects.
pub(super) fn tell_objects(
    progress: Progress,
    argument: Opaque,
    answer: &CallbackResult,
    object_size: u64,
) -> impl FnMut(u64, u64) + Send + use<> {
    let mut tell = tell_and_ask(progress, argument, answer);
    move |done, all| tell(done.div_ceil(object_size), all.div_ceil(object_size))
}

/// Runs something until a program answers with a negative errno.
pub(super) fn run_until_refused(
    answer: &CallbackResult,
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Errno> {
    let mut work = pin!(work);
    block_on(poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
        _ if answer.load(Ordering::Relaxed) < 0 => Poll::Ready(Err(Errno(-answer.load(Ordering::Relaxed)))),
        Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    }))
}
