//! Pools: listed, made, removed, and what applications note at them.

use super::cluster::Rados;
use super::ioctx::IoCtx;
use super::names;
use crate::border::{Errno, Handle, Out, Text, call, done, fill};
use crate::runtime::{SharedClient, block_on};
use onego::ceph::Error;
use onego_buf::List;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_wire::text::to_bytes;
use std::ffi::c_int;
use std::sync::Arc;

fn client(cluster: Handle<Rados>) -> Result<Arc<SharedClient>, Errno> {
    cluster.get()?.client()
}

/// The number of a pool, by the newest map if the one at hand does not know it.
fn look_up(client: &SharedClient, name: &str) -> Result<i64, Errno> {
    let known = block_on(client.cluster().osd_map())?.pool_id(name);
    match known {
        Some(id) => Ok(id),
        None => block_on(client.cluster().newest_osd_map())?.pool_id(name).ok_or(Errno::NOENT),
    }
}

/// Says how long the list is, and gives as many whole names as there is room for. It ends with an empty name.
#[unsafe(no_mangle)]
extern "C" fn rados_pool_list(cluster: Handle<Rados>, buf: Out<u8>, len: usize) -> c_int {
    call(|| {
        if buf.is_null() && len > 0 {
            return Err(Errno::INVAL);
        }
        let map = block_on(client(cluster)?.cluster().newest_osd_map())?;
        Ok(names::give(map.pool_names.values().map(String::as_str), buf, len)? as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_lookup(cluster: Handle<Rados>, name: Text) -> i64 {
    call(|| look_up(&*client(cluster)?, &name.text()?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_reverse_lookup(cluster: Handle<Rados>, id: i64, buf: Out<u8>, len: usize) -> c_int {
    call(|| {
        let client = client(cluster)?;
        let name_in = |map: Arc<OsdMap>| map.pool_names.get(&id).cloned();
        let known = name_in(block_on(client.cluster().osd_map())?);
        let name = match known {
            Some(name) => name,
            None => name_in(block_on(client.cluster().newest_osd_map())?).ok_or(Errno::NOENT)?,
        };
        buf.copy_text(&to_bytes(&name), len)?;
        Ok(to_bytes(&name).len() as c_int)
    })
}

fn create(cluster: Handle<Rados>, name: Text) -> c_int {
    done(|| Ok(block_on(client(cluster)?.cluster().create_pool(&name.text()?, 0)).map(drop)?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_create(cluster: Handle<Rados>, name: Text) -> c_int {
    create(cluster, name)
}

/// Pools have had no owners for long.
#[unsafe(no_mangle)]
extern "C" fn rados_pool_create_with_auid(cluster: Handle<Rados>, name: Text, _auid: u64) -> c_int {
    create(cluster, name)
}

fn create_by_rule(cluster: Handle<Rados>, name: Text, rule: u8) -> c_int {
    done(|| {
        let client = client(cluster)?;
        let name = name.text()?;
        if look_up(&client, &name).is_ok() {
            return Err(Errno::EXIST);
        }
        let op = onego_ceph::messages::PoolOp {
            fsid: block_on(client.cluster().osd_map())?.fsid,
            pool: 0,
            op: onego_ceph::messages::PoolOpKind::Create,
            snap: 0,
            name: name.into_owned(),
            crush_rule: rule.into(),
        };
        Errno::check(block_on(client.cluster().pool_op(op))?.result).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_create_with_crush_rule(cluster: Handle<Rados>, name: Text, rule: u8) -> c_int {
    create_by_rule(cluster, name, rule)
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_create_with_all(cluster: Handle<Rados>, name: Text, _auid: u64, rule: u8) -> c_int {
    create_by_rule(cluster, name, rule)
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_delete(cluster: Handle<Rados>, name: Text) -> c_int {
    done(|| Ok(block_on(client(cluster)?.cluster().delete_pool(&name.text()?))?))
}

/// What the map says of a pool.
fn in_map<T>(client: &SharedClient, pool: i64, what: impl FnOnce(&Pool) -> T) -> Result<T, Errno> {
    let map = block_on(client.cluster().osd_map())?;
    map.pools.get(&pool).map(what).ok_or(Errno::NOENT)
}

#[unsafe(no_mangle)]
extern "C" fn rados_pool_get_base_tier(cluster: Handle<Rados>, pool: i64, base: Out<i64>) -> c_int {
    done(|| {
        let tier_of = in_map(&*client(cluster)?, pool, |pool| pool.tier_of)?;
        base.set(if tier_of < 0 { pool } else { tier_of })
    })
}

/// In bytes; 0: writes need not be aligned. Only erasure codes that take no overwrites demand it.
fn alignment(ioctx: Handle<IoCtx>) -> Result<u64, Errno> {
    let ioctx = ioctx.get()?;
    in_map(ioctx.client(), ioctx.pool_id(), |pool| u64::from(pool.stripe_width))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_pool_requires_alignment2(ioctx: Handle<IoCtx>, required: Out<c_int>) -> c_int {
    done(|| required.set((alignment(ioctx)? > 0).into()))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_pool_requires_alignment(ioctx: Handle<IoCtx>) -> c_int {
    call(|| Ok((alignment(ioctx)? > 0).into()))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_pool_required_alignment2(ioctx: Handle<IoCtx>, bytes: Out<u64>) -> c_int {
    done(|| bytes.set(alignment(ioctx)?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_pool_required_alignment(ioctx: Handle<IoCtx>) -> u64 {
    call(|| alignment(ioctx))
}

/// Gives the monitors a command about a pool, and waits for the map that shows the change.
fn command(ioctx: &IoCtx, words: &[(&str, &str)], flags: &[&str]) -> Result<(), Errno> {
    let name = ioctx.name()?;
    let words = words.iter().map(|(key, value)| format!(",{}:{}", quoted(key), quoted(value)));
    let flags = flags.iter().map(|flag| format!(",{}:true", quoted(flag)));
    let rest: String = words.chain(flags).collect();
    let json = format!("{{\"pool\":{}{rest}}}", quoted(&name));
    let run = async {
        let cluster = ioctx.client().cluster();
        let reply = cluster.command_reply(&json, List::new()).await?;
        cluster.newest_osd_map().await?;
        Ok::<_, Error>(reply.result)
    };
    Errno::check(block_on(run)?).map(drop)
}

/// A text in JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_enable(ioctx: Handle<IoCtx>, application: Text, force: c_int) -> c_int {
    done(|| {
        let flags: &[&str] = if force != 0 { &["yes_i_really_mean_it"] } else { &[] };
        let words = [("prefix", "osd pool application enable"), ("app", &*application.text()?)];
        command(ioctx.get()?, &words, flags)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_metadata_set(
    ioctx: Handle<IoCtx>,
    application: Text,
    key: Text,
    value: Text,
) -> c_int {
    done(|| {
        let (application, key, value) = (application.text()?, key.text()?, value.text()?);
        let prefix = ("prefix", "osd pool application set");
        command(ioctx.get()?, &[prefix, ("app", &application), ("key", &key), ("value", &value)], &[])
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_metadata_remove(ioctx: Handle<IoCtx>, application: Text, key: Text) -> c_int {
    done(|| {
        let (application, key) = (application.text()?, key.text()?);
        let prefix = ("prefix", "osd pool application rm");
        command(ioctx.get()?, &[prefix, ("app", &application), ("key", &key)], &[])
    })
}

/// Texts one behind the other, each with a zero.
fn joined<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<u8> {
    texts.flat_map(|text| to_bytes(text).into_owned().into_iter().chain([0])).collect()
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_list(ioctx: Handle<IoCtx>, names: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let all = in_map(ioctx.client(), ioctx.pool_id(), |pool| joined(pool.application_metadata.keys()))?;
        fill(names, len, &all)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_metadata_get(
    ioctx: Handle<IoCtx>,
    application: Text,
    key: Text,
    value: Out<u8>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let (ioctx, application, key) = (ioctx.get()?, application.text()?, key.text()?);
        let found = in_map(ioctx.client(), ioctx.pool_id(), |pool| {
            pool.application_metadata.get(&*application)?.get(&*key).cloned()
        })?;
        fill(value, len, &[&*to_bytes(&found.ok_or(Errno::NOENT)?), b"\0"].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_application_metadata_list(
    ioctx: Handle<IoCtx>,
    application: Text,
    keys: Out<u8>,
    keys_len: Out<usize>,
    values: Out<u8>,
    values_len: Out<usize>,
) -> c_int {
    done(|| {
        let (ioctx, application) = (ioctx.get()?, application.text()?);
        let entries = in_map(ioctx.client(), ioctx.pool_id(), |pool| {
            pool.application_metadata.get(&*application).cloned()
        })?;
        let entries = entries.ok_or(Errno::NOENT)?;
        let filled = (
            fill(keys, keys_len, &joined(entries.keys())),
            fill(values, values_len, &joined(entries.values())),
        );
        filled.0.and(filled.1)
    })
}
