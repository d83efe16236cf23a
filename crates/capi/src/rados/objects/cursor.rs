//! Lists of a pool's objects by cursors, which can be compared, kept, and put between others.

use crate::border::{Errno, Handle, In, Out, call, copied_text, free};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{block_on, lock};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::outputs::Listed;
use onego_ceph::types::{HObject, NOSNAP};
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

/// Most objects of one call: above that a program has asked for more than it can have memory for.
const MAX_RESULTS: usize = 1 << 24;

/// A place in the order of a pool's objects (`rados_object_list_cursor`). Calls set those that the program has.
pub(super) struct Cursor(Mutex<HObject>);

impl Cursor {
    pub(super) fn give(place: HObject) -> Handle<Self> {
        Handle::give(Arc::new(Self(Mutex::new(place))))
    }

    pub(super) fn place(&self) -> HObject {
        lock(&self.0).clone()
    }

    fn set(&self, place: HObject) {
        *lock(&self.0) = place;
    }
}

/// The place before all objects with this hash, read from its low end, and behind all with a lower one.
pub(super) fn place_of_hash(pool: i64, hash: u32) -> HObject {
    HObject { hash, pool, snap: NOSNAP, ..HObject::min() }
}

/// The place of an object.
pub(super) fn place_of(map: &OsdMap, pool: i64, object: &Listed) -> Result<HObject, Errno> {
    let known = map.pools.get(&pool).ok_or(Errno::NOENT)?;
    let Listed { namespace, name, key } = object.clone();
    let hash = known.hash_object(&name, &key, &namespace);
    Ok(HObject { key, name, namespace, hash, snap: NOSNAP, max: false, pool })
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_begin(ioctx: Handle<IoCtx>) -> Handle<Cursor> {
    call(|| ioctx.get().map(|_| Cursor::give(HObject::min())))
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_end(ioctx: Handle<IoCtx>) -> Handle<Cursor> {
    call(|| ioctx.get().map(|_| Cursor::give(HObject::max())))
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_is_end(_ioctx: Handle<IoCtx>, cursor: Handle<Cursor>) -> c_int {
    call(|| Ok(cursor.get()?.place().max.into()))
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_cursor_free(_ioctx: Handle<IoCtx>, cursor: Handle<Cursor>) {
    call(|| cursor.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_cursor_cmp(
    _ioctx: Handle<IoCtx>,
    left: Handle<Cursor>,
    right: Handle<Cursor>,
) -> c_int {
    call(|| {
        Ok(match left.get()?.place().cmp(&right.get()?.place()) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })
    })
}

/// An object of a list (`rados_object_list_item`). Its texts are memory of `malloc`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListedObject {
    name_len: usize,
    name: *mut c_char,
    namespace_len: usize,
    namespace: *mut c_char,
    key_len: usize,
    key: *mut c_char,
}

impl ListedObject {
    const EMPTY: Self = Self {
        name_len: 0,
        name: std::ptr::null_mut(),
        namespace_len: 0,
        namespace: std::ptr::null_mut(),
        key_len: 0,
        key: std::ptr::null_mut(),
    };

    fn new(object: &Listed) -> Result<Self, Errno> {
        // A text that is empty is null.
        let text = |text: &[u8]| if text.is_empty() { Ok(std::ptr::null_mut()) } else { copied_text(text) };
        Ok(Self {
            name_len: object.name.len(),
            name: text(&object.name)?,
            namespace_len: object.namespace.len(),
            namespace: text(&object.namespace)?,
            key_len: object.key.len(),
            key: text(&object.key)?,
        })
    }
}

/// At most `most` objects from one place on that lie before another, and where the list goes on.
fn collect(
    ioctx: &IoCtx,
    (from, to): (HObject, &HObject),
    most: usize,
    filter: &[u8],
) -> Result<(Vec<Listed>, HObject), Errno> {
    let pool = ioctx.pool()?;
    let map = block_on(ioctx.client().cluster().osd_map())?;
    let (mut found, mut at) = (Vec::new(), from);
    while found.len() < most && at < *to {
        let page = block_on(pool.list_page(&at, (most - found.len()) as u64, filter))?;
        at = page.cursor;
        for object in page.objects {
            let place = place_of(&map, pool.id(), &object)?;
            if place >= *to || found.len() >= most {
                return Ok((found, place.min(to.clone())));
            }
            found.push(object);
        }
    }
    Ok((found, at.min(to.clone())))
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list(
    ioctx: Handle<IoCtx>,
    start: Handle<Cursor>,
    finish: Handle<Cursor>,
    size: usize,
    filter: In<u8>,
    filter_len: usize,
    results: Out<ListedObject>,
    next: Out<Handle<Cursor>>,
) -> c_int {
    call(|| {
        if size > MAX_RESULTS {
            return Err(Errno::INVAL);
        }
        let (ioctx, next) = (ioctx.get()?, next.read()?);
        let (start, finish) = (start.get()?.place(), finish.get()?.place());
        results.copy(&vec![ListedObject::EMPTY; size], size)?;
        let filter = if filter.is_null() { &[] } else { filter.slice(filter_len)? };
        let (found, place) = match collect(ioctx, (start, &finish), size, filter) {
            Ok(found) => found,
            Err(errno) => {
                next.get()?.set(HObject::max());
                return Err(errno);
            }
        };
        let items = found.iter().map(ListedObject::new).collect::<Result<Vec<_>, _>>()?;
        results.copy(&items, size)?;
        next.get()?.set(place);
        Ok(items.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_object_list_free(size: usize, results: In<ListedObject>) {
    call(|| {
        for item in results.slice(size)? {
            for text in [item.name, item.namespace, item.key] {
                free(text.cast::<c_void>());
            }
        }
        Ok(())
    });
}

/// Where the first `n` of `m` equal parts of a range of reversed hashes end.
fn cut((start, finish): (u64, u64), n: u64, m: u64) -> u64 {
    let part = u128::from(finish.saturating_sub(start)) * u128::from(n) / u128::from(m);
    start + part as u64
}

/// The `n`th of `m` parts of what lies between two cursors. Those that the program has for its ends are set.
#[unsafe(no_mangle)]
extern "C" fn rados_object_list_slice(
    ioctx: Handle<IoCtx>,
    start: Handle<Cursor>,
    finish: Handle<Cursor>,
    n: usize,
    m: usize,
    split_start: Out<Handle<Cursor>>,
    split_finish: Out<Handle<Cursor>>,
) {
    call(|| {
        let pool = ioctx.get()?.pool_id();
        let (split_start, split_finish) = (split_start.read()?, split_finish.read()?);
        let (start, finish) = (start.get()?.place(), finish.get()?.place());
        let (n, m) = (n as u64, (m as u64).max(1));
        /// One behind the last hash.
        const END: u64 = 1 << 32;
        let hash_of = |place: &HObject| match place.max {
            true => END,
            false => place.hash.reverse_bits().into(),
        };
        let range = (hash_of(&start), hash_of(&finish));
        let place_at = |at: u64| match u32::try_from(at) {
            Ok(hash) => place_of_hash(pool, hash.reverse_bits()),
            Err(_) => HObject::max(),
        };
        let from = if n == 0 { start } else { place_at(cut(range, n, m)) };
        let to = if n + 1 >= m { finish } else { place_at(cut(range, n + 1, m)) };
        split_start.get()?.set(from);
        split_finish.get()?.set(to);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_range_follow_each_other_and_are_all_of_it() {
        let range = (7, 1 << 32);
        for m in [1, 2, 3, 10] {
            let cuts: Vec<u64> = (0..=m).map(|n| cut(range, n, m)).collect();
            assert_eq!((cuts.first(), cuts.last()), (Some(&7), Some(&(1 << 32))));
            assert!(cuts.is_sorted() && cuts.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert_eq!(cut((5, 5), 1, 2), 5);
    }
}
