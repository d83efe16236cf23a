//! Memory that the program frees.

use super::errno::Errno;
use std::ffi::{c_char, c_void};

/// A copy of `bytes` in memory of `malloc`; an empty one has a byte, so that it is not null.
pub(crate) fn copied(bytes: &[u8]) -> Result<*mut c_char, Errno> {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(bytes.len().max(1)) };
    if memory.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the memory is new and has at least as many bytes.
    unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    Ok(memory.cast())
}

/// A copy of a text, with a zero behind it.
pub(crate) fn copied_text(text: &[u8]) -> Result<*mut c_char, Errno> {
    copied(&[text, b"\0"].concat())
}

/// Some values in an array of `malloc`.
pub(crate) fn copied_array<T: Copy>(values: &[T]) -> Result<*mut T, Errno> {
    // SAFETY: the values are `Copy` and are looked at as the bytes that they have; the result is only copied to.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    Ok(copied(bytes)?.cast())
}

/// Frees memory of `malloc`; null is nothing.
pub(crate) fn free(memory: *mut c_void) {
    // SAFETY: the program hands over what it got from us or from `malloc`.
    unsafe { libc::free(memory) };
}
