//! The placement groups: how they are, and where.
//!
//! Source: ceph `src/mon/PGMap.cc`, `process_pg_map_command`; `src/mon/OSDMonitor.cc`, "pg map".

use super::groups;
use super::osd::find_osd;
use crate::mon::command::call::{Call, CommandOutcome};
use crate::mon::command::status::{GroupCounts, usage_summary};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use crate::mon::text::{self, Left, Right, Table};
use crate::mon::usage::{GroupReport, Usage};
use onego_ceph::osdmap::{OsdMap, Placement};
use onego_ceph::types::PgId;
use serde_json::{Value, json};

/// Groups that are listed one by one; the groups of a large pool say nothing that its first do not.
const MAX_LISTED: usize = 4096;

pub(crate) fn stat(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let usage = call.usage;
    let groups = GroupCounts::of(mon, usage);
    let states: Vec<Value> =
        groups.by_state.iter().map(|(state, count)| json!({"name": state, "num": count})).collect();
    let json = json!({
        "pg_ready": true,
        "pg_summary": {
            "num_pg_by_state": states,
            "num_pgs": groups.all,
            "num_bytes": usage.bytes(),
            "total_bytes": usage.total,
            "total_avail_bytes": usage.available(),
            "total_used_bytes": usage.used,
            "total_used_raw_bytes": usage.used,
        },
    });
    let degraded = match groups.degraded_summary(usage) {
        Some(text) => format!("; {text}"),
        None => String::new(),
    };
    let plain = format!(
        "{} pgs: {}; {} data, {}{degraded}\n",
        groups.all,
        groups.in_a_line(", "),
        text::bytes(usage.bytes()),
        usage_summary(usage)
    );
    Ok(call.show(&json, plain))
}

pub(crate) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (map, usage) = (mon.osdmap(), call.usage);
    let state = |pg: &PgId| usage.groups.get(pg).map_or("unknown".into(), |group| group.state.name());
    let groups: Vec<(PgId, Placement)> =
        groups::all(map).take(MAX_LISTED).map(|pg| (pg, map.place(pg))).collect();
    let report = |pg: &PgId| usage.groups.get(pg).copied().unwrap_or_default();
    let stats: Vec<Value> = groups.iter().map(|(pg, place)| group_json(*pg, place, &report(pg))).collect();
    let json = json!({"pg_ready": true, "pg_map": {
        "version": map.epoch,
        "stamp": text::stamp(call.now.into()),
        "pg_stats": stats,
        "pool_stats": pool_stats(map, usage),
        "osd_stats": osd_stats(map, usage),
    }});
    let mut table = Table::new(&[
        ("PG_STAT", Left, Left),
        ("STATE", Left, Right),
        ("UP", Left, Left),
        ("UP_PRIMARY", Left, Right),
        ("ACTING", Left, Left),
        ("ACTING_PRIMARY", Left, Right),
    ]);
    for (pg, place) in &groups {
        let (up, acting) = (osd_set(&place.up), osd_set(&place.acting));
        let [up_primary, acting_primary] =
            [place.up_primary, place.acting_primary].map(|osd| osd.to_string());
        table.row([pg.to_string(), state(pg), up, up_primary, acting, acting_primary]);
    }
    Ok(call.show(&json, table.render()).with_status("dumped pgs"))
}

/// The states that a group may be said to be in (`active`, `clean`, ...).
fn is_in_states(state: &str, wanted: &[String]) -> bool {
    wanted.is_empty()
        || wanted.iter().any(|wanted| wanted == "all" || state.split('+').any(|one| one == wanted))
}

/// The groups of a pool, of an OSD, or in certain states, as the arguments have it.
pub(crate) fn list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    list_where(mon, call, |place, osd| place.acting.contains(&osd))
}

/// The groups whose first OSD is the one that is named.
pub(crate) fn list_by_primary(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    list_where(mon, call, |place, osd| place.acting_primary == osd)
}

fn list_where(mon: &Mon, call: &Call<'_>, serves: fn(&Placement, i32) -> bool) -> CommandOutcome {
    let (map, usage) = (mon.osdmap(), call.usage);
    let pool = match (call.get("poolstr"), call.int("pool")) {
        (Some(name), _) => Some(mon.find_pool(name)?),
        (None, Some(id)) if !map.pools.contains_key(&id) => {
            return Err(Refusal::missing(format!("pool {id} does not exist")));
        }
        (None, id) => id,
    };
    let osd = call.get("id").map(|id| find_osd(mon, id)).transpose()?;
    let states = call.list("states");
    let report = |pg: &PgId| usage.groups.get(pg).copied().unwrap_or_default();
    let groups = groups::all(map).filter(|pg| pool.is_none_or(|pool| pool == pg.pool)).filter_map(|pg| {
        let place = map.place(pg);
        let wanted =
            osd.is_none_or(|osd| serves(&place, osd)) && is_in_states(&report(&pg).state.name(), &states);
        wanted.then_some((pg, place))
    });
    let groups: Vec<(PgId, Placement)> = groups.take(MAX_LISTED).collect();
    let stats: Vec<Value> = groups.iter().map(|(pg, place)| group_json(*pg, place, &report(pg))).collect();
    let columns = ["PG", "OBJECTS", "DEGRADED", "BYTES", "STATE", "UP", "ACTING"];
    let mut table =
        Table::new(&columns.map(|heading| (heading, Left, if heading == "PG" { Left } else { Right })));
    for (pg, place) in &groups {
        let GroupReport { state, contents, degraded } = report(pg);
        let set = |osds: &[i32], primary| format!("{}p{primary}", osd_set(osds));
        let numbers = [contents.objects, degraded, contents.bytes];
        let [objects, degraded, bytes] = numbers.map(|number| number.to_string());
        let (up, acting) = (set(&place.up, place.up_primary), set(&place.acting, place.acting_primary));
        table.row([pg.to_string(), objects, degraded, bytes, state.name(), up, acting]);
    }
    Ok(call.show(&json!({"pg_ready": true, "pg_stats": stats}), table.render()))
}

/// OSDs as Ceph writes them: `[0,2,1]`.
fn osd_set(osds: &[i32]) -> String {
    let osds: Vec<String> = osds.iter().map(ToString::to_string).collect();
    format!("[{}]", osds.join(","))
}

fn group_json(pg: PgId, place: &Placement, report: &GroupReport) -> Value {
    json!({"pgid": pg.to_string(), "state": report.state.name(), "up": place.up, "acting": place.acting,
        "up_primary": place.up_primary, "acting_primary": place.acting_primary,
        "stat_sum": {"num_objects": report.contents.objects, "num_object_clones": report.contents.clones,
            "num_bytes": report.contents.bytes, "num_objects_degraded": report.degraded}})
}

fn pool_stats(map: &OsdMap, usage: &Usage) -> Vec<Value> {
    let pools = map.pools.iter().map(|(id, pool)| {
        let used = usage.pool(*id);
        let copies = used.objects * u64::from(pool.size);
        json!({"poolid": id, "num_pg": pool.pg_num, "stat_sum": {
            "num_bytes": used.bytes, "num_objects": used.objects, "num_object_clones": used.clones,
            "num_object_copies": copies,
            "num_read": used.reads, "num_read_kb": used.read_bytes >> 10,
            "num_write": used.writes, "num_write_kb": used.written_bytes >> 10,
        }})
    });
    pools.collect()
}

fn osd_stats(map: &OsdMap, usage: &Usage) -> Vec<Value> {
    let counts = groups::by_osd(map);
    let osds = usage.osds.iter().map(|(osd, used)| {
        json!({"osd": osd, "num_pgs": counts.get(osd).copied().unwrap_or(0), "kb": used.total >> 10,
            "kb_used": used.used >> 10, "kb_avail": used.available() >> 10})
    });
    osds.collect()
}

pub(crate) fn map(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let text = call.text("pgid");
    let raw: PgId = text.parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
    let map = mon.osdmap();
    let Some(pg) = map.pool_pg(raw) else {
        return Err(Refusal::missing(format!("pg '{text}' does not exist")));
    };
    let place = map.place(pg);
    let json = json!({"epoch": map.epoch, "raw_pgid": raw.to_string(), "pgid": pg.to_string(),
        "up": place.up, "acting": place.acting});
    let plain =
        format!("osdmap e{} pg {raw} ({pg}) -> up {:?} acting {:?}\n", map.epoch, place.up, place.acting);
    Ok(call.show(&json, plain))
}
