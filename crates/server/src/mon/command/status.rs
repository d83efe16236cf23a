//! How the cluster is: `ceph status`, `ceph health`, `ceph df`.
//!
//! Source: ceph `src/mon/Monitor.cc` (`get_cluster_status`), `src/mon/PGMap.cc` (`dump_cluster_stats`,
//! `dump_pool_stats_full`), `src/mon/health_check.h`.

use super::args::joined;
use super::{Call, Outcome};
use crate::mon::first_map::{MON_NAME, OSD_ID};
use crate::mon::text::{self, Left, Right, Table};
use crate::mon::usage::Usage;
use crate::mon::{Mon, osd_flags};
use onego_ceph::osdmap::state;
use onego_ceph::types::Utime;
use onego_wire::Time;
use serde_json::{Map, Value, json};

/// From here on the cluster is said to be nearly full, and full (`mon_osd_nearfull_ratio`, `mon_osd_full_ratio`).
const NEARFULL: f64 = 0.85;
const FULL: f64 = 0.95;

/// Something that is not as it should be.
struct Check {
    code: &'static str,
    error: bool,
    summary: String,
    count: usize,
    detail: Vec<String>,
}

impl Check {
    fn severity(&self) -> &'static str {
        if self.error { "HEALTH_ERR" } else { "HEALTH_WARN" }
    }
}

fn checks(mon: &Mon, usage: &Usage) -> Vec<Check> {
    let map = mon.osdmap();
    let mut checks = Vec::new();
    let mut warn = |code, error, summary: String, detail: Vec<String>| {
        checks.push(Check { code, error, summary, count: detail.len().max(1), detail });
    };
    if !map.is_up(OSD_ID) {
        warn("OSD_DOWN", false, "1 osds down".into(), vec![format!("osd.{OSD_ID} is down")]);
    }
    let flags = osd_flags::warned(map.flags);
    if !flags.is_empty() {
        warn("OSDMAP_FLAGS", false, format!("{flags} flag(s) set"), Vec::new());
    }
    if usage.ratio() >= FULL {
        warn("OSD_FULL", true, "1 full osd(s)".into(), vec![format!("osd.{OSD_ID} is full")]);
    } else if usage.ratio() >= NEARFULL {
        warn("OSD_NEARFULL", false, "1 nearfull osd(s)".into(), vec![format!("osd.{OSD_ID} is near full")]);
    }
    let unused = map
        .pools
        .iter()
        .filter(|(id, pool)| pool.application_metadata.is_empty() && usage.pool(**id).objects > 0);
    let unnamed: Vec<String> =
        unused.map(|(id, _)| format!("application not enabled on pool '{}'", map.pool_names[id])).collect();
    if !unnamed.is_empty() {
        let summary = format!("application not enabled on {} pool(s)", unnamed.len());
        warn("POOL_APP_NOT_ENABLED", false, summary, unnamed);
    }
    checks
}

fn overall(checks: &[Check]) -> &'static str {
    match checks.iter().map(|check| check.error).max() {
        None => "HEALTH_OK",
        Some(false) => "HEALTH_WARN",
        Some(true) => "HEALTH_ERR",
    }
}

fn health_json(checks: &[Check], detail: bool) -> Value {
    let shown: Map<String, Value> = checks
        .iter()
        .map(|check| {
            let mut fields = Map::new();
            fields.insert("severity".into(), check.severity().into());
            fields.insert("summary".into(), json!({"message": check.summary, "count": check.count}));
            if detail {
                let lines: Vec<Value> = check.detail.iter().map(|line| json!({"message": line})).collect();
                fields.insert("detail".into(), lines.into());
            }
            fields.insert("muted".into(), false.into());
            (check.code.to_owned(), Value::Object(fields))
        })
        .collect();
    json!({"status": overall(checks), "checks": shown, "mutes": []})
}

pub(super) fn health(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let checks = checks(mon, call.usage);
    let detail = call.get("detail").is_some();
    let summaries: Vec<&str> = checks.iter().map(|check| check.summary.as_str()).collect();
    let mut plain = format!("{} {}", overall(&checks), summaries.join("; "));
    plain.truncate(plain.trim_end().len());
    plain.push('\n');
    if detail {
        for check in &checks {
            let severity = if check.error { "ERR" } else { "WRN" };
            plain += &format!("[{severity}] {}: {}\n", check.code, check.summary);
            plain.extend(check.detail.iter().map(|line| format!("    {line}\n")));
        }
    }
    Ok(call.show(&health_json(&checks, detail), plain))
}

/// The monitor and its view of the cluster's health.
pub(super) fn ping(mon: &Mon, now: Time, usage: &Usage) -> Value {
    json!({
        "health": health_json(&checks(mon, usage), false),
        "mon_status": {
            "name": MON_NAME,
            "rank": 0,
            "state": "leader",
            "election_epoch": 1,
            "quorum": [0],
            "quorum_age": now.since(mon.started).as_secs(),
        },
    })
}

/// The placement groups: how many, and what they all are.
pub(super) fn pgs(mon: &Mon) -> (u64, &'static str) {
    let map = mon.osdmap();
    let count = map.pools.values().map(|pool| u64::from(pool.pg_num)).sum();
    (count, if map.is_up(OSD_ID) { "active+clean" } else { "stale+active+clean" })
}

/// How many OSDs are up and in, and since when.
pub(super) fn osd_counts(mon: &Mon) -> Value {
    let map = mon.osdmap();
    json!({
        "epoch": map.epoch,
        "num_osds": 1,
        "num_up_osds": u8::from(map.is_up(OSD_ID)),
        "osd_up_since": map.last_up_change.sec,
        "num_in_osds": u8::from(map.state(OSD_ID) & state::EXISTS != 0),
        "osd_in_since": map.last_in_change.sec,
        "num_remapped_pgs": 0,
    })
}

pub(super) fn osd_summary(mon: &Mon, now: Time) -> String {
    let map = mon.osdmap();
    let age = |since: Utime| text::span(now.since(since.into()));
    format!(
        "1 osds: {} up (since {}), 1 in (since {})",
        u8::from(map.is_up(OSD_ID)),
        age(map.last_up_change),
        age(map.last_in_change)
    )
}

pub(super) fn usage_summary(usage: &Usage) -> String {
    let [used, free, total] = [usage.used, usage.available(), usage.total].map(text::bytes);
    format!("{used} used, {free} / {total} avail")
}

pub(super) fn status(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let checks = checks(mon, call.usage);
    let json = status_json(mon, call, &checks);
    Ok(call.show(&json, status_text(mon, call, &checks)))
}

fn status_json(mon: &Mon, call: &Call<'_>, checks: &[Check]) -> Value {
    let usage = call.usage;
    let (pg_count, pg_state) = pgs(mon);
    let states = if pg_count == 0 { json!([]) } else { json!([{"state_name": pg_state, "count": pg_count}]) };
    json!({
        "fsid": mon.fsid.to_string(),
        "health": health_json(checks, false),
        "election_epoch": 1,
        "quorum": [0],
        "quorum_names": [MON_NAME],
        "quorum_age": call.now.since(mon.started).as_secs(),
        "monmap": {"epoch": mon.monmap.epoch, "min_mon_release_name": "pacific", "num_mons": 1},
        "osdmap": osd_counts(mon),
        "pgmap": {
            "pgs_by_state": states,
            "num_pgs": pg_count,
            "num_pools": mon.osdmap().pools.len(),
            "num_objects": usage.objects(),
            "data_bytes": usage.bytes(),
            "bytes_used": usage.used,
            "bytes_avail": usage.available(),
            "bytes_total": usage.total,
        },
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {"available": false, "num_standbys": 0, "modules": [], "services": {}},
        "servicemap": {"epoch": 1, "modified": text::stamp(mon.started.into()), "services": {}},
        "progress_events": {},
    })
}

fn status_text(mon: &Mon, call: &Call<'_>, checks: &[Check]) -> String {
    let map = mon.osdmap();
    let usage = call.usage;
    let mut text = format!("  cluster:\n    id:     {}\n    health: {}\n", mon.fsid, overall(checks));
    text.extend(checks.iter().map(|check| format!("            {}\n", check.summary)));
    let age = text::span(call.now.since(mon.started));
    text += " \n  services:\n";
    text += &format!("    mon: 1 daemons, quorum {MON_NAME} (age {age})\n");
    text += "    mgr: no daemons active\n";
    text += &format!("    osd: {}\n", osd_summary(mon, call.now));
    let flags = osd_flags::warned(map.flags);
    if !flags.is_empty() {
        text += &format!("         flags {flags}\n");
    }
    let (pg_count, pg_state) = pgs(mon);
    let pg_line = if pg_count == 0 { String::new() } else { format!("{pg_count} {pg_state}") };
    text += &format!(" \n  data:\n    pools:   {} pools, {pg_count} pgs\n", map.pools.len());
    text +=
        &format!("    objects: {} objects, {}\n", text::number(usage.objects()), text::bytes(usage.bytes()));
    text + &format!("    usage:   {}\n    pgs:     {pg_line}\n \n", usage_summary(usage))
}

pub(super) fn df(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let detail = call.get("detail").is_some();
    let usage = call.usage;
    let pools: Vec<Value> =
        mon.osdmap().pools.keys().map(|id| df_pool_json(mon, usage, *id, detail)).collect();
    let json = json!({
        "stats": {
            "total_bytes": usage.total,
            "total_avail_bytes": usage.available(),
            "total_used_bytes": usage.used,
            "total_used_raw_bytes": usage.used,
            "total_used_raw_ratio": usage.ratio(),
            "num_osds": 1,
            "num_per_pool_osds": 0,
            "num_per_pool_omap_osds": 0,
        },
        "stats_by_class": {},
        "pools": pools,
    });
    Ok(call.show(&json, df_text(mon, usage, detail)))
}

/// The share that a pool has in what it could have.
fn used_share(usage: &Usage, id: i64) -> f64 {
    let stored = usage.pool(id).bytes as f64;
    if stored == 0.0 { 0.0 } else { stored / (stored + usage.available() as f64) }
}

fn df_pool_json(mon: &Mon, usage: &Usage, id: i64, detail: bool) -> Value {
    let pool = usage.pool(id);
    let stored = pool.bytes;
    let stats = json!({
        "stored": stored,
        "objects": pool.objects,
        "kb_used": stored.div_ceil(1024),
        "bytes_used": stored,
        "percent_used": used_share(usage, id),
        "max_avail": usage.available(),
    });
    let map = mon.osdmap();
    let more = || {
        json!({
            "stored_data": stored,
            "stored_omap": 0,
            "data_bytes_used": stored,
            "omap_bytes_used": 0,
            "quota_objects": map.pools[&id].quota_max_objects,
            "quota_bytes": map.pools[&id].quota_max_bytes,
            "dirty": 0,
            "rd": pool.reads,
            "rd_bytes": pool.read_bytes,
            "wr": pool.writes,
            "wr_bytes": pool.written_bytes,
            "compress_bytes_used": 0,
            "compress_under_bytes": 0,
            "stored_raw": stored,
            "avail_raw": usage.available(),
        })
    };
    let stats = if detail { joined([stats, more()]) } else { stats };
    json!({"name": map.pool_names[&id], "id": id, "stats": stats})
}

fn df_text(mon: &Mon, usage: &Usage, detail: bool) -> String {
    let column = |heading| {
        if matches!(heading, "CLASS" | "POOL") { (heading, Left, Left) } else { (heading, Right, Right) }
    };
    let mut total = Table::new(&["CLASS", "SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"].map(column));
    let [size, free, used] = [usage.total, usage.available(), usage.used].map(text::bytes);
    total.row(["TOTAL".into(), size, free, used.clone(), used, text::percent(usage.ratio())]);

    let split: &[&str] = if detail { &["(DATA)", "(OMAP)"] } else { &[] };
    let dirty: &[&str] = if detail { &["DIRTY"] } else { &[] };
    let headings: [&[&str]; 6] = [
        &["POOL", "ID", "PGS", "STORED"],
        split,
        &["OBJECTS", "USED"],
        split,
        &["%USED", "MAX AVAIL"],
        dirty,
    ];
    let columns: Vec<_> = headings.concat().into_iter().map(column).collect();
    let mut pools = Table::new(&columns);
    for (id, pool) in &mon.osdmap().pools {
        let used = usage.pool(*id);
        let stored = text::bytes(used.bytes);
        let parts: Vec<String> =
            split.iter().zip([used.bytes, 0]).map(|(_, part)| text::bytes(part)).collect();
        let mut row = vec![mon.osdmap().pool_names[id].clone(), id.to_string(), pool.pg_num.to_string()];
        row.push(stored.clone());
        row.extend(parts.clone());
        row.extend([text::number(used.objects), stored]);
        row.extend(parts);
        row.extend([text::percent(used_share(usage, *id)), text::bytes(usage.available())]);
        row.extend(detail.then(|| "N/A".to_owned()));
        pools.row(row);
    }
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", total.render(), pools.render())
}
