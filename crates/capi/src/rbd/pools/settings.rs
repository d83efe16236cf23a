//! A pool as a place of images, and what is noted at it.

use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::upkeep::{MOST, give_entries};
use crate::runtime::block_on;
use onego::rbd::pools::{self, pool_setting, pool_settings, remove_pool_setting, set_pool_setting};
use std::collections::BTreeMap;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_init(ioctx: Handle<IoCtx>, force: bool) -> c_int {
    done(|| Ok(block_on(pools::init(&pool_of(ioctx)?, force))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_metadata_get(
    ioctx: Handle<IoCtx>,
    key: Text,
    value: Out<u8>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let found = block_on(pool_setting(&pool_of(ioctx)?, &key.text()?))?.ok_or(Errno::NOENT)?;
        fill(value, len, &[&found, &b"\0"[..]].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_metadata_set(ioctx: Handle<IoCtx>, key: Text, value: Text) -> c_int {
    done(|| Ok(block_on(set_pool_setting(&pool_of(ioctx)?, &key.text()?, value.bytes()?))?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_metadata_remove(ioctx: Handle<IoCtx>, key: Text) -> c_int {
    done(|| {
        let (pool, key) = (pool_of(ioctx)?, key.text()?);
        if block_on(pool_setting(&pool, &key))?.is_none() {
            return Err(Errno::NOENT);
        }
        Ok(block_on(remove_pool_setting(&pool, &key))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_metadata_list(
    ioctx: Handle<IoCtx>,
    after: Text,
    most: u64,
    keys: Out<u8>,
    keys_len: Out<usize>,
    values: Out<u8>,
    values_len: Out<usize>,
) -> c_int {
    done(|| {
        let after = after.text_or_empty().into_owned();
        let most = if most == 0 { MOST } else { most };
        let all = block_on(pool_settings(&pool_of(ioctx)?))?;
        let page: BTreeMap<_, _> =
            all.into_iter().filter(|(key, _)| *key > after).take(most as usize).collect();
        give_entries(&page, (keys, keys_len), (values, values_len))
    })
}
