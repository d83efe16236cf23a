//! The OSD and its map.
//!
//! Source: ceph `src/mon/OSDMonitor.cc`, `src/osd/OSDMap.cc`.

use super::mons::addrs_json;
use super::status::{osd_counts, osd_summary};
use super::{Call, Outcome, Refusal, Reply};
use crate::VERSION_TEXT;
use crate::mon::first_map::OSD_ID;
use crate::mon::text::{self, Left, Right, Table};
use crate::mon::{Mon, osd_flags};
use onego_ceph::addr::EntityAddr;
use onego_ceph::encoding::Encode as _;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{Epoch, PgId};
use serde_json::{Value, json};
use std::time::Duration;

/// Flags that an operator may set.
pub(super) const SETTABLE: &str = "full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit";

/// How long a client is blocked if nobody says how long (`mon_osd_blocklist_default_expire`).
const BLOCK_TIME: Duration = Duration::from_secs(3600);

/// The longest that a client may be blocked: a year, as good as for ever.
const MAX_BLOCK_TIME: f64 = 365.0 * 86_400.0;

/// Clients that may be blocked at a time: each is in every map that is sent.
const MAX_BLOCKED: usize = 4096;

/// The map of the epoch that was asked for, or the newest.
pub(super) fn map_at(mon: &Mon, call: &Call<'_>) -> Result<OsdMap, Refusal> {
    let epoch = call.int("epoch").filter(|epoch| *epoch != 0).unwrap_or(mon.osdmap().epoch.into());
    let map = Epoch::try_from(epoch).ok().and_then(|epoch| mon.maps.at(epoch));
    map.ok_or_else(|| Refusal::missing(format!("there is no map for epoch {epoch}")))
}

/// The one OSD there is, by its number or its name.
fn check_osd(id: &str) -> Result<(), Refusal> {
    if id.strip_prefix("osd.").unwrap_or(id) == OSD_ID.to_string() {
        return Ok(());
    }
    Err(Refusal::missing(format!("osd.{id} does not exist: the one OSD here is osd.{OSD_ID}")))
}

pub(super) fn stat(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let mut plain = format!("{}; epoch: e{}\n", osd_summary(mon, call.now), mon.osdmap().epoch);
    let flags = osd_flags::warned(mon.osdmap().flags);
    if !flags.is_empty() {
        plain += &format!("flags {flags}\n");
    }
    Ok(call.show(&osd_counts(mon), plain))
}

pub(super) fn list(_: &mut Mon, call: &Call<'_>) -> Outcome {
    Ok(call.show(&json!([OSD_ID]), format!("{OSD_ID}\n")))
}

pub(super) fn get_max(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let (epoch, max) = (mon.osdmap().epoch, mon.osdmap().max_osd);
    Ok(call.show(&json!({"epoch": epoch, "max_osd": max}), format!("max_osd = {max} in epoch {epoch}\n")))
}

pub(super) fn getmap(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let map = map_at(mon, call)?;
    Ok(Reply { status: format!("got osdmap epoch {}", map.epoch), output: map.to_bytes() })
}

pub(super) fn getcrushmap(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let map = map_at(mon, call)?;
    Ok(Reply { status: map.crush_version.to_string(), output: map.crush.to_bytes() })
}

pub(super) fn map_object(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let (name, object) = (call.text("pool"), call.text("object"));
    let namespace = call.get("nspace").unwrap_or_default();
    let id = mon.find_pool(name)?;
    let map = mon.osdmap();
    let pool = &map.pools[&id];
    let raw = PgId { pool: id, seed: pool.hash_object(object.as_bytes(), b"", namespace.as_bytes()) };
    let pg = pool.pg(raw);
    let place = map.place(pg);
    let json = json!({
        "epoch": map.epoch, "pool": name, "pool_id": id, "objname": object,
        "raw_pgid": raw.to_string(), "pgid": pg.to_string(),
        "up": place.up, "up_primary": place.up_primary,
        "acting": place.acting, "acting_primary": place.acting_primary,
    });
    let plain = format!(
        "osdmap e{} pool '{name}' ({id}) object '{object}' -> pg {raw} ({pg}) -> up ({:?}, p{}) acting ({:?}, p{})\n",
        map.epoch, place.up, place.up_primary, place.acting, place.acting_primary
    );
    Ok(call.show(&json, plain))
}

pub(super) fn find(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    check_osd(call.text("id"))?;
    let map = mon.osdmap();
    Ok(call.show_json(&json!({
        "osd": OSD_ID,
        "addrs": addrs_json(&map.client_addrs[OSD_ID as usize]),
        "osd_fsid": map.osd_uuid[OSD_ID as usize].to_string(),
        "crush_location": {"host": "host0", "root": "default"},
    })))
}

pub(super) fn metadata(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    if let Some(id) = call.get("id") {
        check_osd(id)?;
    }
    let addrs = mon.osdmap().client_addrs[OSD_ID as usize].to_string();
    let one = json!({
        "id": OSD_ID,
        "ceph_release": "pacific",
        "ceph_version": VERSION_TEXT,
        "front_addr": addrs,
        "back_addr": addrs,
        "hb_front_addr": addrs,
        "hb_back_addr": addrs,
        "os": "Linux",
        "osd_objectstore": "memory",
        "rotational": "0",
    });
    Ok(call.show_json(&if call.get("id").is_some() { one } else { json!([one]) }))
}

pub(super) fn perf(_: &mut Mon, call: &Call<'_>) -> Outcome {
    let stats =
        json!({"commit_latency_ms": 0, "apply_latency_ms": 0, "commit_latency_ns": 0, "apply_latency_ns": 0});
    let json =
        json!({"pg_ready": true, "osdstats": {"osd_perf_infos": [{"id": OSD_ID, "perf_stats": stats}]}});
    let headings = ["osd", "commit_latency(ms)", "apply_latency(ms)"];
    let mut table = Table::new(&headings.map(|heading| (heading, Left, Right)));
    table.row([OSD_ID.to_string(), "0".into(), "0".into()]);
    Ok(call.show(&json, table.render()))
}

pub(super) fn min_compat_client(_: &mut Mon, call: &Call<'_>) -> Outcome {
    Ok(call.show(&json!("luminous"), "luminous\n"))
}

pub(super) fn profiles(_: &mut Mon, call: &Call<'_>) -> Outcome {
    Ok(call.show(&json!([]), ""))
}

pub(super) fn df(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let usage = call.usage;
    let up = if mon.osdmap().is_up(OSD_ID) { "up" } else { "down" };
    let (count, _) = super::status::pgs(mon);
    let sizes =
        json!({"kb": usage.total >> 10, "kb_used": usage.used >> 10, "kb_avail": usage.available() >> 10});
    let percent = usage.ratio() * 100.0;
    let json = json!({
        "nodes": [{
            "id": OSD_ID, "name": format!("osd.{OSD_ID}"), "type": "osd", "type_id": 0, "crush_weight": 1,
            "depth": 2, "pool_weights": {}, "reweight": 1,
            "kb": sizes["kb"], "kb_used": sizes["kb_used"], "kb_used_data": sizes["kb_used"],
            "kb_used_omap": 0, "kb_used_meta": 0, "kb_avail": sizes["kb_avail"],
            "utilization": percent, "var": 1, "pgs": count, "status": up,
        }],
        "stray": [],
        "summary": {
            "total_kb": sizes["kb"], "total_kb_used": sizes["kb_used"], "total_kb_used_data": sizes["kb_used"],
            "total_kb_used_omap": 0, "total_kb_used_meta": 0, "total_kb_avail": sizes["kb_avail"],
            "average_utilization": percent, "min_var": 1, "max_var": 1, "dev": 0,
        },
    });
    Ok(call.show(&json, df_text(call, count, up)))
}

fn df_text(call: &Call<'_>, pgs: u64, up: &str) -> String {
    let usage = call.usage;
    let headings = [
        "ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE",
        "VAR", "PGS", "STATUS",
    ];
    let mut table = Table::new(&headings.map(|heading| (heading, Left, Right)));
    let [size, used, free] = [usage.total, usage.used, usage.available()].map(text::bytes);
    let zero = text::bytes(0);
    let amounts =
        [size, used.clone(), used, zero.clone(), zero, free, format!("{:.2}", usage.ratio() * 100.0)];
    let head = [OSD_ID.to_string(), String::new(), "1.00000".into(), "1.00000".into()];
    let tail = ["1.00".to_owned(), pgs.to_string(), up.to_owned()];
    table.row(head.into_iter().chain(amounts.clone()).chain(tail));
    let head = [String::new(), String::new(), String::new(), "TOTAL".into()];
    table.row(head.into_iter().chain(amounts));
    table.render() + "MIN/MAX VAR: 1.00/1.00  STDDEV: 0\n"
}

pub(super) fn set(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    set_flag(mon, call, true)
}

pub(super) fn unset(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    set_flag(mon, call, false)
}

fn set_flag(mon: &mut Mon, call: &Call<'_>, on: bool) -> Outcome {
    let name = call.text("key");
    let flags =
        osd_flags::parse(name).ok_or_else(|| Refusal::invalid(format!("unrecognized flag '{name}'")))?;
    mon.set_flags(call.now, flags, on);
    let what = osd_flags::names(flags).join(",");
    Ok(Reply::done(format!("{what} is {}", if on { "set" } else { "unset" })))
}

pub(super) fn blocklist_list(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let entries = mon.osdmap().blocklist.iter();
    let rows: Vec<(String, String)> =
        entries.map(|(addr, until)| (addr.to_string(), text::stamp(*until))).collect();
    let json: Vec<Value> = rows.iter().map(|(addr, until)| json!({"addr": addr, "until": until})).collect();
    let plain: String = rows.iter().map(|(addr, until)| format!("{addr} {until}\n")).collect();
    Ok(call.show(&json.into(), plain).with_status(format!("listed {} entries", rows.len())))
}

pub(super) fn blocklist_clear(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let all: Vec<EntityAddr> = mon.osdmap().blocklist.keys().copied().collect();
    mon.unblock(call.now, all);
    Ok(Reply::done(" removed all blocklist entries"))
}

pub(super) fn blocklist(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let text = call.text("addr");
    let addr: EntityAddr = text.parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
    if call.get("blocklistop") == Some("rm") {
        return Ok(Reply::done(match mon.unblock(call.now, [addr]) {
            Some(_) => format!("un-blocklisting {text}"),
            None => format!("{text} isn't blocklisted"),
        }));
    }
    let seconds = call.float("expire").unwrap_or_else(|| BLOCK_TIME.as_secs_f64());
    if !(0.0..=MAX_BLOCK_TIME).contains(&seconds) {
        return Err(Refusal::invalid(format!("'expire' must be from 0 to {MAX_BLOCK_TIME} seconds")));
    }
    if mon.osdmap().blocklist.len() >= MAX_BLOCKED {
        return Err(Refusal::invalid(format!("{MAX_BLOCKED} clients are blocked, which is the most")));
    }
    let until = mon.block(call.now, &addr, Duration::from_secs_f64(seconds));
    Ok(Reply::done(format!("blocklisting {text} until {} ({seconds} sec)", text::stamp(until))))
}
