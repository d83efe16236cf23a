//! How peers are reached: what the cluster keeps of it for its daemons.

use super::config_key;
use crate::border::{Errno, Handle, Out, Text, done};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::joined;
use crate::runtime::block_on;
use onego::rados::Pool;
use onego::rbd::pools::mirroring::peers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// The key under which the monitors keep what is known of a peer.
fn key(pool: &Pool, uuid: &str) -> String {
    format!("rbd/mirror/peer/{}/{uuid}", pool.id())
}

fn check_peer(pool: &Pool, uuid: &str) -> Result<(), Errno> {
    let known = block_on(peers(pool))?.iter().any(|peer| peer.uuid == uuid);
    if known { Ok(()) } else { Err(Errno::NOENT) }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_get_attributes(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    keys: Out<u8>,
    keys_len: Out<usize>,
    values: Out<u8>,
    values_len: Out<usize>,
    count: Out<usize>,
) -> c_int {
    done(|| {
        let (pool, uuid) = (pool_of(ioctx)?, uuid.text()?);
        check_peer(&pool, &uuid)?;
        let stored =
            block_on(config_key::get(pool.cluster(), &key(&pool, &uuid)))?.unwrap_or_else(|| b"{}".to_vec());
        let stored: BTreeMap<String, Value> = serde_json::from_slice(&stored).map_err(|_| Errno::INVAL)?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let all = [joined(stored.keys()), joined(stored.values().map(text))];
        count.set(stored.len())?;
        let filled = [(keys, keys_len), (values, values_len)]
            .into_iter()
            .zip(&all)
            .map(|((out, len), bytes)| crate::border::fill(out, len, bytes))
            .collect::<Vec<_>>();
        filled.into_iter().collect()
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_site_set_attributes(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    keys: Text,
    values: Text,
    count: usize,
) -> c_int {
    done(|| {
        let (pool, uuid) = (pool_of(ioctx)?, uuid.text()?);
        check_peer(&pool, &uuid)?;
        let (keys, values) = (keys.several(count)?, values.several(count)?);
        let all: BTreeMap<_, _> = keys.into_iter().zip(values).collect();
        Ok(block_on(config_key::set(pool.cluster(), &key(&pool, &uuid), &json!(all).to_string()))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_get_attributes(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    keys: Out<u8>,
    keys_len: Out<usize>,
    values: Out<u8>,
    values_len: Out<usize>,
    count: Out<usize>,
) -> c_int {
    rbd_mirror_peer_site_get_attributes(ioctx, uuid, keys, keys_len, values, values_len, count)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_peer_set_attributes(
    ioctx: Handle<IoCtx>,
    uuid: Text,
    keys: Text,
    values: Text,
    count: usize,
) -> c_int {
    rbd_mirror_peer_site_set_attributes(ioctx, uuid, keys, values, count)
}
