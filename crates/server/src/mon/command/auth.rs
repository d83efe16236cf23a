//! Who may do what. A cluster takes everybody, or whoever has the key of one of those that it was started with.

use super::{Call, Outcome, Refusal};
use crate::mon::Mon;
use onego_ceph::auth::{AuthName, Entry, Keyring};
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Everybody who has a key; `None`: nobody needs one.
fn keyring(mon: &Mon) -> Option<Keyring> {
    let authority = mon.authority.as_ref()?;
    Some(authority.lock().unwrap_or_else(PoisonError::into_inner).keyring().clone())
}

fn find(mon: &Mon, call: &Call<'_>) -> Result<(AuthName, Entry), Refusal> {
    let entity = call.text("entity");
    let Some(keyring) = keyring(mon) else {
        return Err(Refusal::missing(format!(
            "failed to find {entity} in keyring: this cluster takes everybody without a key"
        )));
    };
    let name = entity.parse::<AuthName>().map_err(Refusal::invalid)?;
    match keyring.entries.get(&name) {
        Some(entry) => Ok((name, entry.clone())),
        None => Err(Refusal::missing(format!("failed to find {entity} in keyring"))),
    }
}

fn describe(name: &AuthName, entry: &Entry) -> Value {
    json!({"entity": name.to_string(), "key": *entry.key.to_base64(), "caps": entry.caps})
}

pub(super) fn list(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let Some(keyring) = keyring(mon) else {
        return Ok(call
            .show(&json!({"auth_dump": []}), "")
            .with_status("installed auth entries: none, this cluster takes everybody"));
    };
    let all: Vec<Value> = keyring.entries.iter().map(|(name, entry)| describe(name, entry)).collect();
    let reply = call.show(&json!({ "auth_dump": all }), keyring.to_text().as_str());
    Ok(reply.with_status("installed auth entries:"))
}

pub(super) fn get(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let (name, entry) = find(mon, call)?;
    let status = format!("exported keyring for {name}");
    let described = json!([describe(&name, &entry)]);
    let keyring = Keyring { entries: [(name, entry)].into() };
    Ok(call.show(&described, keyring.to_text().as_str()).with_status(status))
}

pub(super) fn get_key(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let (_, entry) = find(mon, call)?;
    let key = entry.key.to_base64();
    Ok(call.show(&json!({"key": *key}), key.as_str()))
}
