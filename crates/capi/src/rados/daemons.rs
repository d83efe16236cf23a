//! What is asked of the cluster's daemons, and known of them.

use super::cluster::Rados;
use super::names;
use crate::border::{Errno, Handle, Out, Text, call, copied, copied_text, done};
use crate::runtime::block_on;
use onego::rados::Cluster;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// Asks a monitor of that name for a sign of life: its health, as JSON. A handle that is not connected connects for it.
#[unsafe(no_mangle)]
extern "C" fn rados_ping_monitor(
    cluster: Handle<Rados>,
    monitor: Text,
    output: Out<*mut c_char>,
    output_len: Out<usize>,
) -> c_int {
    done(|| {
        let said =
            at_monitor(cluster.get()?, &monitor.text()?, async |monitor| monitor.ping_monitor().await)?;
        output.set_if_wanted(copied(&to_bytes(&said))?);
        output_len.set_if_wanted(said.len());
        Ok(())
    })
}

/// Asks one monitor, by name or by rank, on a connection of its own.
pub(super) fn at_monitor<T>(
    rados: &Rados,
    monitor: &str,
    ask: impl AsyncFnOnce(&Cluster) -> Result<T, onego::ceph::Error>,
) -> Result<T, Errno> {
    let client = rados.connected()?;
    let known = block_on(client.cluster().monitors())?;
    let by_rank = monitor.parse().ok().and_then(|rank: usize| known.get(rank));
    let found = known.iter().find(|known| known.name == monitor).or(by_rank).ok_or(Errno::NOENT)?;
    let mut conf = rados.conf().clone();
    conf.settings.set("mon_host", &found.addrs);
    conf.identity.settings.insert("mon_host".into(), found.addrs.clone());
    let config = onego::ceph::Config::from_settings(&conf.settings, &conf.identity)?;
    Ok(block_on(async {
        let alone = Cluster::connect(&config).await?;
        ask(&alone).await
    })?)
}

/// The addresses by which the cluster knows this client.
#[unsafe(no_mangle)]
extern "C" fn rados_getaddrs(cluster: Handle<Rados>, addrs: Out<*mut c_char>) -> c_int {
    done(|| {
        let addr = block_on(cluster.get()?.client()?.cluster().own_addr())?;
        addrs.set(copied_text(&to_bytes(&addr.to_string()))?)
    })
}

/// The release, by its number, that all OSDs have at least.
#[unsafe(no_mangle)]
extern "C" fn rados_get_min_compatible_osd(cluster: Handle<Rados>, release: Out<i8>) -> c_int {
    done(|| {
        let map = block_on(cluster.get()?.client()?.cluster().osd_map())?;
        release.set(map.require_osd_release as i8)
    })
}

/// The release that clients must have for the map as it is, and the one that they must have by decree.
#[unsafe(no_mangle)]
extern "C" fn rados_get_min_compatible_client(
    cluster: Handle<Rados>,
    needed: Out<i8>,
    required: Out<i8>,
) -> c_int {
    done(|| {
        let map = block_on(cluster.get()?.client()?.cluster().osd_map())?;
        needed.set(map.min_compat_client() as i8)?;
        required.set(map.require_min_compat_client as i8)
    })
}

/// Says how long the list of a pool's inconsistent placement groups is, and gives as many whole names as there is room for.
/// It ends with an empty name.
#[unsafe(no_mangle)]
extern "C" fn rados_inconsistent_pg_list(
    cluster: Handle<Rados>,
    pool: i64,
    buf: Out<u8>,
    len: usize,
) -> c_int {
    call(|| {
        if buf.is_null() && len > 0 {
            return Err(Errno::INVAL);
        }
        let groups = block_on(cluster.get()?.client()?.cluster().inconsistent_groups(pool))?;
        let needed = names::give(groups.iter().map(String::as_str), buf, len)?;
        Ok(needed as c_int)
    })
}
