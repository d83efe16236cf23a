//! Lists of a pool's objects, one by one.

use super::cursor::{Cursor, place_of, place_of_hash};
use crate::border::{Errno, Handle, Out, call, done};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{SharedClient, block_on, lock};
use onego::rados::Pool;
use onego_ceph::outputs::Listed;
use onego_ceph::types::{HObject, PgId};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};

/// Objects asked for at a time.
const PAGE: u64 = 1000;

/// A list that a program walks over (`rados_list_ctx_t`).
struct ObjectList {
    client: Arc<SharedClient>,
    pool_id: i64,
    /// The error is that of the first use: a list of a pool that is gone opens.
    pool: Result<Pool, Errno>,
    state: Mutex<ListState>,
}

struct ListState {
    /// What has come and was not shown.
    page: VecDeque<Listed>,
    /// Where the list goes on behind the page.
    cursor: HObject,
    /// The placement group of what was shown last, or where the list begins.
    group: u32,
    /// The place of what was shown last, while the list stands there.
    last: Option<HObject>,
    /// What the program was shown last: name, key, namespace, each with a zero.
    shown: [Vec<u8>; 3],
}

impl ObjectList {
    /// The placement group that has a hash.
    fn group(&self, hash: u32) -> Result<u32, Errno> {
        let map = block_on(self.client.cluster().osd_map())?;
        let raw = PgId { pool: self.pool_id, seed: hash };
        Ok(map.pool_pg(raw).ok_or(Errno::NOENT)?.seed)
    }

    /// The place of an object of this pool.
    fn place(&self, object: &Listed) -> Result<HObject, Errno> {
        let map = block_on(self.client.cluster().osd_map())?;
        place_of(&map, self.pool_id, object)
    }

    /// The next object; `None`: there is no more.
    fn next(&self, state: &mut ListState) -> Result<Option<Listed>, Errno> {
        while state.page.is_empty() && !state.cursor.max {
            let pool = self.pool.as_ref().map_err(|errno| *errno)?;
            let page = block_on(pool.list_page(&state.cursor, PAGE, &[]))?;
            (state.page, state.cursor) = (page.objects.into(), page.cursor);
        }
        state.last = None;
        let Some(next) = state.page.pop_front() else { return Ok(None) };
        let place = self.place(&next)?;
        state.group = self.group(place.hash)?;
        state.last = Some(place);
        Ok(Some(next))
    }

    /// Goes on at another place; gives its placement group.
    fn seek(&self, place: HObject) -> Result<u32, Errno> {
        let group = self.group(place.hash)?;
        let mut state = lock(&self.state);
        (state.page, state.cursor, state.group, state.last) = (VecDeque::new(), place, group, None);
        Ok(group)
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_open(ioctx: Handle<IoCtx>, list: Out<Handle<ObjectList>>) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let (client, pool_id, pool) = (Arc::clone(ioctx.client()), ioctx.pool_id(), ioctx.pool());
        let state = ListState {
            page: VecDeque::new(),
            cursor: HObject::min(),
            group: 0,
            last: None,
            shown: Default::default(),
        };
        list.give(Arc::new(ObjectList { client, pool_id, pool, state: Mutex::new(state) }))
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
        let list = list.get()?;
        let mut state = lock(&list.state);
        let next = list.next(&mut state)?.ok_or(Errno::NOENT)?;
        let with_zero = |text: &[u8]| [text, b"\0"].concat();
        state.shown = [&next.name[..], &next.key, &next.namespace].map(with_zero);
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

/// The placement group of what was shown last.
#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_get_pg_hash_position(list: Handle<ObjectList>) -> u32 {
    call(|| Ok(lock(&list.get()?.state).group))
}

/// Goes on at the begin of the placement group that has this hash.
#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_seek(list: Handle<ObjectList>, position: u32) -> u32 {
    call(|| {
        let list = list.get()?;
        list.seek(place_of_hash(list.pool_id, list.group(position)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_seek_cursor(list: Handle<ObjectList>, cursor: Handle<Cursor>) -> u32 {
    call(|| list.get()?.seek(cursor.get()?.place()))
}

/// Gives a cursor to what was shown last, or, before anything was, to where the list begins.
#[unsafe(no_mangle)]
extern "C" fn rados_nobjects_list_get_cursor(list: Handle<ObjectList>, cursor: Out<Handle<Cursor>>) -> c_int {
    done(|| {
        let list = list.get()?;
        let state = lock(&list.state);
        let place = state.last.clone().unwrap_or_else(|| state.cursor.clone());
        cursor.set(Cursor::give(place))
    })
}
