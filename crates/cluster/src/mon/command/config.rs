//! Settings that the monitor keeps for clients, and gives them when they come.
//!
//! Source: ceph `src/mon/ConfigMonitor.cc`.

use super::call::{Call, CommandOutcome, Reply};
use crate::errno::ERANGE;
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use crate::mon::text::{Left, Table};
use serde_json::{Map, Value, json};

/// Settings there may be: a bound on what operators' scripts can pile up, and every client gets.
const MAX_SETTINGS: usize = 1024;

/// Bytes of a section, a name and a value together.
const MAX_SETTING: usize = 4096;

/// The sections that apply to somebody, the weakest first: all, those of its kind, it alone.
fn sections(who: &str) -> Vec<&str> {
    let kind = who.split('.').next().unwrap_or(who);
    let mut sections = vec!["global", kind, who];
    sections.dedup();
    sections
}

/// Names are written with blanks, dashes or underscores.
fn key(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

pub(super) fn get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let who = call.text("who");
    let settings: Map<String, Value> = sections(who)
        .iter()
        .filter_map(|section| Some((section, mon.config.get(*section)?)))
        .flat_map(|(section, settings)| settings.iter().map(move |(name, value)| (section, name, value)))
        .map(|(section, name, value)| {
            (
                name.clone(),
                json!({"value": value, "section": section, "mask": {}, "can_update_at_runtime": true}),
            )
        })
        .collect();
    let Some(name) = call.get("key") else {
        return Ok(call.show(&Value::Object(settings.clone()), table(settings_rows(&settings))));
    };
    let Some(value) = settings.get(&key(name)).and_then(|setting| setting["value"].as_str()) else {
        // A real monitor has the list of all options there are, and would give the default.
        return Err(Refusal::missing(format!(
            "'{name}' is not set for {who}, and what clients default to is not known here"
        )));
    };
    Ok(call.show(&value.into(), format!("{value}\n")))
}

fn settings_rows(settings: &Map<String, Value>) -> Vec<[String; 3]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    settings.iter().map(|(name, one)| [text(&one["section"]), name.clone(), text(&one["value"])]).collect()
}

/// Rows of section, name and value.
fn table(rows: Vec<[String; 3]>) -> String {
    let headings = ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"];
    let mut table = Table::new(&headings.map(|heading| (heading, Left, Left)));
    for [section, name, value] in rows {
        table.row([section, String::new(), "advanced".into(), name, value]);
    }
    table.render()
}

pub(super) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let rows: Vec<[String; 3]> = mon
        .config
        .iter()
        .flat_map(|(section, settings)| {
            settings.iter().map(|(name, value)| [section.clone(), name.clone(), value.clone()])
        })
        .collect();
    let json: Vec<Value> = rows
        .iter()
        .map(|[section, name, value]| {
            json!({"section": section, "name": name, "value": value, "level": "advanced",
                "can_update_at_runtime": true, "mask": ""})
        })
        .collect();
    Ok(call.show(&json.into(), table(rows)))
}

pub(super) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (who, name, value) = (call.text("who"), key(call.text("name")), call.text("value"));
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if who.is_empty() || name.is_empty() || !plain(who) || !plain(&name) {
        return Err(Refusal::invalid(
            "a section and a name are of letters, digits, dots, dashes and underscores",
        ));
    }
    if who.len() + name.len() + value.len() > MAX_SETTING {
        return Err(Refusal::new(ERANGE, format!("a setting has at most {MAX_SETTING} bytes")));
    }
    let count: usize = mon.config.values().map(std::collections::BTreeMap::len).sum();
    let is_there = mon.config.get(who).is_some_and(|settings| settings.contains_key(&name));
    if count >= MAX_SETTINGS && !is_there {
        return Err(Refusal::new(ERANGE, format!("there are {MAX_SETTINGS} settings, which is the most")));
    }
    mon.config.entry(who.to_owned()).or_default().insert(name, value.to_owned());
    mon.publish_config();
    Ok(Reply::default())
}

pub(super) fn remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let removed =
        mon.config.get_mut(call.text("who")).and_then(|settings| settings.remove(&key(call.text("name"))));
    if removed.is_some() {
        mon.config.retain(|_, settings| !settings.is_empty());
        mon.publish_config();
    }
    Ok(Reply::default())
}
