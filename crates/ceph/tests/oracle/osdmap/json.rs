//! Formats a map as JSON, like `osdmaptool --dump json`.

use onego_ceph::osdmap::{HitSetParams, IntervalSet, OsdMap, Pool, PoolOption, state};
use onego_ceph::types::{PgId, Utime};
use onego_msgr::addr::{AddrKind, AddrVec, EntityAddr};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Omitted fields, which are derived from the compared ones.
const DERIVED: [&str; 10] = [
    "flags_set",
    "min_compat_client",
    "flags_names",
    "grade_table",
    "public_addr",
    "cluster_addr",
    "heartbeat_back_addr",
    "heartbeat_front_addr",
    "snap_mode",
    "removed_snaps",
];

const RELEASES: [&str; 21] = [
    "unknown",
    "argonaut",
    "bobtail",
    "cuttlefish",
    "dumpling",
    "emperor",
    "firefly",
    "giant",
    "hammer",
    "infernalis",
    "jewel",
    "kraken",
    "luminous",
    "mimic",
    "nautilus",
    "octopus",
    "pacific",
    "quincy",
    "reef",
    "squid",
    "tentacle",
];

pub(crate) fn osdmap(map: &OsdMap) -> Value {
    let osds: Vec<usize> = (0..map.max_osd).filter(|osd| map.exists(*osd as i32)).collect();
    json!({
        "epoch": map.epoch,
        "fsid": map.fsid.to_string(),
        "created": time(map.created),
        "modified": time(map.modified),
        "last_up_change": time(map.last_up_change),
        "last_in_change": time(map.last_in_change),
        "flags_num": map.flags,
        "crush_version": map.crush_version,
        "full_ratio": map.ratios.full,
        "backfillfull_ratio": map.ratios.backfillfull,
        "nearfull_ratio": map.ratios.nearfull,
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd,
        "require_min_compat_client": RELEASES[usize::from(map.require_min_compat_client)],
        "require_osd_release": RELEASES[usize::from(map.require_osd_release)],
        "pools": map.pools.iter().map(|(id, p)| pool(*id, &map.pool_names[id], p)).collect::<Vec<_>>(),
        "osds": osds.iter().map(|id| osd(map, *id)).collect::<Vec<_>>(),
        "osd_xinfo": osds.iter().map(|id| osd_xinfo(map, *id)).collect::<Vec<_>>(),
        "pg_upmap": by_pg(&map.pg_upmap, "osds"),
        "pg_upmap_items": map.pg_upmap_items.iter().map(|(pg, items)| json!({
            "pgid": pg.to_string(),
            "mappings": items.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "pg_temp": by_pg(&map.pg_temp, "osds"),
        // osdmaptool prints both parts of each entry next to each other.
        "primary_temp": map.primary_temp.iter()
            .flat_map(|(pg, osd)| [json!(pg.to_string()), json!(osd)]).collect::<Vec<_>>(),
        "blocklist": until(&map.blocklist),
        "range_blocklist": until(&map.range_blocklist),
        "erasure_code_profiles": map.erasure_code_profiles,
        "removed_snaps_queue": by_pool(&map.removed_snaps_queue),
        "new_removed_snaps": by_pool(&map.new_removed_snaps),
        "new_purged_snaps": by_pool(&map.new_purged_snaps),
        "crush_node_flags": map.crush_node_flags.iter()
            .map(|(id, flags)| (map.crush.item_names[id].clone(), json!(state_names(*flags))))
            .collect::<Map<_, _>>(),
        "device_class_flags": map.device_class_flags.iter()
            .map(|(id, flags)| (map.crush.class_names[id].clone(), json!(state_names(*flags))))
            .collect::<Map<_, _>>(),
        "stretch_mode": {
            "stretch_mode_enabled": map.stretch_mode.enabled,
            "stretch_bucket_count": map.stretch_mode.bucket_count,
            "degraded_stretch_mode": map.stretch_mode.degraded,
            "recovering_stretch_mode": map.stretch_mode.recovering,
            "stretch_mode_bucket": map.stretch_mode.bucket,
        },
    })
}

fn pool(id: i64, name: &str, pool: &Pool) -> Value {
    let mut dump = json!({
        "pool": id,
        "pool_name": name,
        "create_time": time(pool.create_time),
        "flags": pool.flags,
        "type": pool.kind as u8,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "object_hash": pool.object_hash,
        "pg_autoscale_mode": (["off", "warn", "on"][usize::from(pool.pg_autoscale_mode)]),
        "pg_num": pool.pg_num,
        "pg_placement_num": pool.pgp_num,
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
        "last_pg_merge_meta": {
            "source_pgid": pool.last_pg_merge.source.to_string(),
            "ready_epoch": pool.last_pg_merge.ready_epoch,
            "last_epoch_started": pool.last_pg_merge.last_epoch_started,
            "last_epoch_clean": pool.last_pg_merge.last_epoch_clean,
            "source_version": pool.last_pg_merge.source_version.to_string(),
            "target_version": pool.last_pg_merge.target_version.to_string(),
        },
        "last_change": pool.last_change.to_string(),
        "last_force_op_resend": pool.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": pool.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": pool.last_force_op_resend_preluminous.to_string(),
        "auid": pool.auid,
        "snap_seq": pool.snap_seq,
        "snap_epoch": pool.snap_epoch,
        "pool_snaps": pool.snaps.values().map(|snap| json!({
            "snapid": snap.id,
            "stamp": time(snap.stamp),
            "name": snap.name,
        })).collect::<Vec<_>>(),
    });
    let peering = pool.peering_crush;
    merge(
        &mut dump,
        json!({
            "peering_crush_bucket_count": peering.map_or(0, |p| p.bucket_count),
            "peering_crush_bucket_target": peering.map_or(0, |p| p.bucket_target),
            "peering_crush_bucket_barrier": peering.map_or(0, |p| p.bucket_barrier),
            "peering_crush_bucket_mandatory_member": peering.map_or(i32::MAX, |p| p.mandatory_member),
            "quota_max_bytes": pool.quota_max_bytes,
            "quota_max_objects": pool.quota_max_objects,
            "stripe_width": pool.stripe_width,
            "expected_num_objects": pool.expected_num_objects,
            "fast_read": pool.fast_read,
            "erasure_code_profile": pool.erasure_code_profile,
            "options": options(&pool.options),
            "application_metadata": pool.application_metadata,
        }),
    );
    merge(&mut dump, tiering(pool));
    dump
}

fn tiering(pool: &Pool) -> Value {
    json!({
        "tiers": pool.tiers,
        "tier_of": pool.tier_of,
        "read_tier": pool.read_tier,
        "write_tier": pool.write_tier,
        "cache_mode": (["none", "writeback", "forward", "readonly"][usize::from(pool.cache_mode)]),
        "target_max_bytes": pool.target_max_bytes,
        "target_max_objects": pool.target_max_objects,
        "cache_target_dirty_ratio_micro": pool.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": pool.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": pool.cache_target_full_ratio_micro,
        "cache_min_flush_age": pool.cache_min_flush_age,
        "cache_min_evict_age": pool.cache_min_evict_age,
        "hit_set_params": match pool.hit_set_params {
            HitSetParams::None => json!({ "type": "none" }),
            HitSetParams::ExplicitHash => json!({ "type": "explicit_hash" }),
            HitSetParams::ExplicitObject => json!({ "type": "explicit_object" }),
            HitSetParams::Bloom { fpp_micro, target_size, seed } => json!({
                "type": "bloom",
                "false_positive_probability": f64::from(fpp_micro) / 1e6,
                "target_size": target_size,
                "seed": seed,
            }),
        },
        "hit_set_period": pool.hit_set_period,
        "hit_set_count": pool.hit_set_count,
        "use_gmt_hitset": pool.use_gmt_hitset,
        "min_read_recency_for_promote": pool.min_read_recency_for_promote,
        "min_write_recency_for_promote": pool.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": pool.hit_set_grade_decay_rate,
        "hit_set_search_last_n": pool.hit_set_search_last_n,
    })
}

/// Options that the tests set, by number (ceph `src/osd/osd_types.h`, pool_opts_t::key_t).
fn options(options: &BTreeMap<i32, PoolOption>) -> Value {
    let name = |key: &i32| match key {
        6 => "compression_mode",
        7 => "compression_algorithm",
        8 => "compression_required_ratio",
        9 => "compression_max_blob_size",
        other => panic!("option {other} has no name here"),
    };
    let value = |value: &PoolOption| match value {
        PoolOption::Text(text) => json!(text),
        PoolOption::Int(number) => json!(number),
        PoolOption::Float(number) => json!(number),
    };
    options.iter().map(|(key, option)| (name(key).to_owned(), value(option))).collect::<Map<_, _>>().into()
}

fn osd(map: &OsdMap, id: usize) -> Value {
    let info = &map.osd_info[id];
    let affinity = map.osd_primary_affinity.get(id).map_or(1.0, |affinity| f64::from(*affinity) / 65536.0);
    json!({
        "osd": id,
        "uuid": map.osd_uuid[id].to_string(),
        "up": u8::from(map.is_up(id as i32)),
        "in": u8::from(map.osd_weight[id] != 0),
        "weight": f64::from(map.osd_weight[id]) / 65536.0,
        "primary_affinity": affinity,
        "last_clean_begin": info.last_clean_begin,
        "last_clean_end": info.last_clean_end,
        "up_from": info.up_from,
        "up_thru": info.up_thru,
        "down_at": info.down_at,
        "lost_at": info.lost_at,
        "public_addrs": addrs(&map.client_addrs[id]),
        "cluster_addrs": addrs(&map.cluster_addrs[id]),
        "heartbeat_back_addrs": addrs(&map.heartbeat_back_addrs[id]),
        "heartbeat_front_addrs": addrs(&map.heartbeat_front_addrs[id]),
        "state": state_names(map.osd_state[id]),
    })
}

fn osd_xinfo(map: &OsdMap, id: usize) -> Value {
    let info = &map.osd_xinfo[id];
    json!({
        "osd": id,
        "down_stamp": time(info.down_stamp),
        "laggy_probability": info.laggy_probability as f32 / u32::MAX as f32,
        "laggy_interval": info.laggy_interval,
        "features": info.features,
        "old_weight": info.old_weight,
        "last_purged_snaps_scrub": time(info.last_purged_snaps_scrub),
        "dead_epoch": info.dead_epoch,
    })
}

/// Formats addresses, also as in monmaptool.
pub(crate) fn addrs(addrs: &AddrVec) -> Value {
    let kind = |addr: &EntityAddr| match addr.kind {
        AddrKind::None => "none",
        AddrKind::Legacy => "v1",
        AddrKind::Msgr2 => "v2",
        AddrKind::Any => "any",
        AddrKind::Cidr => "cidr",
    };
    let addr = |addr: &EntityAddr| {
        let sock =
            addr.sock.map_or_else(|| "(unrecognized address family 0)".to_owned(), |sock| sock.to_string());
        json!({ "type": kind(addr), "addr": sock, "nonce": addr.nonce })
    };
    json!({ "addrvec": addrs.0.iter().map(addr).collect::<Vec<_>>() })
}

fn state_names(bits: u32) -> Vec<&'static str> {
    let names = [
        (state::EXISTS, "exists"),
        (state::UP, "up"),
        (state::AUTOOUT, "autoout"),
        (state::NEW, "new"),
        (state::FULL, "full"),
        (state::NEARFULL, "nearfull"),
        (state::BACKFILLFULL, "backfillfull"),
        (state::DESTROYED, "destroyed"),
        (1 << 8, "noup"),
        (1 << 9, "nodown"),
        (1 << 10, "noin"),
        (1 << 11, "noout"),
        (state::STOP, "stop"),
    ];
    let mut set: Vec<_> = names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    set.sort_unstable();
    set
}

fn by_pg(map: &BTreeMap<PgId, Vec<i32>>, what: &str) -> Value {
    map.iter().map(|(pg, osds)| json!({ "pgid": pg.to_string(), what: osds })).collect()
}

fn by_pool(map: &BTreeMap<i64, IntervalSet>) -> Value {
    let interval = |(begin, length)| json!({ "begin": begin, "length": length });
    let snaps = |set: &IntervalSet| set.iter().map(interval).collect::<Vec<_>>();
    map.iter().map(|(pool, set)| json!({ "pool": pool, "snaps": snaps(set) })).collect()
}

fn until<A: Display>(map: &BTreeMap<A, Utime>) -> Value {
    map.iter().map(|(addr, until)| (addr.to_string(), json!(time(*until)))).collect::<Map<_, _>>().into()
}

/// Formats a time. Those of the first ten years are durations for Ceph (ceph `src/include/utime.h`, utime_t::localtime).
pub(crate) fn time(time: Utime) -> String {
    let micros = time.nsec / 1000;
    if time.sec < 60 * 60 * 24 * 365 * 10 {
        return format!("{}.{micros:06}", time.sec);
    }
    let (days, second) = (time.sec / 86_400, time.sec % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = civil(days.into());
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
}

fn civil(days: i64) -> (i64, i64, i64) {
    // Years start in March here, so that leap days are at the end; an era has 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Asserts that two dumps are equal, except for derived fields and the last digits of numbers.
pub(crate) fn assert_same(ours: &Value, theirs: &Value, path: &str) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &Map<String, Value>| -> Vec<String> {
                let derived = |key: &str| DERIVED.contains(&key) || (path.is_empty() && key == "flags");
                let mut keys: Vec<_> = map.keys().filter(|key| !derived(key)).cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(a), keys(b), "fields of {path}");
            for key in keys(a) {
                assert_same(&a[&key], &b[&key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "length of {path}");
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                assert_same(a, b, &format!("{path}[{i}]"));
            }
        }
        (Value::Number(a), Value::Number(b)) if a != b => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-5 * a.abs().max(b.abs()), "{path}: {a}, Ceph says {b}");
        }
        (a, b) => assert_eq!(a, b, "{path}"),
    }
}
