//! How the cluster is: `ceph status`, `ceph health`, `ceph df`.
//!
//! Source: ceph `src/mon/Monitor.cc` (`get_cluster_status`), `src/mon/PGMap.cc` (`dump_cluster_stats`,
//! `dump_pool_stats_full`), `src/mon/health_check.h`.

use super::call::joined;
use super::call::{Call, CommandOutcome};
use crate::mon::first_map::MON_NAME;
use crate::mon::fullness::Fullness;
use crate::mon::monitor::Mon;
use crate::mon::osd_flags;
use crate::mon::osds::{counts, ids, is_in};
use crate::mon::space::PoolSpace;
use crate::mon::text::{self, Left, Right, Table};
use crate::mon::usage::{GroupState, Usage};
use onego_ceph::osdmap::{OsdMap, Pool, pool_flag};
use onego_ceph::types::Utime;
use onego_wire::Time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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
    // One that is out as well is missed by nobody.
    let down: Vec<i32> = ids(map).filter(|osd| !map.is_up(*osd) && is_in(map, *osd)).collect();
    if !down.is_empty() {
        let lines = down.iter().map(|osd| format!("osd.{osd} is down"));
        warn("OSD_DOWN", false, format!("{} osds down", down.len()), lines.collect());
    }
    let flags = osd_flags::warned(map.flags);
    if !flags.is_empty() {
        warn("OSDMAP_FLAGS", false, format!("{flags} flag(s) set"), Vec::new());
    }
    let osds_are =
        |fullness| ids(map).filter(|osd| Fullness::of(map, *osd) == fullness).collect::<Vec<i32>>();
    for (fullness, code, name, is) in [
        (Fullness::Full, "OSD_FULL", "full", "full"),
        (Fullness::Backfill, "OSD_BACKFILLFULL", "backfillfull", "backfill full"),
        (Fullness::Near, "OSD_NEARFULL", "nearfull", "near full"),
    ] {
        let osds = osds_are(fullness);
        if !osds.is_empty() {
            let lines = osds.iter().map(|osd| format!("osd.{osd} is {is}"));
            warn(code, fullness == Fullness::Full, format!("{} {name} osd(s)", osds.len()), lines.collect());
        }
    }
    let groups = GroupCounts::of(mon, usage);
    if groups.inactive > 0 {
        let summary = format!("Reduced data availability: {} pgs inactive", groups.inactive);
        warn("PG_AVAILABILITY", groups.lost > 0, summary, groups.lines(usage, |state| !state.active));
    }
    if let Some(summary) = groups.degraded_summary(usage) {
        let lines = groups.lines(usage, |state| state.degraded || state.undersized);
        warn("PG_DEGRADED", false, format!("Degraded data redundancy: {summary}"), lines);
    }
    for (code, name) in
        [("POOL_FULL", "full"), ("POOL_BACKFILLFULL", "backfillfull"), ("POOL_NEARFULL", "nearfull")]
    {
        let lines = full_pools(map, name);
        if !lines.is_empty() {
            warn(code, false, format!("{} pool(s) {name}", lines.len()), lines);
        }
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

/// A line for each pool that is so full (ceph `src/osd/OSDMap.cc`, `check_health`).
fn full_pools(map: &OsdMap, fullness: &str) -> Vec<String> {
    let line = |(id, pool): (&i64, &Pool)| {
        let (is, why) = match pool.flags {
            flags if flags & pool_flag::FULL_QUOTA != 0 => ("full", " (running out of quota)"),
            flags if flags & pool_flag::FULL != 0 => ("full", " (no space)"),
            flags if flags & pool_flag::BACKFILLFULL != 0 => ("backfillfull", ""),
            flags if flags & pool_flag::NEARFULL != 0 => ("nearfull", ""),
            _ => return None,
        };
        (is == fullness).then(|| format!("pool '{}' is {is}{why}", map.pool_names[id]))
    };
    map.pools.iter().filter_map(line).collect()
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

pub(crate) fn health(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
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
pub(crate) fn ping(mon: &Mon, now: Time, usage: &Usage) -> Value {
    json!({
        "health": health_json(&checks(mon, usage), false),
        "mon_status": mon_status(mon, now),
    })
}

/// The monitor's place in the quorum.
pub(crate) fn mon_status(mon: &Mon, now: Time) -> Value {
    json!({
        "name": MON_NAME,
        "rank": 0,
        "state": "leader",
        "election_epoch": 1,
        "quorum": [0],
        "quorum_age": now.since(mon.started).as_secs(),
    })
}

/// The placement groups: how many there are, and how they are.
#[derive(Default)]
pub(crate) struct GroupCounts {
    pub(crate) all: u64,
    /// The most frequent states come first.
    pub(crate) by_state: Vec<(String, usize)>,
    inactive: usize,
    /// Those whose newest data are nowhere, or down.
    lost: usize,
    degraded: usize,
    undersized: usize,
    degraded_objects: u64,
    /// Copies that there should be of all objects.
    copies: u64,
}

impl GroupCounts {
    pub(crate) fn of(mon: &Mon, usage: &Usage) -> Self {
        let map = mon.osdmap();
        let all = map.pools.values().map(|pool| u64::from(pool.pg_num)).sum();
        let copies = map.pools.iter().map(|(id, pool)| usage.pool(*id).objects * u64::from(pool.size)).sum();
        let mut counts = Self { all, copies, ..Self::default() };
        let mut by_state = BTreeMap::<String, usize>::new();
        for group in usage.groups.values() {
            *by_state.entry(group.state.name()).or_default() += 1;
            counts.inactive += usize::from(!group.state.active);
            counts.lost += usize::from(group.state.down || group.state.incomplete);
            counts.degraded += usize::from(group.state.degraded);
            counts.undersized += usize::from(group.state.undersized);
            counts.degraded_objects += group.degraded;
        }
        counts.by_state = by_state.into_iter().collect();
        counts.by_state.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// How many there are of each state.
    pub(crate) fn in_a_line(&self, separator: &str) -> String {
        let states = self.by_state.iter().map(|(state, count)| format!("{count} {state}"));
        states.collect::<Vec<_>>().join(separator)
    }

    /// What is missing of redundancy; none: nothing is.
    pub(crate) fn degraded_summary(&self, usage: &Usage) -> Option<String> {
        let mut parts = Vec::new();
        if self.degraded_objects > 0 && usage.objects() > 0 {
            let share = text::percent(self.degraded_objects as f64 / self.copies as f64);
            parts.push(format!("{}/{} objects degraded ({share}%)", self.degraded_objects, self.copies));
        }
        let groups = [(self.degraded, "degraded"), (self.undersized, "undersized")];
        parts.extend(groups.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} pgs {what}")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// A line for each of the first groups of which something is true.
    fn lines(&self, usage: &Usage, is: impl Fn(&GroupState) -> bool) -> Vec<String> {
        const MAX_LINES: usize = 50;
        let groups = usage.groups.iter().filter(|(_, group)| is(&group.state));
        groups.take(MAX_LINES).map(|(pg, group)| format!("pg {pg} is {}", group.state.name())).collect()
    }
}

/// How many OSDs are up and in, and since when.
pub(crate) fn osd_counts(mon: &Mon) -> Value {
    let map = mon.osdmap();
    let (all, up, taken_in) = counts(mon.osdmap());
    json!({
        "epoch": map.epoch,
        "num_osds": all,
        "num_up_osds": up,
        "osd_up_since": map.last_up_change.sec,
        "num_in_osds": taken_in,
        "osd_in_since": map.last_in_change.sec,
        "num_remapped_pgs": map.pg_temp.len(),
    })
}

pub(crate) fn osd_summary(mon: &Mon, now: Time) -> String {
    let map = mon.osdmap();
    let age = |since: Utime| text::span(now.since(since.into()));
    let (all, up, taken_in) = counts(mon.osdmap());
    let mut summary = format!(
        "{all} osds: {up} up (since {}), {taken_in} in (since {})",
        age(map.last_up_change),
        age(map.last_in_change)
    );
    if !map.pg_temp.is_empty() {
        summary += &format!("; {} remapped pgs", map.pg_temp.len());
    }
    summary
}

pub(crate) fn usage_summary(usage: &Usage) -> String {
    let [used, free, total] = [usage.used, usage.available(), usage.total].map(text::bytes);
    format!("{used} used, {free} / {total} avail")
}

pub(crate) fn status(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let checks = checks(mon, call.usage);
    let json = status_json(mon, call, &checks);
    Ok(call.show(&json, status_text(mon, call, &checks)))
}

fn status_json(mon: &Mon, call: &Call<'_>, checks: &[Check]) -> Value {
    let usage = call.usage;
    let groups = GroupCounts::of(mon, usage);
    let states: Vec<Value> =
        groups.by_state.iter().map(|(state, count)| json!({"state_name": state, "count": count})).collect();
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
            "num_pgs": groups.all,
            "num_pools": mon.osdmap().pools.len(),
            "num_objects": usage.objects(),
            "data_bytes": usage.bytes(),
            "bytes_used": usage.used,
            "bytes_avail": usage.available(),
            "bytes_total": usage.total,
        },
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {"available": mon.mgrmap.available, "num_standbys": 0, "modules": [], "services": {}},
        "servicemap": {
            "epoch": 1,
            "modified": text::stamp(mon.started.into()),
            "services": mon.services_json(),
        },
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
    let services = mon.service_lines();
    let width = services.iter().map(|(name, _)| name.len()).fold("mon".len(), usize::max) + 1;
    let line = |name: &str, said: &str| format!("    {:<width$} {said}\n", format!("{name}:"));
    text += &line("mon", &format!("1 daemons, quorum {MON_NAME} (age {age})"));
    text += &match mon.mgrmap.active_name.as_str() {
        "" => line("mgr", "no daemons active"),
        name => line("mgr", &format!("{name}(active, since {age})")),
    };
    text += &line("osd", &osd_summary(mon, call.now));
    let flags = osd_flags::warned(map.flags);
    if !flags.is_empty() {
        text += &format!("    {:width$} flags {flags}\n", "");
    }
    text.extend(services.iter().map(|(name, said)| line(name, said)));
    let groups = GroupCounts::of(mon, usage);
    let pg_lines = groups.in_a_line("\n             ");
    text += &format!(" \n  data:\n    pools:   {} pools, {} pgs\n", map.pools.len(), groups.all);
    text +=
        &format!("    objects: {} objects, {}\n", text::number(usage.objects()), text::bytes(usage.bytes()));
    text + &format!("    usage:   {}\n    pgs:     {pg_lines}\n \n", usage_summary(usage))
}

pub(crate) fn df(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
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
            "num_osds": ids(mon.osdmap()).count(),
            "num_per_pool_osds": 0,
            "num_per_pool_omap_osds": 0,
        },
        "stats_by_class": {},
        "pools": pools,
    });
    Ok(call.show(&json, df_text(mon, usage, detail)))
}

fn df_pool_json(mon: &Mon, usage: &Usage, id: i64, detail: bool) -> Value {
    let map = mon.osdmap();
    let space = PoolSpace::of(map, usage, id);
    let pool = space.usage;
    let stats = json!({
        "stored": pool.bytes,
        "objects": pool.objects,
        "kb_used": space.used.div_ceil(1024),
        "bytes_used": space.used,
        "percent_used": space.share(),
        "max_avail": space.available,
    });
    let more = || {
        json!({
            "stored_data": pool.bytes,
            "stored_omap": 0,
            "data_bytes_used": space.used,
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
            "stored_raw": space.used,
            "avail_raw": space.raw_available,
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
    let more: &[&str] =
        if detail { &["QUOTA OBJECTS", "QUOTA BYTES", "DIRTY", "USED COMPR", "UNDER COMPR"] } else { &[] };
    let headings: [&[&str]; 6] =
        [&["POOL", "ID", "PGS", "STORED"], split, &["OBJECTS", "USED"], split, &["%USED", "MAX AVAIL"], more];
    let columns: Vec<_> = headings.concat().into_iter().map(column).collect();
    let mut pools = Table::new(&columns);
    for (id, pool) in &mon.osdmap().pools {
        let space = PoolSpace::of(mon.osdmap(), usage, *id);
        let parts = |data: u64| split.iter().zip([data, 0]).map(|(_, part)| text::bytes(part));
        let (stored, used) = (space.usage.bytes, space.used);
        let mut row = vec![mon.osdmap().pool_names[id].clone(), id.to_string(), pool.pg_num.to_string()];
        row.push(text::bytes(stored));
        row.extend(parts(stored));
        row.extend([text::number(space.usage.objects), text::bytes(used)]);
        row.extend(parts(used));
        row.extend([text::percent(space.share()), text::bytes(space.available)]);
        if detail {
            let or_none =
                |quota, text: fn(u64) -> String| if quota == 0 { "N/A".to_owned() } else { text(quota) };
            row.push(or_none(pool.quota_max_objects, text::number));
            row.push(or_none(pool.quota_max_bytes, text::bytes));
            row.push("N/A".to_owned());
            row.extend([text::bytes(0), text::bytes(0)]);
        }
        pools.row(row);
    }
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", total.render(), pools.render())
}
