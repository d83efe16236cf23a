//! Pools: their life, what they are for, what is in them.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd pool ..."), `src/osd/osd_types.cc` (`pg_pool_t::dump`, `operator<<`).

use super::pool_flags::{autoscale_name, flag_names};
use crate::errno::{EEXIST, EINVAL, EOPNOTSUPP, EPERM};
use crate::mon::command::call::joined;
use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;
use crate::mon::monitor::pools::{DEFAULT_PG_NUM, NewPool};
use crate::mon::refusal::Refusal;
use crate::mon::text::{self, stamp};
use onego_ceph::osdmap::{Pool, PoolSnap, pool_flag};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Applications that a pool may be for, and keys that each may have: they are in every map that is sent.
const MAX_APPLICATIONS: usize = 4;
const MAX_KEYS: usize = 64;
const MAX_TEXT: usize = 128;

/// A pool as Ceph dumps it; `id_field` is the name of the field for its id, which is not everywhere the same.
pub(crate) fn pool_json(id_field: &str, id: i64, name: &str, pool: &Pool) -> Value {
    joined([
        json!({id_field: id}),
        pool_head(name, pool),
        pool_numbers(pool),
        pool_cache(pool),
        pool_tail(pool),
    ])
}

fn pool_head(name: &str, pool: &Pool) -> Value {
    json!({
        "pool_name": name,
        "create_time": stamp(pool.create_time),
        "flags": pool.flags,
        "flags_names": flag_names(pool.flags),
        "type": pool.kind as u8,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "peering_crush_bucket_count": 0,
        "peering_crush_bucket_target": 0,
        "peering_crush_bucket_barrier": 0,
        "peering_crush_bucket_mandatory_member": i32::MAX,
        "object_hash": pool.object_hash,
    })
}

fn pool_numbers(pool: &Pool) -> Value {
    json!({
        "pg_autoscale_mode": autoscale_name(pool.pg_autoscale_mode),
        "pg_num": pool.pg_num,
        "pg_placement_num": pool.pgp_num,
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
        "last_change": pool.last_change.to_string(),
        "last_force_op_resend": pool.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": pool.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": pool.last_force_op_resend_preluminous.to_string(),
        "auid": pool.auid,
        "snap_mode": if pool.has_flag(pool_flag::SELFMANAGED_SNAPS) { "selfmanaged" } else { "pool" },
        "snap_seq": pool.snap_seq,
        "snap_epoch": pool.snap_epoch,
        "pool_snaps": pool.snaps.values().map(pool_snap_json).collect::<Vec<_>>(),
        "removed_snaps": "[]",
        "quota_max_bytes": pool.quota_max_bytes,
        "quota_max_objects": pool.quota_max_objects,
    })
}

fn pool_snap_json(snap: &PoolSnap) -> Value {
    json!({"snapid": snap.id, "stamp": stamp(snap.stamp), "name": snap.name})
}

fn pool_cache(pool: &Pool) -> Value {
    json!({
        "tiers": [],
        "tier_of": pool.tier_of,
        "read_tier": pool.read_tier,
        "write_tier": pool.write_tier,
        "cache_mode": "none",
        "target_max_bytes": pool.target_max_bytes,
        "target_max_objects": pool.target_max_objects,
        "cache_target_dirty_ratio_micro": pool.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": pool.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": pool.cache_target_full_ratio_micro,
        "cache_min_flush_age": pool.cache_min_flush_age,
        "cache_min_evict_age": pool.cache_min_evict_age,
        "erasure_code_profile": pool.erasure_code_profile,
        "hit_set_params": {"type": "none"},
        "hit_set_period": pool.hit_set_period,
        "hit_set_count": pool.hit_set_count,
        "use_gmt_hitset": pool.use_gmt_hitset,
        "min_read_recency_for_promote": pool.min_read_recency_for_promote,
        "min_write_recency_for_promote": pool.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": pool.hit_set_grade_decay_rate,
        "hit_set_search_last_n": pool.hit_set_search_last_n,
        "grade_table": [],
    })
}

fn pool_tail(pool: &Pool) -> Value {
    json!({
        "stripe_width": pool.stripe_width,
        "expected_num_objects": pool.expected_num_objects,
        "fast_read": pool.fast_read,
        "options": super::pool_set::options_json(pool),
        "application_metadata": pool.application_metadata,
    })
}

/// A pool in a line.
pub(crate) fn pool_line(id: i64, name: &str, pool: &Pool) -> String {
    let mut line = format!(
        "pool {id} '{name}' replicated size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}",
        pool.size, pool.min_size, pool.crush_rule, pool.pg_num, pool.pgp_num
    );
    line += &format!(
        " autoscale_mode {} last_change {}",
        autoscale_name(pool.pg_autoscale_mode),
        pool.last_change
    );
    let resend = pool.last_force_op_resend;
    if resend != 0 {
        let before = (pool.last_force_op_resend_preluminous, pool.last_force_op_resend_prenautilus);
        line += &format!(" lfor {}/{}/{resend}", before.0, before.1);
    }
    line += &format!(" flags {}", flag_names(pool.flags));
    for (name, quota) in [("max_bytes", pool.quota_max_bytes), ("max_objects", pool.quota_max_objects)] {
        if quota != 0 {
            line += &format!(" {name} {quota}");
        }
    }
    line += &format!(" stripe_width {}", pool.stripe_width);
    if !pool.application_metadata.is_empty() {
        let names: Vec<&str> = pool.application_metadata.keys().map(String::as_str).collect();
        line += &format!(" application {}", names.join(","));
    }
    line + "\n"
}

pub(crate) fn list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = mon.osdmap();
    let pools = || map.pools.iter().map(|(id, pool)| (*id, map.pool_names[id].as_str(), pool));
    if call.get("detail").is_some() {
        let json: Vec<Value> = pools().map(|(id, name, pool)| pool_json("pool_id", id, name, pool)).collect();
        let plain: String = pools().map(|(id, name, pool)| pool_line(id, name, pool)).collect();
        return Ok(call.show(&json.into(), plain + "\n"));
    }
    let names: Vec<&str> = pools().map(|(_, name, _)| name).collect();
    let plain: String = names.iter().map(|name| format!("{name}\n")).collect();
    Ok(call.show(&json!(names), plain))
}

pub(crate) fn lspools(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let names = &mon.osdmap().pool_names;
    let json: Vec<Value> = names.iter().map(|(id, name)| json!({"poolnum": id, "poolname": name})).collect();
    let plain: String = names.iter().map(|(id, name)| format!("{id} {name}\n")).collect();
    Ok(call.show(&json.into(), plain))
}

pub(crate) fn create(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = call.text("pool");
    // Programs may give the name of a rule where the kind of the pool may stand.
    if call.get("pool_type") == Some("erasure") {
        return Err(Refusal::new(
            EOPNOTSUPP,
            "erasure-coded pools are not supported: choose a replicated one",
        ));
    }
    let rule = call.get("rule").or(call.get("erasure_code_profile")).filter(|rule| !rule.is_empty());
    let numbered = rule.map(|rule| {
        let number = mon.osdmap().crush.rule_id(rule).and_then(|number| u8::try_from(number).ok());
        number.ok_or_else(|| Refusal::missing(format!("specified rule {rule} doesn't exist")))
    });
    let crush_rule = numbered.transpose()?;
    let size = call.int("size").filter(|size| *size != 0);
    let size = size.map(u32::try_from).transpose().map_err(|_| Refusal::invalid("'size' is too large"))?;
    let pg_num = call.int("pg_num").filter(|pg_num| *pg_num != 0).unwrap_or(DEFAULT_PG_NUM.into());
    let pg_num = u32::try_from(pg_num).map_err(|_| Refusal::invalid("'pg_num' is too large"))?;
    match mon.create_pool(call.now, &NewPool { pg_num, size, ..NewPool::new(name) }) {
        Ok(id) => {
            if let Some(rule) = crush_rule {
                mon.edit_pool(call.now, id, |pool, _| pool.crush_rule = rule);
            }
            super::pool_set::set_at_creation(mon, call, id);
            Ok(Reply::done(format!("pool '{name}' created")))
        }
        // Making what is there already is no failure.
        Err(refusal) if refusal.errno == EEXIST => Ok(Reply::done(refusal.text)),
        Err(refusal) => Err(refusal),
    }
}

pub(crate) fn delete(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = call.text("pool");
    let Some(id) = mon.osdmap().pool_id(name) else {
        return Ok(Reply::done(format!("pool '{name}' does not exist")));
    };
    let sure =
        call.flag("yes_i_really_really_mean_it") || call.flag("yes_i_really_really_mean_it_not_faking");
    if call.get("pool2") != Some(name) || !sure {
        return Err(Refusal::new(
            EPERM,
            format!(
                "this deletes pool '{name}' and all that is in it for ever: to do so, give its name twice, and --yes-i-really-really-mean-it"
            ),
        ));
    }
    mon.delete_pool(call.now, id)?;
    Ok(Reply::done(format!("pool '{name}' removed")))
}

pub(crate) fn rename(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (from, to) = (call.text("srcpool"), call.text("destpool"));
    let map = mon.osdmap();
    if map.pool_id(from).is_none() && map.pool_id(to).is_some() {
        // The client repeats a command whose reply was lost.
        return Ok(Reply::done(format!("pool '{from}' does not exist; pool '{to}' does: taken as renamed")));
    }
    mon.rename_pool(call.now, from, to)?;
    Ok(Reply::done(format!("pool '{from}' renamed to '{to}'")))
}

pub(crate) fn stats(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let wanted = call.get("pool_name").map(|name| mon.find_pool(name)).transpose()?;
    let names = mon.osdmap().pool_names.iter().filter(|(id, _)| wanted.is_none_or(|wanted| wanted == **id));
    let names: Vec<(&i64, &String)> = names.collect();
    let json: Vec<Value> = names
        .iter()
        .map(|(id, name)| {
            json!({"pool_name": name, "pool_id": id, "recovery": {}, "recovery_rate": {}, "client_io_rate": {}})
        })
        .collect();
    let plain: String = names
        .iter()
        .map(|(id, name)| {
            let used = call.usage.pool(**id);
            format!(
                "pool {name} id {id}\n  {} objects, {}; so far {} reads of {}, {} writes of {}\n\n",
                used.objects,
                text::bytes(used.bytes),
                text::number(used.reads),
                text::bytes(used.read_bytes),
                text::number(used.writes),
                text::bytes(used.written_bytes)
            )
        })
        .collect();
    Ok(call.show(&json.into(), plain))
}

/// What applications say of a pool.
type Applications = BTreeMap<String, BTreeMap<String, String>>;

/// Changes what applications say of a pool.
fn edit_applications(
    mon: &mut Mon,
    call: &Call<'_>,
    edit: impl FnOnce(&mut Applications),
) -> Result<(), Refusal> {
    let id = mon.find_pool(call.text("pool"))?;
    mon.edit_pool(call.now, id, |pool, _| edit(&mut pool.application_metadata));
    Ok(())
}

fn applications(mon: &Mon, call: &Call<'_>) -> Result<Applications, Refusal> {
    let id = mon.find_pool(call.text("pool"))?;
    Ok(mon.osdmap().pools[&id].application_metadata.clone())
}

fn check_text(text: &str) -> Result<(), Refusal> {
    let fits = !text.is_empty() && text.len() <= MAX_TEXT;
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=".contains(c));
    if fits && plain {
        return Ok(());
    }
    let what = "applications, keys and values are of letters, digits, dots, dashes and underscores";
    Err(Refusal::new(EINVAL, format!("{what}, at most {MAX_TEXT}, not '{text}'")))
}

pub(crate) fn application_enable(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, app) = (call.text("pool"), call.text("app"));
    check_text(app)?;
    let there = applications(mon, call)?;
    if !there.is_empty() && !there.contains_key(app) {
        if !call.flag("yes_i_really_mean_it") {
            return Err(Refusal::new(
                EPERM,
                format!(
                    "pool '{name}' is enabled for another application already: pass --yes-i-really-mean-it to enable both"
                ),
            ));
        }
        if there.len() >= MAX_APPLICATIONS {
            return Err(Refusal::invalid(format!(
                "too many enabled applications on pool '{name}'; max {MAX_APPLICATIONS}"
            )));
        }
    }
    edit_applications(mon, call, |all| {
        all.entry(app.to_owned()).or_default();
    })?;
    Ok(Reply::done(format!("enabled application '{app}' on pool '{name}'")))
}

pub(crate) fn application_disable(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, app) = (call.text("pool"), call.text("app"));
    if !applications(mon, call)?.contains_key(app) {
        return Ok(Reply::done(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    if !call.flag("yes_i_really_mean_it") {
        return Err(Refusal::new(
            EPERM,
            format!(
                "what application '{app}' says of pool '{name}' would be lost: pass --yes-i-really-mean-it to do so"
            ),
        ));
    }
    edit_applications(mon, call, |all| drop(all.remove(app)))?;
    Ok(Reply::done(format!("disable application '{app}' on pool '{name}'")))
}

/// The keys of an application that must be enabled.
fn application_keys(mon: &Mon, call: &Call<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let (name, app) = (call.text("pool"), call.text("app"));
    applications(mon, call)?
        .remove(app)
        .ok_or_else(|| Refusal::missing(format!("application '{app}' is not enabled on pool '{name}'")))
}

pub(crate) fn application_set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, app, key, value) = (call.text("pool"), call.text("app"), call.text("key"), call.text("value"));
    check_text(key)?;
    check_text(value)?;
    let keys = application_keys(mon, call)?;
    if keys.len() >= MAX_KEYS && !keys.contains_key(key) {
        return Err(Refusal::invalid(format!(
            "too many keys set for application '{app}' on pool '{name}'; max {MAX_KEYS}"
        )));
    }
    edit_applications(mon, call, |all| {
        all.entry(app.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
    })?;
    Ok(Reply::done(format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'")))
}

pub(crate) fn application_remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, app, key) = (call.text("pool"), call.text("app"), call.text("key"));
    application_keys(mon, call)?;
    edit_applications(mon, call, |all| drop(all.entry(app.to_owned()).or_default().remove(key)))?;
    Ok(Reply::done(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

pub(crate) fn application_get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    if call.get("pool").is_none() {
        let map = mon.osdmap();
        let all: BTreeMap<&String, &Applications> =
            map.pools.iter().map(|(id, pool)| (&map.pool_names[id], &pool.application_metadata)).collect();
        return Ok(call.show_json(&json!(all)));
    }
    if call.get("app").is_none() {
        return Ok(call.show_json(&json!(applications(mon, call)?)));
    }
    let keys = application_keys(mon, call)?;
    match call.get("key") {
        None => Ok(call.show_json(&json!(keys))),
        Some(key) => match keys.get(key) {
            Some(value) => Ok(call.show(&json!({key: value}), format!("{value}\n"))),
            None => Err(Refusal::missing(format!("no key '{key}' for application '{}'", call.text("app")))),
        },
    }
}
