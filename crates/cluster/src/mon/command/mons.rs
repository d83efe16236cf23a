//! The daemons beside the OSDs: the monitor, no manager, no metadata server.
//!
//! Source: ceph `src/mon/{MonmapMonitor,MgrMonitor,Monitor}.cc`.

use super::call::{Call, CommandOutcome, Reply, joined};
use super::status;
use crate::mon::first_map::{MON_FEATURES, MON_NAME};
use crate::mon::monitor::Mon;
use crate::mon::osds::counts;
use crate::mon::refusal::Refusal;
use crate::mon::session::Role;
use crate::mon::text;
use crate::version::VERSION_TEXT;
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::types::EntityName;
use onego_msgr::addr::{AddrKind, AddrVec, EntityAddr};
use onego_msgr::encoding::Encode as _;
use onego_msgr::features::{self, has};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A list of addresses as Ceph dumps it.
pub(crate) fn addrs_json(addrs: &AddrVec) -> Value {
    let list: Vec<Value> = addrs
        .0
        .iter()
        .map(|addr| {
            let kind = match addr.kind {
                AddrKind::Legacy => "v1",
                AddrKind::Msgr2 => "v2",
                _ => "any",
            };
            json!({"type": kind, "addr": sock_text(addr), "nonce": addr.nonce})
        })
        .collect();
    json!({"addrvec": list})
}

fn sock_text(addr: &EntityAddr) -> String {
    addr.sock.map(|sock| sock.to_string()).unwrap_or_default()
}

/// The one address that readers from before msgr2 look for: `127.0.0.1:3300/0`.
pub(crate) fn addr_text(addrs: &AddrVec) -> String {
    let addr = addrs.0.first().copied().unwrap_or_default();
    format!("{}/{}", sock_text(&addr), addr.nonce)
}

fn mon_addrs(mon: &Mon) -> AddrVec {
    mon.monmap.by_rank(0).map(|info| info.public_addrs.clone()).unwrap_or_default()
}

pub(crate) fn fsid(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let fsid = mon.fsid.to_string();
    Ok(call.show(&json!({"fsid": fsid}), format!("{fsid}\n")))
}

pub(crate) fn version(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show(&json!({"version": VERSION_TEXT}), format!("{VERSION_TEXT}\n")))
}

/// What a daemon says to `ceph tell ... version` (ceph `src/common/ceph_context.cc`).
pub(crate) fn version_json() -> Value {
    json!({"version": env!("CARGO_PKG_VERSION"), "release": "pacific", "release_type": "onego"})
}

/// How many OSDs are up: each is of this version.
fn running(mon: &Mon) -> usize {
    counts(mon.osdmap()).1
}

pub(crate) fn versions(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let daemons = |count: usize| json!({VERSION_TEXT: count});
    let osds = running(mon);
    let json =
        json!({"mon": daemons(1), "mgr": {}, "osd": daemons(osds), "mds": {}, "overall": daemons(1 + osds)});
    Ok(call.show_json(&json))
}

pub(crate) fn mon_versions(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show_json(&json!({VERSION_TEXT: 1})))
}

pub(crate) fn osd_versions(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show_json(&json!({VERSION_TEXT: running(mon)})))
}

pub(crate) fn features(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let row = |features: u64, count: usize| json!({"features": format!("{features:#x}"), "release": release_of(features), "num": count});
    let mut clients: BTreeMap<u64, usize> = BTreeMap::new();
    let is_client = |kind: u8| kind == EntityName::CLIENT;
    // Those that have come to the manager have come to the monitor, too.
    let at_monitor = mon.sessions.values().filter(|session| session.role == Role::Monitor);
    for session in at_monitor.filter(|session| is_client(session.peer.name.kind)) {
        *clients.entry(session.peer.features).or_default() += 1;
    }
    let clients: Vec<Value> = clients.into_iter().map(|(features, count)| row(features, count)).collect();
    let own = json!([row(features::ALL, 1)]);
    Ok(call.show_json(&json!({"mon": own, "osd": own, "client": clients})))
}

/// The release whose features somebody has. Those of later ones than Luminous are of no interest to clients, and Ceph
/// does not tell them apart either.
fn release_of(all: u64) -> &'static str {
    if has(all, features::SERVER_LUMINOUS) { "luminous" } else { "jewel" }
}

fn monmap_json(mon: &Mon) -> Value {
    let addrs = mon_addrs(mon);
    let info = json!({
        "rank": 0,
        "name": MON_NAME,
        "public_addrs": addrs_json(&addrs),
        "addr": addr_text(&addrs),
        "public_addr": addr_text(&addrs),
        "priority": 0,
        "weight": 0,
        "crush_location": "{}",
    });
    json!({
        "epoch": mon.monmap.epoch,
        "fsid": mon.fsid.to_string(),
        "modified": text::stamp_utc(mon.monmap.last_changed),
        "created": text::stamp_utc(mon.monmap.created),
        "min_mon_release": mon.monmap.min_mon_release,
        "min_mon_release_name": "pacific",
        "election_strategy": 1,
        "disallowed_leaders: ": "",
        "stretch_mode": false,
        "tiebreaker_mon": "",
        "features": {"persistent": MON_FEATURES, "optional": []},
        "mons": [info],
    })
}

/// Nobody asks for another monitors' map than the first: there is none.
fn check_epoch(mon: &Mon, call: &Call<'_>) -> Result<(), Refusal> {
    match call.int("epoch") {
        Some(epoch) if epoch != 0 && epoch != i64::from(mon.monmap.epoch) => {
            Err(Refusal::missing(format!("there is no map for epoch {epoch}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    check_epoch(mon, call)?;
    let json = joined([monmap_json(mon), json!({"quorum": [0]})]);
    let map = &mon.monmap;
    let plain = format!(
        "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} (pacific)\nelection_strategy: 1\n0: {} mon.{MON_NAME}\n",
        map.epoch,
        mon.fsid,
        text::stamp(map.last_changed),
        text::stamp(map.created),
        map.min_mon_release,
        mon_addrs(mon),
    );
    Ok(call.show(&json, plain).with_status(format!("dumped monmap epoch {}", map.epoch)))
}

pub(crate) fn stat(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let epoch = mon.monmap.epoch;
    let json = json!({
        "epoch": epoch,
        "min_mon_release_name": "pacific",
        "num_mons": 1,
        "leader": MON_NAME,
        "quorum": [{"rank": 0, "name": MON_NAME}],
    });
    let plain = format!(
        "e{epoch}: 1 mons at {{{MON_NAME}={}}} removed_ranks: {{}}, election epoch 1, leader 0 {MON_NAME}, quorum 0 {MON_NAME}\n",
        mon_addrs(mon)
    );
    Ok(call.show(&json, plain))
}

pub(crate) fn getmap(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    check_epoch(mon, call)?;
    let status = format!("got monmap epoch {}", mon.monmap.epoch);
    Ok(Reply { status, output: mon.monmap.to_bytes() })
}

pub(crate) fn quorum_status(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let json = json!({
        "election_epoch": 1,
        "quorum": [0],
        "quorum_names": [MON_NAME],
        "quorum_leader_name": MON_NAME,
        "quorum_age": call.now.since(mon.started).as_secs(),
        "features": {"quorum_con": features::ALL.to_string(), "quorum_mon": MON_FEATURES},
        "monmap": monmap_json(mon),
    });
    Ok(call.show_json(&json))
}

pub(crate) fn mon_status(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let more = json!({
        "features": {"required_con": "0", "required_mon": [], "quorum_con": features::ALL.to_string(), "quorum_mon": MON_FEATURES},
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": monmap_json(mon),
    });
    Ok(call.show_json(&joined([status::mon_status(mon, call.now), more])))
}

pub(crate) fn service_dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let modified = text::stamp_utc(mon.mgrmap.active_change);
    let services = mon.services_json();
    Ok(call.show_json(&json!({"epoch": mon.mgrmap.epoch, "modified": modified, "services": services})))
}

pub(crate) fn service_status(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show_json(&mon.service_states()))
}

pub(crate) fn metadata(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    if let Some(id) = call.get("id").filter(|id| *id != MON_NAME) {
        return Err(Refusal::missing(format!("there is no mon.{id}")));
    }
    let one = json!({
        "name": MON_NAME,
        "addrs": mon_addrs(mon).to_string(),
        "ceph_release": "pacific",
        "ceph_version": VERSION_TEXT,
        "os": "Linux",
    });
    Ok(call.show_json(&if call.get("id").is_some() { one } else { json!([one]) }))
}

pub(crate) fn mgr_dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = &mon.mgrmap;
    Ok(call.show_json(&json!({
        "epoch": mon.mgrmap.epoch,
        "active_gid": map.active_gid,
        "active_name": map.active_name,
        "active_addrs": addrs_json(&map.active_addrs),
        "active_addr": addr_text(&map.active_addrs),
        "active_change": text::stamp_utc(map.active_change),
        "active_mgr_features": map.active_features,
        "available": map.available,
        "standbys": [],
        "modules": [],
        "available_modules": [],
        "services": {},
        "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    })))
}

pub(crate) fn mgr_stat(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let MgrMap { epoch, available, active_name, .. } = &mon.mgrmap;
    let json = json!({"epoch": epoch, "available": available, "active_name": active_name, "num_standby": 0});
    Ok(call.show_json(&json))
}

pub(crate) fn mgr_modules(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show_json(&json!({"always_on_modules": [], "enabled_modules": [], "disabled_modules": []})))
}

pub(crate) fn mgr_services(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show_json(&json!({})))
}

pub(crate) fn mds_stat(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show(&json!({"fsmap": {"epoch": 1, "filesystems": [], "standbys": []}}), "\n"))
}

pub(crate) fn fs_list(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show(&json!([]), "No filesystems enabled\n"))
}
