//! `ceph osd dump`: all that the map of the OSDs says.
//!
//! Source: ceph `src/osd/OSDMap.cc` (`dump`, `print`), `src/osd/osd_types.cc` (`pg_pool_t::dump`).

use super::osd::map_at;
use super::releases;
use crate::mon::command::call::joined;
use crate::mon::command::call::{Call, CommandOutcome};
use crate::mon::command::mons::{addr_text, addrs_json};
use crate::mon::command::pools::pool::{pool_json, pool_line};
use crate::mon::monitor::Mon;
use crate::mon::osd_flags;
use crate::mon::text::{self, stamp};
use onego_ceph::osdmap::{IntervalSet, OsdMap, PRIMARY_AFFINITY_MAX, WEIGHT_IN, state};
use onego_ceph::types::PgId;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = map_at(mon, call)?;
    let json = map_json(&map);
    Ok(call.show(&json, map_text(&map)))
}

fn state_names(bits: u32) -> Vec<&'static str> {
    let names = [
        (state::AUTOOUT, "autoout"),
        (state::BACKFILLFULL, "backfillfull"),
        (state::EXISTS, "exists"),
        (state::FULL, "full"),
        (state::NEARFULL, "nearfull"),
        (state::NEW, "new"),
        (state::UP, "up"),
    ];
    names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

fn osd_json(map: &OsdMap, osd: usize) -> Value {
    let (bits, info) = (map.osd_state[osd], &map.osd_info[osd]);
    let share = |value: u32, whole: u32| f64::from(value) / f64::from(whole);
    let affinity = map.osd_primary_affinity.get(osd).copied().unwrap_or(PRIMARY_AFFINITY_MAX);
    json!({
        "osd": osd,
        "uuid": map.osd_uuid[osd].to_string(),
        "up": u8::from(bits & state::UP != 0),
        "in": u8::from(map.osd_weight[osd] != 0),
        "weight": share(map.osd_weight[osd], WEIGHT_IN),
        "primary_affinity": share(affinity, PRIMARY_AFFINITY_MAX),
        "last_clean_begin": info.last_clean_begin,
        "last_clean_end": info.last_clean_end,
        "up_from": info.up_from,
        "up_thru": info.up_thru,
        "down_at": info.down_at,
        "lost_at": info.lost_at,
        "public_addrs": addrs_json(&map.client_addrs[osd]),
        "cluster_addrs": addrs_json(&map.cluster_addrs[osd]),
        "heartbeat_back_addrs": addrs_json(&map.heartbeat_back_addrs[osd]),
        "heartbeat_front_addrs": addrs_json(&map.heartbeat_front_addrs[osd]),
        "public_addr": addr_text(&map.client_addrs[osd]),
        "cluster_addr": addr_text(&map.cluster_addrs[osd]),
        "heartbeat_back_addr": addr_text(&map.heartbeat_back_addrs[osd]),
        "heartbeat_front_addr": addr_text(&map.heartbeat_front_addrs[osd]),
        "state": state_names(bits),
    })
}

fn xinfo_json(map: &OsdMap, osd: usize) -> Value {
    let info = &map.osd_xinfo[osd];
    json!({
        "osd": osd,
        "down_stamp": stamp(info.down_stamp),
        "laggy_probability": f64::from(info.laggy_probability) / f64::from(u32::MAX),
        "laggy_interval": info.laggy_interval,
        "features": info.features,
        "old_weight": info.old_weight,
        "last_purged_snaps_scrub": stamp(info.last_purged_snaps_scrub),
        "dead_epoch": info.dead_epoch,
    })
}

fn snaps_json(pools: &BTreeMap<i64, IntervalSet>) -> Value {
    let one = |(pool, snaps): (&i64, &IntervalSet)| {
        let intervals: Vec<Value> =
            snaps.iter().map(|(begin, length)| json!({"begin": begin, "length": length})).collect();
        json!({"pool": pool, "snaps": intervals})
    };
    pools.iter().map(one).collect()
}

fn upmap_items_json((pg, pairs): (&PgId, &Vec<(i32, i32)>)) -> Value {
    let pairs = pairs.iter().map(|(from, to)| json!({"from": from, "to": to}));
    json!({"pgid": pg.to_string(), "mappings": pairs.collect::<Vec<_>>()})
}

fn map_json(map: &OsdMap) -> Value {
    let mut flags = osd_flags::names(map.flags);
    let flags_text = flags.join(",");
    flags.sort_unstable();
    let existing = || (0..map.max_osd).filter(|&osd| map.exists(osd as i32));
    let blocklist: Map<String, Value> =
        map.blocklist.iter().map(|(addr, until)| (addr.to_string(), stamp(*until).into())).collect();
    let fields = json!({
        "epoch": map.epoch,
        "fsid": map.fsid.to_string(),
        "created": stamp(map.created),
        "modified": stamp(map.modified),
        "last_up_change": stamp(map.last_up_change),
        "last_in_change": stamp(map.last_in_change),
        "flags": flags_text,
        "flags_num": map.flags,
        "flags_set": flags,
        "crush_version": map.crush_version,
        "full_ratio": map.ratios.full,
        "backfillfull_ratio": map.ratios.backfillfull,
        "nearfull_ratio": map.ratios.nearfull,
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd,
        "require_min_compat_client": releases::name(map.require_min_compat_client),
        "min_compat_client": "jewel",
        "require_osd_release": "pacific",
    });
    let pools: Vec<Value> =
        map.pools.iter().map(|(id, pool)| pool_json("pool", *id, &map.pool_names[id], pool)).collect();
    let upmaps = map.pg_upmap.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds}));
    let upmaps: Vec<Value> = upmaps.collect();
    let upmap_items: Vec<Value> = map.pg_upmap_items.iter().map(upmap_items_json).collect();
    let lists = json!({
        "pools": pools,
        "osds": existing().map(|osd| osd_json(map, osd)).collect::<Vec<_>>(),
        "osd_xinfo": existing().map(|osd| xinfo_json(map, osd)).collect::<Vec<_>>(),
        "pg_upmap": upmaps,
        "pg_upmap_items": upmap_items,
        "pg_temp": [],
        "primary_temp": [],
        "blocklist": blocklist,
        "range_blocklist": {},
        "erasure_code_profiles": {},
        "removed_snaps_queue": snaps_json(&map.removed_snaps_queue),
        "new_removed_snaps": snaps_json(&map.new_removed_snaps),
        "new_purged_snaps": snaps_json(&map.new_purged_snaps),
        "crush_node_flags": {},
        "device_class_flags": {},
        "stretch_mode": {
            "stretch_mode_enabled": false,
            "stretch_bucket_count": 0,
            "degraded_stretch_mode": 0,
            "recovering_stretch_mode": 0,
            "stretch_mode_bucket": 0,
        },
    });
    joined([fields, lists])
}

fn map_text(map: &OsdMap) -> String {
    let mut text = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\n",
        map.epoch,
        map.fsid,
        stamp(map.created),
        stamp(map.modified),
        osd_flags::names(map.flags).join(","),
        map.crush_version,
    );
    text += &format!(
        "full_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\n",
        map.ratios.full, map.ratios.backfillfull, map.ratios.nearfull
    );
    text += &format!(
        "require_min_compat_client {}\nmin_compat_client jewel\nrequire_osd_release pacific\n",
        releases::name(map.require_min_compat_client)
    );
    text += "stretch_mode_enabled false\n";
    for (id, pool) in &map.pools {
        text += &pool_line(*id, &map.pool_names[id], pool);
    }
    text += &format!("max_osd {}\n", map.max_osd);
    for osd in (0..map.max_osd).filter(|&osd| map.exists(osd as i32)) {
        text += &osd_line(map, osd);
    }
    for (pg, osds) in &map.pg_upmap {
        text += &format!("pg_upmap {pg} {osds:?}\n");
    }
    for (pg, pairs) in &map.pg_upmap_items {
        let flat: Vec<i32> = pairs.iter().flat_map(|(from, to)| [*from, *to]).collect();
        text += &format!("pg_upmap_items {pg} {flat:?}\n");
    }
    for (addr, until) in &map.blocklist {
        text += &format!("blocklist {addr} expires {}\n", text::stamp(*until));
    }
    text
}

fn osd_line(map: &OsdMap, osd: usize) -> String {
    let (bits, info) = (map.osd_state[osd], &map.osd_info[osd]);
    format!(
        "osd.{osd} {} {} weight {} up_from {} up_thru {} down_at {} last_clean_interval [{},{}) {} {} {} {}\n",
        if bits & state::UP != 0 { "up  " } else { "down" },
        if map.osd_weight[osd] != 0 { "in " } else { "out" },
        f64::from(map.osd_weight[osd]) / f64::from(WEIGHT_IN),
        info.up_from,
        info.up_thru,
        info.down_at,
        info.last_clean_begin,
        info.last_clean_end,
        map.client_addrs[osd],
        map.cluster_addrs[osd],
        state_names(bits).join(","),
        map.osd_uuid[osd],
    )
}
