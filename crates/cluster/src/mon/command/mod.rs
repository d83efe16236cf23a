//! Commands as the `ceph` program gives them: JSON in, text or JSON out.
//!
//! Source: ceph `src/mon/MonCommands.h` (commands and their arguments), `src/pybind/ceph_argparse.py` (how the program
//! turns words into JSON, by the descriptions that the monitor gives it), `src/common/cmdparse.cc`.

mod auth;
mod call;
mod config;
mod config_key;
mod describe;
mod log;
mod mons;
mod osds;
mod pools;
mod refused;
mod status;
mod syntax;
mod table;

pub(crate) use call::{Asked, Audience, Caller, Reply};
pub(crate) use mons::{addr_text, version_json};

use super::cluster_log::AUDIT;
use super::refusal::Refusal;
use super::usage::Usage;
use crate::errno::EACCES;
use crate::mon::monitor::Mon;
use call::{CommandOutcome, Format};
use onego_ceph::caps::MonCap;
use onego_ceph::messages::LogLevel;
use onego_wire::Time;
use serde_json::{Map, Value};
use syntax::Command;

/// Bytes of a command that are looked at. The longest sane one names a few pools and options.
const MAX_LEN: usize = 64 << 10;

/// What the monitor says to `ceph ping`.
pub(super) fn ping_answer(mon: &Mon, now: Time, usage: &Usage) -> String {
    call::pretty(&status::ping(mon, now, usage))
}

/// Runs a command: one string of JSON, or, from some clients, several that make it up.
pub(super) fn run(mon: &mut Mon, asked: &Asked<'_>, command: &[String]) -> CommandOutcome {
    let mut text = command.concat();
    if text.len() > MAX_LEN {
        return Err(Refusal::invalid(format!(
            "the command has {} bytes, the bound is {MAX_LEN}",
            text.len()
        )));
    }
    // Ceph's parser takes the first value and leaves what follows it: `rbd perf image` sends more than one object ends with.
    // The parser goes 128 levels deep at most.
    let mut values = serde_json::Deserializer::from_str(&text).into_iter();
    let mut fields = match values.next() {
        Some(Ok(Value::Object(fields))) => fields,
        Some(Err(error)) => return Err(Refusal::invalid(format!("the command is not JSON: {error}"))),
        None => return Err(Refusal::invalid("the command is not JSON: it is empty")),
        Some(Ok(_)) => return Err(Refusal::invalid("the command is not a JSON object")),
    };
    let end = values.byte_offset();
    text.truncate(end);
    let Some(Value::String(prefix)) = fields.remove("prefix") else {
        return Err(Refusal::invalid("the command has no `prefix`"));
    };
    let format = Format::of(fields.remove("format"))?;
    if prefix == "get_command_descriptions" {
        return Ok(Reply {
            status: String::new(),
            output: describe::descriptions(asked.audience).into_bytes(),
        });
    }
    if asked.audience != Audience::Cluster && prefix == "version" {
        return Ok(Reply { status: String::new(), output: call::pretty(&version_json()).into_bytes() });
    }
    let Some(command) = table::find(&prefix) else {
        return Err(refused::refusal(&prefix));
    };
    if !command.is_for(asked.audience) {
        return Err(refused::not_for_managers(&prefix));
    }
    if !may_run(command, &fields, asked.cap) {
        audit(mon, asked, LogLevel::Info, &text, "access denied");
        return Err(Refusal::new(EACCES, "access denied"));
    }
    let call = command.call(fields, format, asked)?;
    let shown = if command.is_secret { command.words } else { &text };
    let level = if command.changes { LogLevel::Info } else { LogLevel::Debug };
    audit(mon, asked, level, shown, "dispatch");
    let outcome = (command.run)(mon, &call);
    if command.changes && outcome.is_ok() {
        audit(mon, asked, LogLevel::Info, shown, "finished");
    }
    outcome
}

/// Notes who gave which command (ceph `Monitor::handle_command`).
fn audit(mon: &mut Mon, asked: &Asked<'_>, level: LogLevel, command: &str, how: &str) {
    let Caller { name, rank, addrs } = asked.caller;
    let command = on_one_line(command);
    let text = format!("from='{rank} {addrs}' entity='{name}' cmd='[{command}]': {how}");
    mon.log_to(asked.now, AUDIT, level, text);
}

/// Writes a command so that no part of it passes for another entry, or for the end of its own: control characters, which only
/// stand between JSON's tokens, and quotes, which only stand within strings.
fn on_one_line(command: &str) -> String {
    let mut text = String::with_capacity(command.len());
    for c in command.chars() {
        match c {
            '\'' => text += "\\u0027",
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

/// May a client with these capabilities give a command with these arguments? (ceph `Monitor::_allowed_command`)
fn may_run(command: &Command, fields: &Map<String, Value>, cap: &MonCap) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let args = fields.iter().flat_map(|(name, value)| match value {
        // Capabilities come as a list of services and texts; each text is an argument of its own.
        Value::Array(caps) if name == "caps" => {
            let pair = |pair: &[Value]| (format!("caps_{}", text(&pair[0])), text(&pair[pair.len() - 1]));
            caps.chunks(2).map(pair).collect()
        }
        value => vec![(name.clone(), text(value))],
    });
    cap.allows_command(command.service(), command.words, &args.collect(), command.access())
}
