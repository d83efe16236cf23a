//! The border to C: everything that trusts a caller's pointer is here.
//!
//! Exported functions take their arguments as the types of this module. A value of them comes from a C caller, and from
//! nowhere else; what the interface's documentation demands of the caller ("a handle that `rados_create` gave and nobody has
//! released", "`len` bytes") is what their methods rely on. Null is checked, because that can be.

mod errno;
mod handle;
mod malloc;
mod out;
mod text;
mod time;

pub(crate) use errno::Errno;
pub(crate) use handle::{Handle, Opaque};
pub(crate) use malloc::{copied, copied_array, copied_text, free};
pub(crate) use out::{In, Out, fill};
pub(crate) use text::Text;
pub(crate) use time::local_time;

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an exported function returns: it can say that the call failed.
pub(crate) trait Returned {
    /// The value that says so.
    fn refused(errno: Errno) -> Self;
}

impl Returned for c_int {
    fn refused(errno: Errno) -> Self {
        errno.negative()
    }
}

impl Returned for i64 {
    fn refused(errno: Errno) -> Self {
        errno.negative().into()
    }
}

impl Returned for isize {
    fn refused(errno: Errno) -> Self {
        errno.negative() as isize
    }
}

impl Returned for u64 {
    fn refused(_: Errno) -> Self {
        0
    }
}

impl Returned for u32 {
    fn refused(_: Errno) -> Self {
        0
    }
}

impl Returned for *mut c_void {
    fn refused(_: Errno) -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Returned for Handle<T> {
    fn refused(_: Errno) -> Self {
        Self::NULL
    }
}

impl Returned for () {
    fn refused(_: Errno) -> Self {}
}

/// Runs the body of an exported function. A panic ends here: it must not run through the caller's frames.
pub(crate) fn call<T: Returned>(body: impl FnOnce() -> Result<T, Errno>) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::IO)).unwrap_or_else(T::refused)
}

/// The same for one that gives nothing but success.
pub(crate) fn done(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    call(|| body().map(|()| 0))
}
