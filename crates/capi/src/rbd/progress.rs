//! How far something is, as programs are told.

use crate::border::Opaque;
use std::ffi::c_int;

/// A program's function that is told how far something is.
pub(super) type Progress = Option<extern "C" fn(u64, u64, Opaque) -> c_int>;

/// Tells a program how far something is, on the thread of its call. What it answers is not listened to.
pub(super) fn tell(progress: Progress, argument: Opaque) -> impl FnMut(u64, u64) {
    move |done, all| {
        if let Some(progress) = progress {
            progress(done, all, argument);
        }
    }
}
