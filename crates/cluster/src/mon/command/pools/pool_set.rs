//! What can be set on a pool.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd pool get", `prepare_command_pool_set`), `src/osd/osd_types.cc`
//! (`pool_opts_t`).

use super::pool_flags::{self, autoscale_name, flag};
use crate::errno::EPERM;
use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;
use crate::mon::monitor::pools::{check_pg_num, check_size, default_min_size};
use crate::mon::osds::ids;
use crate::mon::refusal::Refusal;
use onego_ceph::osdmap::{Pool, PoolOption, pool_flag};
use serde_json::{Map, Value};

pub(crate) const GETTABLE: &str = "size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|pg_autoscale_mode|eio|bulk|all|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|fingerprint_algorithm|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio";

pub(crate) const SETTABLE: &str = "size|min_size|pg_num|pgp_num|crush_rule|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|pg_autoscale_mode|eio|bulk|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|fingerprint_algorithm|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio";

/// What is always there, in the order in which `all` shows it.
const FIELDS: [&str; 17] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "fast_read",
    "pg_autoscale_mode",
    "eio",
    "bulk",
];

/// The kind of value that an option has.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Int,
    Float,
}

/// Options that only OSDs on disks, or managers, heed: they are kept, shown, and of no effect here.
const OPTIONS: [(&str, i32, Kind); 19] = [
    ("scrub_min_interval", 0, Kind::Float),
    ("scrub_max_interval", 1, Kind::Float),
    ("deep_scrub_interval", 2, Kind::Float),
    ("recovery_priority", 3, Kind::Int),
    ("recovery_op_priority", 4, Kind::Int),
    ("scrub_priority", 5, Kind::Int),
    ("compression_mode", 6, Kind::Text),
    ("compression_algorithm", 7, Kind::Text),
    ("compression_required_ratio", 8, Kind::Float),
    ("compression_max_blob_size", 9, Kind::Int),
    ("compression_min_blob_size", 10, Kind::Int),
    ("csum_type", 11, Kind::Int),
    ("csum_max_block", 12, Kind::Int),
    ("csum_min_block", 13, Kind::Int),
    ("fingerprint_algorithm", 14, Kind::Text),
    ("pg_num_min", 15, Kind::Int),
    ("target_size_bytes", 16, Kind::Int),
    ("target_size_ratio", 17, Kind::Float),
    ("pg_autoscale_bias", 18, Kind::Float),
];

const PG_NUM_MAX: (&str, i32, Kind) = ("pg_num_max", 23, Kind::Int);

fn option(name: &str) -> Option<(i32, Kind)> {
    let mut all = OPTIONS.iter().chain([&PG_NUM_MAX]);
    all.find(|(known, ..)| *known == name).map(|(_, key, kind)| (*key, *kind))
}

fn option_json(value: &PoolOption) -> Value {
    match value {
        PoolOption::Text(text) => text.as_str().into(),
        PoolOption::Int(number) => (*number).into(),
        PoolOption::Float(number) => (*number).into(),
    }
}

/// The options that are set on a pool.
pub(crate) fn options_json(pool: &Pool) -> Value {
    let all = OPTIONS.iter().chain([&PG_NUM_MAX]);
    let set =
        all.filter_map(|(name, key, _)| Some(((*name).to_owned(), option_json(pool.options.get(key)?))));
    Value::Object(set.collect())
}

/// The value of a field that is always there, for programs.
fn field(mon: &Mon, pool: &Pool, name: &str) -> Value {
    let flag = |flag: u64| Value::from(pool.has_flag(flag));
    match name {
        "size" => pool.size.into(),
        "min_size" => pool.min_size.into(),
        "pg_num" => pool.pg_num.into(),
        "pgp_num" => pool.pgp_num.into(),
        "crush_rule" => {
            let names = &mon.osdmap().crush.rule_names;
            names.get(&pool.crush_rule.into()).cloned().unwrap_or_default().into()
        }
        "use_gmt_hitset" => pool.use_gmt_hitset.into(),
        "fast_read" => u8::from(pool.fast_read).into(),
        "pg_autoscale_mode" => autoscale_name(pool.pg_autoscale_mode).into(),
        "hashpspool" => flag(pool_flag::HASHPSPOOL),
        name => pool_flags::flag(name).map_or(Value::Null, flag),
    }
}

/// The same for people.
fn plain(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("{name}: {text}\n"),
        Value::Bool(set) if name == "use_gmt_hitset" => format!("{name}: {}\n", u8::from(*set)),
        other => format!("{name}: {other}\n"),
    }
}

pub(crate) fn get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pool_name, wanted) = (call.text("pool"), call.text("var"));
    let id = mon.find_pool(pool_name)?;
    let pool = &mon.osdmap().pools[&id];
    let mut fields = Map::new();
    if let Some((key, _)) = option(wanted) {
        let value = pool
            .options
            .get(&key)
            .ok_or_else(|| Refusal::missing(format!("option '{wanted}' is not set on pool '{pool_name}'")))?;
        fields.insert(wanted.to_owned(), option_json(value));
    } else {
        let names = FIELDS.iter().filter(|name| wanted == "all" || wanted == **name);
        fields.extend(names.map(|name| ((*name).to_owned(), field(mon, pool, name))));
        if wanted == "all"
            && let Value::Object(options) = options_json(pool)
        {
            fields.extend(options);
        }
    }
    let text: String = fields.iter().map(|(name, value)| plain(name, value)).collect();
    let mut json = Map::from_iter([("pool".to_owned(), pool_name.into()), ("pool_id".to_owned(), id.into())]);
    json.extend(fields);
    Ok(call.show(&Value::Object(json), text))
}

fn int(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::invalid(format!("error parsing integer value '{text}'")))
}

fn float(text: &str) -> Result<f64, Refusal> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| Refusal::invalid(format!("error parsing floating point value '{text}'")))
}

fn switch(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(Refusal::invalid(format!("expecting value 'true', 'false', '0', or '1', not '{text}'"))),
    }
}

pub(crate) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pool_name, name, text) = (call.text("pool"), call.text("var"), call.text("val"));
    let id = mon.find_pool(pool_name)?;
    match name {
        "size" => set_size(mon, call, id, int(text)?)?,
        "min_size" => {
            let (value, size) = (int(text)?, mon.osdmap().pools[&id].size);
            let value = u8::try_from(value).ok().filter(|value| (1..=size).contains(value));
            let value = value.ok_or_else(|| {
                Refusal::invalid(format!("pool min_size must be between 1 and size, which is set to {size}"))
            })?;
            mon.edit_pool(call.now, id, |pool, _| pool.min_size = value);
        }
        "pg_num" | "pgp_num" => set_pg_num(mon, call, id, name, text)?,
        "crush_rule" => {
            let rule = mon.osdmap().crush.rule_id(text);
            let rule = rule.and_then(|rule| u8::try_from(rule).ok());
            let rule = rule.ok_or_else(|| Refusal::missing(format!("crush rule {text} does not exist")))?;
            mon.edit_pool(call.now, id, |pool, _| pool.crush_rule = rule);
        }
        "pg_autoscale_mode" => {
            let mode = (0..3).find(|mode| autoscale_name(*mode) == text);
            let mode = mode.ok_or_else(|| Refusal::invalid(format!("specified invalid mode {text}")))?;
            mon.edit_pool(call.now, id, |pool, _| pool.pg_autoscale_mode = mode);
        }
        _ => match (flag(name), option(name)) {
            (Some(flag), _) => {
                let on = switch(text)?;
                mon.edit_pool(call.now, id, |pool, _| {
                    pool.flags = if on { pool.flags | flag } else { pool.flags & !flag };
                });
            }
            (None, Some((key, kind))) => set_option(mon, call, id, key, kind, text)?,
            (None, None) => return Err(Refusal::invalid(format!("'{name}' cannot be set here"))),
        },
    }
    Ok(Reply::done(format!("set pool {id} {name} to {text}")))
}

fn set_size(mon: &mut Mon, call: &Call<'_>, id: i64, size: i64) -> Result<(), Refusal> {
    let size = u32::try_from(size).unwrap_or(0);
    check_size(size, ids(mon.osdmap()).count() as u32)?;
    if mon.osdmap().pools[&id].has_flag(pool_flag::NOSIZECHANGE) {
        let text = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err(Refusal::new(EPERM, text));
    }
    mon.edit_pool(call.now, id, |pool, _| {
        pool.size = size as u8;
        pool.min_size = default_min_size(size) as u8;
    });
    Ok(())
}

fn set_pg_num(mon: &mut Mon, call: &Call<'_>, id: i64, name: &str, text: &str) -> Result<(), Refusal> {
    let value =
        u32::try_from(int(text)?).map_err(|_| Refusal::invalid(format!("'{name}' cannot be {text}")))?;
    check_pg_num(value)?;
    let pool = &mon.osdmap().pools[&id];
    if pool.has_flag(pool_flag::NOPGCHANGE) {
        let text = "pool pg_num change is disabled; you must unset nopgchange flag for the pool first";
        return Err(Refusal::new(EPERM, text));
    }
    if name == "pg_num" && value < pool.pg_num && !mon.can_merge() {
        let text = format!("pg_num cannot become less than {}: the cluster has several OSDs", pool.pg_num);
        return Err(Refusal::new(EPERM, text));
    }
    if name == "pgp_num" && value > pool.pg_num {
        return Err(Refusal::invalid(format!("specified pgp_num {value} > pg_num {}", pool.pg_num)));
    }
    if name == "pgp_num" {
        mon.edit_pool(call.now, id, |pool, _| {
            pool.pgp_num = value;
            pool.pgp_num_target = value;
        });
    } else {
        mon.set_pg_num(call.now, id, value);
    }
    Ok(())
}

/// Zero, or no text, takes an option off again.
fn set_option(
    mon: &mut Mon,
    call: &Call<'_>,
    id: i64,
    key: i32,
    kind: Kind,
    text: &str,
) -> Result<(), Refusal> {
    let value = match kind {
        Kind::Text => Some(PoolOption::Text(text.to_owned())).filter(|_| !text.is_empty() && text != "unset"),
        Kind::Int => Some(int(text)?).filter(|value| *value != 0).map(PoolOption::Int),
        Kind::Float => Some(float(text)?).filter(|value| *value != 0.0).map(PoolOption::Float),
    };
    mon.edit_pool(call.now, id, |pool, _| match value {
        Some(value) => drop(pool.options.insert(key, value)),
        None => drop(pool.options.remove(&key)),
    });
    Ok(())
}

/// What may be set on a pool as it is made.
pub(crate) fn set_at_creation(mon: &mut Mon, call: &Call<'_>, id: i64) {
    const NUMBERS: [&str; 3] = ["pg_num_min", "pg_num_max", "target_size_bytes"];
    mon.edit_pool(call.now, id, |pool, _| {
        for name in NUMBERS {
            if let (Some((key, _)), Some(value)) = (option(name), call.int(name).filter(|value| *value > 0)) {
                pool.options.insert(key, PoolOption::Int(value));
            }
        }
        let ratio = call.float("target_size_ratio").filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        if let (Some((key, _)), Some(ratio)) = (option("target_size_ratio"), ratio) {
            pool.options.insert(key, PoolOption::Float(ratio));
        }
        if let Some(mode) = (0..3).find(|mode| call.get("autoscale_mode") == Some(autoscale_name(*mode))) {
            pool.pg_autoscale_mode = mode;
        }
        if let Some(bulk) = flag("bulk").filter(|_| call.flag("bulk")) {
            pool.flags |= bulk;
        }
        pool.expected_num_objects = call.int("expected_num_objects").unwrap_or(0).unsigned_abs();
    });
}
