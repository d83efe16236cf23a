//! The OSDs and their map.
//!
//! Source: ceph `src/mon/OSDMonitor.cc`, `src/osd/OSDMap.cc`.

use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::command::mons::addrs_json;
use crate::mon::command::status::{osd_counts, osd_summary};
use crate::mon::monitor::Mon;
use crate::mon::osd_flags;
use crate::mon::osds::{Order, ids, is_in};
use crate::mon::refusal::Refusal;
use crate::mon::text::{self, Left, Right, Table};
use crate::version::VERSION_TEXT;
use onego_ceph::osdmap::{OsdMap, Ratios, WEIGHT_IN};
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::Encode as _;
use serde_json::{Value, json};
use std::time::Duration;

/// Flags that an operator may set.
pub(crate) const SETTABLE: &str = "full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit";

/// How long a client is blocked if nobody says how long (`mon_osd_blocklist_default_expire`).
const BLOCK_TIME: Duration = Duration::from_secs(3600);

/// The longest that a client may be blocked: a year, as good as for ever.
const MAX_BLOCK_TIME: f64 = 365.0 * 86_400.0;

/// The map of the epoch that was asked for, or the newest.
pub(crate) fn map_at(mon: &Mon, call: &Call<'_>) -> Result<OsdMap, Refusal> {
    let epoch = call.int("epoch").filter(|epoch| *epoch != 0).unwrap_or(mon.osdmap().epoch.into());
    let map = Epoch::try_from(epoch).ok().and_then(|epoch| mon.maps.at(epoch));
    map.ok_or_else(|| Refusal::missing(format!("there is no map for epoch {epoch}")))
}

/// An OSD that there is, by its number or its name.
pub(crate) fn find_osd(mon: &Mon, id: &str) -> Result<i32, Refusal> {
    let number = id.strip_prefix("osd.").unwrap_or(id).parse::<i32>();
    let number = number.map_err(|_| Refusal::invalid(format!("'{id}' is not the number of an OSD")))?;
    if mon.osdmap().exists(number) {
        return Ok(number);
    }
    Err(Refusal::missing(format!("osd.{number} does not exist")))
}

pub(crate) fn stat(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let mut plain = format!("{}; epoch: e{}\n", osd_summary(mon, call.now), mon.osdmap().epoch);
    let flags = osd_flags::warned(mon.osdmap().flags);
    if !flags.is_empty() {
        plain += &format!("flags {flags}\n");
    }
    Ok(call.show(&osd_counts(mon), plain))
}

pub(crate) fn list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let ids: Vec<i32> = ids(&map_at(mon, call)?).collect();
    let plain: String = ids.iter().map(|id| format!("{id}\n")).collect();
    Ok(call.show(&json!(ids), plain))
}

pub(crate) fn get_max(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (epoch, max) = (mon.osdmap().epoch, mon.osdmap().max_osd);
    Ok(call.show(&json!({"epoch": epoch, "max_osd": max}), format!("max_osd = {max} in epoch {epoch}\n")))
}

pub(crate) fn getmap(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = map_at(mon, call)?;
    Ok(Reply { status: format!("got osdmap epoch {}", map.epoch), output: map.to_bytes() })
}

pub(crate) fn getcrushmap(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = map_at(mon, call)?;
    Ok(Reply { status: map.crush_version.to_string(), output: map.crush.to_bytes() })
}

pub(crate) fn map_object(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
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

pub(crate) fn find(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let osd = find_osd(mon, call.text("id"))?;
    let map = mon.osdmap();
    Ok(call.show_json(&json!({
        "osd": osd,
        "addrs": addrs_json(&map.client_addrs[osd as usize]),
        "osd_fsid": map.osd_uuid[osd as usize].to_string(),
        "crush_location": map.crush.location(osd),
    })))
}

fn metadata_of(map: &OsdMap, osd: i32) -> Value {
    let addrs = map.client_addrs[osd as usize].to_string();
    json!({
        "id": osd,
        "ceph_release": "pacific",
        "ceph_version": VERSION_TEXT,
        "front_addr": addrs,
        "back_addr": addrs,
        "hb_front_addr": addrs,
        "hb_back_addr": addrs,
        "os": "Linux",
        "osd_objectstore": "memory",
        "rotational": "0",
    })
}

pub(crate) fn metadata(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = mon.osdmap();
    let json = match call.get("id") {
        Some(id) => metadata_of(map, find_osd(mon, id)?),
        None => ids(map).map(|osd| metadata_of(map, osd)).collect::<Vec<_>>().into(),
    };
    Ok(call.show_json(&json))
}

pub(crate) fn perf(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let stats =
        json!({"commit_latency_ms": 0, "apply_latency_ms": 0, "commit_latency_ns": 0, "apply_latency_ns": 0});
    let headings = ["osd", "commit_latency(ms)", "apply_latency(ms)"];
    let mut table = Table::new(&headings.map(|heading| (heading, Left, Right)));
    let mut infos = Vec::new();
    for osd in ids(mon.osdmap()) {
        infos.push(json!({"id": osd, "perf_stats": stats}));
        table.row([osd.to_string(), "0".into(), "0".into()]);
    }
    let json = json!({"pg_ready": true, "osdstats": {"osd_perf_infos": infos}});
    Ok(call.show(&json, table.render()))
}

pub(crate) fn profiles(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(call.show(&json!([]), ""))
}

/// Marks OSDs that the command names, or all, and says what there was to do.
fn mark(
    mon: &mut Mon,
    call: &Call<'_>,
    is_so: fn(&OsdMap, i32) -> bool,
    what: &str,
    change: impl FnOnce(&mut Mon, Vec<i32>) -> Epoch,
) -> CommandOutcome {
    let mut todo = Vec::new();
    let mut lines = Vec::new();
    for osd in named(mon, call)? {
        if is_so(mon.osdmap(), osd) {
            lines.push(format!("osd.{osd} is already {what}. "));
        } else {
            lines.push(format!("marked {what} osd.{osd}. "));
            todo.push(osd);
        }
    }
    change(mon, todo);
    Ok(Reply::done(lines.concat()))
}

pub(crate) fn down(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    mark(mon, call, |map, osd| !map.is_up(osd), "down", |mon, osds| mon.osds_down(call.now, osds))
}

pub(crate) fn out(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let is_out = |map: &OsdMap, osd| !is_in(map, osd);
    mark(mon, call, is_out, "out", |mon, osds| mon.weigh_osds(call.now, osds, 0))
}

pub(crate) fn bring_in(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    mark(mon, call, is_in, "in", |mon, osds| mon.weigh_osds(call.now, osds, WEIGHT_IN))
}

/// OSDs that the command names, or all.
fn named(mon: &Mon, call: &Call<'_>) -> Result<Vec<i32>, Refusal> {
    let mut osds = Vec::new();
    for name in call.list("ids") {
        match name.as_str() {
            "all" | "any" | "*" => osds.extend(ids(mon.osdmap())),
            id => osds.push(find_osd(mon, id)?),
        }
    }
    Ok(osds)
}

pub(crate) fn stop(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let osds = named(mon, call)?;
    osds.iter().for_each(|osd| mon.order(Order::Stop(*osd)));
    Ok(Reply::done(osds.iter().map(|osd| format!("stop osd.{osd}. ")).collect::<String>()))
}

pub(crate) fn start(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let osds = named(mon, call)?;
    osds.iter().for_each(|osd| mon.order(Order::Start(*osd)));
    Ok(Reply::done(osds.iter().map(|osd| format!("start osd.{osd}. ")).collect::<String>()))
}

pub(crate) fn reweight(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let osd = find_osd(mon, call.text("id"))?;
    let weight = call.float("weight").unwrap_or(1.0);
    if !(0.0..=1.0).contains(&weight) {
        return Err(Refusal::invalid("weight must be in the range [0..1]"));
    }
    let parts = (weight * f64::from(WEIGHT_IN)) as u32;
    mon.weigh_osds(call.now, [osd], parts);
    Ok(Reply::done(format!("reweighted osd.{osd} to {weight} ({parts:x})")))
}

pub(crate) fn set_full_ratio(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    set_ratio(mon, call, "full", |ratios| &mut ratios.full)
}

pub(crate) fn set_backfillfull_ratio(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    set_ratio(mon, call, "backfillfull", |ratios| &mut ratios.backfillfull)
}

pub(crate) fn set_nearfull_ratio(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    set_ratio(mon, call, "nearfull", |ratios| &mut ratios.nearfull)
}

fn set_ratio(mon: &mut Mon, call: &Call<'_>, name: &str, of: fn(&mut Ratios) -> &mut f32) -> CommandOutcome {
    let ratio = call.float("ratio").unwrap_or_default() as f32;
    mon.set_ratios(call.now, |ratios| *of(ratios) = ratio);
    Ok(Reply::done(format!("osd set-{name}-ratio {ratio}")))
}

pub(crate) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    set_flag(mon, call, true)
}

pub(crate) fn unset(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    set_flag(mon, call, false)
}

fn set_flag(mon: &mut Mon, call: &Call<'_>, on: bool) -> CommandOutcome {
    let name = call.text("key");
    let flags =
        osd_flags::parse(name).ok_or_else(|| Refusal::invalid(format!("unrecognized flag '{name}'")))?;
    mon.set_flags(call.now, flags, on);
    let what = osd_flags::names(flags).join(",");
    Ok(Reply::done(format!("{what} is {}", if on { "set" } else { "unset" })))
}

pub(crate) fn blocklist_list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let entries = mon.osdmap().blocklist.iter();
    let rows: Vec<(String, String)> =
        entries.map(|(addr, until)| (addr.to_string(), text::stamp(*until))).collect();
    let json: Vec<Value> = rows.iter().map(|(addr, until)| json!({"addr": addr, "until": until})).collect();
    let plain: String = rows.iter().map(|(addr, until)| format!("{addr} {until}\n")).collect();
    Ok(call.show(&json.into(), plain).with_status(format!("listed {} entries", rows.len())))
}

pub(crate) fn blocklist_clear(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let all: Vec<EntityAddr> = mon.osdmap().blocklist.keys().copied().collect();
    mon.unblock(call.now, all);
    Ok(Reply::done(" removed all blocklist entries"))
}

pub(crate) fn blocklist(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
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
    let (user, is_administrator) = (&call.caller.name, call.cap.allows_everything());
    if !mon.may_block(&addr, user, is_administrator) {
        let blocked = mon.osdmap().blocklist.len();
        return Err(Refusal::invalid(format!(
            "{blocked} clients are blocked, and {user} must leave room for others: remove some by `osd blocklist rm`"
        )));
    }
    let until = mon.block(call.now, &addr, user, Duration::from_secs_f64(seconds));
    Ok(Reply::done(format!("blocklisting {text} until {} ({seconds} sec)", text::stamp(until))))
}
