//! A pool as a place of images, and what is noted at it.

use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::upkeep::{MOST, give_entries};
use crate::runtime::block_on;
use onego::rados::WriteOp;
use onego::rbd::pools::{pool_settings, remove_pool_setting, set_pool_setting};
use onego_buf::List;
use std::collections::BTreeMap;
use std::ffi::c_int;

/// The object that says that the pool is one of images (`RBD_INFO`), and what is in it then.
const INFO: &str = "rbd_info";
const VALIDATED: &[u8] = b"overwrite validated";

/// Notes for the cluster that the pool is one of images.
#[unsafe(no_mangle)]
extern "C" fn rbd_pool_init(ioctx: Handle<IoCtx>, force: bool) -> c_int {
    done(|| {
        let pool = pool_of(ioctx)?.in_namespace("");
        let sure = if force { r#", "yes_i_really_mean_it": true"# } else { "" };
        let command = format!(
            r#"{{"prefix": "osd pool application enable", "pool": "{}", "app": "rbd"{sure}}}"#,
            pool.name()
        );
        block_on(pool.cluster().command(&command, List::new()))?;
        let note = WriteOp::new().create(false).write_full(VALIDATED.to_vec());
        block_on(pool.operate_write(INFO, note))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_metadata_get(
    ioctx: Handle<IoCtx>,
    key: Text,
    value: Out<u8>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let settings = block_on(pool_settings(&pool_of(ioctx)?))?;
        let found = settings.get(&*key.text()?).ok_or(Errno::NOENT)?;
        fill(value, len, &[found, &b"\0"[..]].concat())
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
        if !block_on(pool_settings(&pool))?.contains_key(&*key) {
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
