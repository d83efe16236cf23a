//! The cluster's log, read and written by commands.
//!
//! Source: ceph `src/mon/LogMonitor.cc`, `preprocess_command`, `prepare_command`.

use super::call::{Call, Caller, CommandOutcome, Reply};
use crate::mon::cluster_log::{CLUSTER, line};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use crate::mon::text::stamp;
use onego_ceph::messages::{LogEntry, LogLevel};
use onego_ceph::types::Utime;
use serde_json::{Value, json};

/// Entries that are shown unless somebody says how many.
const DEFAULT_COUNT: i64 = 20;

fn level(call: &Call<'_>) -> Result<LogLevel, Refusal> {
    let name = call.get("level").unwrap_or("info");
    LogLevel::named(name).ok_or_else(|| Refusal::invalid(format!("Invalid severity '{name}'")))
}

fn entry_json(entry: &LogEntry) -> Value {
    let addrs: Vec<Value> = entry.addrs.0.iter().map(|addr| addr.to_string().into()).collect();
    json!({
        "name": entry.name.to_string(),
        "rank": entry.rank.to_string(),
        "addrs": {"addrvec": addrs},
        "stamp": stamp(entry.stamp),
        "seq": entry.seq,
        "channel": entry.channel,
        "priority": entry.level.tag(),
        "message": entry.text,
    })
}

pub(super) fn last(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let count = usize::try_from(call.int("num").unwrap_or(DEFAULT_COUNT)).unwrap_or(usize::MAX);
    let channel = call.get("channel").unwrap_or(CLUSTER);
    let entries = mon.log.last(count, level(call)?, channel);
    let json: Vec<Value> = entries.iter().map(|entry| entry_json(entry)).collect();
    let plain: String = entries.iter().map(|entry| line(entry) + "\n").collect();
    Ok(call.show(&json.into(), plain))
}

pub(super) fn write(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let Caller { name, rank, addrs } = call.caller.clone();
    let entry = LogEntry {
        name,
        rank,
        addrs,
        stamp: Utime::from(call.now),
        seq: 0,
        level: level(call)?,
        text: call.list("logtext").join(" "),
        channel: CLUSTER.to_owned(),
    };
    mon.add_to_log(entry);
    Ok(Reply::default())
}
