//! What programs keep with the monitor by keys of their own.
//!
//! Source: ceph `src/mon/ConfigKeyService.cc`.

use super::call::{Call, CommandOutcome, Reply};
use crate::errno::{EFBIG, ERANGE};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use serde_json::{Map, Value, json};

/// Bytes of a value (`mon_config_key_max_entry_size`).
const MAX_VALUE: usize = 64 << 10;

/// Bytes of a key.
const MAX_KEY: usize = 1024;

/// Bytes of all keys and values: they are written to the journal with each change of a setting.
const MAX_TOTAL: usize = 4 << 20;

pub(super) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let key = call.text("key");
    let value = call.get("val").map_or_else(|| call.input.to_vec(), |value| value.as_bytes().to_vec());
    if value.len() > MAX_VALUE {
        return Err(Refusal::new(EFBIG, format!("error: entry size limited to {MAX_VALUE} bytes")));
    }
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(Refusal::invalid(format!("a key has 1 to {MAX_KEY} bytes")));
    }
    let others = mon.config_keys.iter().filter(|(other, _)| *other != key);
    let total: usize = others.map(|(key, value)| key.len() + value.len()).sum();
    if total + key.len() + value.len() > MAX_TOTAL {
        return Err(Refusal::new(ERANGE, format!("all keys and values have at most {MAX_TOTAL} bytes")));
    }
    mon.config_keys.insert(key.to_owned(), value);
    Ok(Reply::done(format!("set {key}")))
}

pub(super) fn get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let key = call.text("key");
    let missing = || Refusal::missing(format!("there is no key '{key}'"));
    let output = mon.config_keys.get(key).ok_or_else(missing)?.clone();
    Ok(Reply { output, ..Reply::done(format!("obtained '{key}'")) })
}

pub(super) fn remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let key = call.text("key");
    let removed = mon.config_keys.remove(key).is_some();
    Ok(Reply::done(if removed { "key deleted".into() } else { format!("no such key '{key}'") }))
}

pub(super) fn exists(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let key = call.text("key");
    if mon.config_keys.contains_key(key) {
        return Ok(Reply::done(format!("key '{key}' exists")));
    }
    Err(Refusal::missing(format!("key '{key}' doesn't exist")))
}

pub(super) fn list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let keys: Vec<&str> = mon.config_keys.keys().map(String::as_str).collect();
    Ok(call.show_json(&json!(keys)))
}

pub(super) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let prefix = call.get("key").unwrap_or_default();
    let wanted = mon.config_keys.iter().filter(|(key, _)| key.starts_with(prefix));
    let shown: Map<String, Value> = wanted
        .map(|(key, value)| {
            // What is no text would break the output.
            let text = std::str::from_utf8(value).map(str::to_owned);
            (
                key.clone(),
                text.unwrap_or_else(|_| format!("<<< binary blob of length {} >>>", value.len())).into(),
            )
        })
        .collect();
    Ok(call.show_json(&Value::Object(shown)))
}
