//! Lists of a pool's objects.

use crate::border::{Errno, Handle, Out, call, done};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{block_on, lock};
use onego::Listing;
use onego::ceph::Error;
use onego::rados::ObjectEntry;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};

/// The namespace that stands for all of them (`LIBRADOS_ALL_NSPACES`).
const ALL_NAMESPACES: &str = "\u{1}";

/// A list that a program walks over (`rados_list_ctx_t`).
struct ObjectList {
    state: Mutex<ListState>,
}

struct ListState {
    listing: Listing<ObjectEntry, Error>,
    /// What the program was shown last: name, key, namespace, each with a zero.
    shown: [Vec<u8>; 3],
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_open(ioctx: Handle<IoCtx>, list: Out<Handle<ObjectList>>) -> c_int {
    done(|| {
        let pool = ioctx.get()?.pool()?;
        let listing = if pool.namespace() == ALL_NAMESPACES { pool.all_objects() } else { pool.objects() };
        let state = ListState { listing, shown: Default::default() };
        list.set(Handle::give(Arc::new(ObjectList { state: Mutex::new(state) })))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_close(list: Handle<ObjectList>) {
    call(|| list.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_next(
    list: Handle<ObjectList>,
    entry: Out<*const c_char>,
    key: Out<*const c_char>,
    namespace: Out<*const c_char>,
) -> c_int {
    rados_nobjects_list_next2(list, entry, key, namespace, Out::NULL, Out::NULL, Out::NULL)
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_next2(
    list: Handle<ObjectList>,
    entry: Out<*const c_char>,
    key: Out<*const c_char>,
    namespace: Out<*const c_char>,
    entry_len: Out<usize>,
    key_len: Out<usize>,
    namespace_len: Out<usize>,
) -> c_int {
    done(|| {
        let mut state = lock(&list.get()?.state);
        let next = block_on(state.listing.try_next())?.ok_or(Errno::NOENT)?;
        let with_zero = |text: &str| [text.as_bytes(), b"\0"].concat();
        state.shown = [with_zero(&next.name), with_zero(&next.key), with_zero(&next.namespace)];
        let [name, locator, within] = &state.shown;
        entry.set(name.as_ptr().cast())?;
        // A key that is none is shown as null.
        key.set_if_wanted(if next.key.is_empty() { std::ptr::null() } else { locator.as_ptr().cast() });
        namespace.set_if_wanted(within.as_ptr().cast());
        entry_len.set_if_wanted(next.name.len());
        key_len.set_if_wanted(next.key.len());
        namespace_len.set_if_wanted(next.namespace.len());
        Ok(())
    })
}
