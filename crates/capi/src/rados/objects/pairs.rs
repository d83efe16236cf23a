//! Keys and values that a program walks over: of an object's map, and its extended attributes.

use crate::border::{Handle, Out, call, done};
use crate::runtime::lock;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Arc, Mutex};

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Keys and values, and how far the program is (`rados_omap_iter_t`, `rados_xattrs_iter_t`). A program may have it before there
/// is anything in it. What it is shown stays until the end of the iteration.
#[derive(Default)]
pub(crate) struct Pairs {
    state: Mutex<PairsState>,
}

#[derive(Default)]
struct PairsState {
    /// Each key ends with a zero, which is not counted.
    pairs: Vec<Pair>,
    next: usize,
}

/// A key or a value where it lies.
pub(super) struct Shown {
    pub(super) ptr: *const c_char,
    pub(super) len: usize,
}

impl Pairs {
    /// Gives the program an iteration that is filled later.
    pub(super) fn give(iter: Out<Handle<Self>>) -> Arc<Self> {
        let pairs = Arc::<Self>::default();
        if !iter.is_null() {
            iter.set_if_wanted(Handle::give(Arc::clone(&pairs)));
        }
        pairs
    }

    /// Fills it, once.
    pub(super) fn fill(&self, pairs: impl IntoIterator<Item = Pair>) {
        let with_zero = |(key, value): Pair| ([&key[..], b"\0"].concat(), value);
        lock(&self.state).pairs = pairs.into_iter().map(with_zero).collect();
    }

    /// The next key and value; at the end both are null.
    pub(super) fn next(&self) -> (Shown, Shown) {
        let mut state = lock(&self.state);
        let PairsState { pairs, next } = &mut *state;
        match pairs.get(*next) {
            Some((key, value)) => {
                *next += 1;
                // A value of no bytes is shown as null, as that of a key whose value was not asked for.
                let at = if value.is_empty() { std::ptr::null() } else { value.as_ptr() };
                (
                    Shown { ptr: key.as_ptr().cast(), len: key.len() - 1 },
                    Shown { ptr: at.cast(), len: value.len() },
                )
            }
            None => (Shown { ptr: std::ptr::null(), len: 0 }, Shown { ptr: std::ptr::null(), len: 0 }),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_omap_get_next(
    iter: Handle<Pairs>,
    key: Out<*const c_char>,
    value: Out<*const c_char>,
    len: Out<usize>,
) -> c_int {
    rados_omap_get_next2(iter, key, value, Out::NULL, len)
}

#[unsafe(no_mangle)]
extern "C" fn rados_omap_get_next2(
    iter: Handle<Pairs>,
    key: Out<*const c_char>,
    value: Out<*const c_char>,
    key_len: Out<usize>,
    value_len: Out<usize>,
) -> c_int {
    done(|| {
        let (next_key, next_value) = iter.get()?.next();
        key.set_if_wanted(next_key.ptr);
        value.set_if_wanted(next_value.ptr);
        key_len.set_if_wanted(next_key.len);
        value_len.set_if_wanted(next_value.len);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_omap_iter_size(iter: Handle<Pairs>) -> c_uint {
    call(|| Ok(lock(&iter.get()?.state).pairs.len() as c_uint))
}

#[unsafe(no_mangle)]
extern "C" fn rados_omap_get_end(iter: Handle<Pairs>) {
    call(|| iter.take().map(drop));
}
