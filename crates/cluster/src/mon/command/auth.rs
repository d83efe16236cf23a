//! Users, their keys and their capabilities, which a cluster keeps also if it lets in clients without a key.
//!
//! Source for what is answered: ceph `src/mon/AuthMonitor.cc`, `src/auth/KeyRing.cc`,
//! `src/auth/cephx/CephxKeyServer.cc`.

use super::call::{Call, CommandOutcome, Reply};
use crate::errno::{EEXIST, EOPNOTSUPP};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use onego_ceph::caps::{MonCap, OsdCap};
use onego_msgr::auth::{AuthName, Authority, Cipher, Entry, Keyring};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::MutexGuard;
use zeroize::Zeroizing;

/// Most users that may have a key: a list of them still fits one answer of a few MiB.
const MAX_ENTRIES: usize = 16_384;

/// Longest name, bytes.
const MAX_NAME: usize = 256;

/// Longest keyring that is taken, bytes.
const MAX_KEYRING: usize = 4 << 20;

type Caps = BTreeMap<String, String>;

/// The authority, which knows the keys.
fn authority(mon: &Mon) -> Result<MutexGuard<'_, Authority>, Refusal> {
    mon.authority().ok_or_else(|| {
        let text = "this cluster keeps no keys: start it with --auth cephx";
        Refusal::new(EOPNOTSUPP, text)
    })
}

fn entity(call: &Call<'_>) -> Result<AuthName, Refusal> {
    let text = call.text("entity");
    let name = text.parse::<AuthName>().map_err(|_| Refusal::invalid("bad entity name"))?;
    let plain = text.len() <= MAX_NAME && !text.contains(|c: char| c.is_control() || c == ']');
    if plain { Ok(name) } else { Err(Refusal::invalid("bad entity name")) }
}

/// What is said of somebody in the arguments: services and texts in turn.
fn wanted_caps(call: &Call<'_>) -> Result<Caps, Refusal> {
    let words = call.list("caps");
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::invalid("bad capabilities request; odd number of arguments"));
    }
    let caps: Caps = words.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    check_caps(&caps)?;
    Ok(caps)
}

fn check_caps(caps: &Caps) -> Result<(), Refusal> {
    for (service, text) in caps {
        let parsed = match service.as_str() {
            "mon" => MonCap::parse(text).map(drop),
            "osd" => OsdCap::parse(text).map(drop),
            // They are kept for daemons that there are not here.
            "mgr" | "mds" => Ok(()),
            other => return Err(Refusal::invalid(format!("unknown cap type '{other}'"))),
        };
        parsed.map_err(|error| Refusal::invalid(error.to_string()))?;
        if text.contains(char::is_control) {
            return Err(Refusal::invalid(format!("the {service} capabilities have a line break in them")));
        }
    }
    Ok(())
}

/// The keyring that came with the command; none if nothing came.
fn input_keyring(call: &Call<'_>) -> Result<Option<Keyring>, Refusal> {
    if call.input.is_empty() {
        return Ok(None);
    }
    if call.input.len() > MAX_KEYRING {
        return Err(Refusal::invalid(format!("a keyring has at most {MAX_KEYRING} bytes")));
    }
    let bytes = Zeroizing::new(call.input.to_vec());
    let text = std::str::from_utf8(&bytes).map_err(|_| Refusal::invalid("error decoding keyring"))?;
    let wrong = |error| Refusal::invalid(format!("error decoding keyring: {error}"));
    Keyring::parse(text).map(Some).map_err(wrong)
}

/// The kind of key that is asked for.
fn cipher(call: &Call<'_>) -> Cipher {
    if call.get("key_type") == Some("aes256k") { Cipher::Aes256k } else { Cipher::Aes }
}

fn insert(authority: &mut Authority, name: AuthName, entry: Entry) -> Result<(), Refusal> {
    check_room(authority, &name)?;
    authority.insert(name, entry);
    Ok(())
}

fn check_room(authority: &Authority, name: &AuthName) -> Result<(), Refusal> {
    let entries = &authority.keyring().entries;
    if entries.len() < MAX_ENTRIES || entries.contains_key(name) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("there are {MAX_ENTRIES} entries, and no more fit")))
}

fn describe(name: &AuthName, entry: &Entry) -> Value {
    json!({"entity": name.to_string(), "key": *entry.key.to_base64(), "caps": entry.caps})
}

fn show_key(call: &Call<'_>, entry: &Entry) -> Reply {
    let key = entry.key.to_base64();
    call.show(&json!({"key": *key}), key.as_str())
}

fn show_keyring(call: &Call<'_>, keyring: &Keyring) -> Reply {
    let described: Vec<Value> = keyring.entries.iter().map(|(name, entry)| describe(name, entry)).collect();
    call.show(&described.into(), keyring.to_text().as_str())
}

pub(super) fn list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    if mon.authority.is_none() {
        return Ok(call
            .show(&json!({"auth_dump": []}), "")
            .with_status("installed auth entries: none, this cluster takes everybody"));
    }
    let authority = authority(mon)?;
    let entries = &authority.keyring().entries;
    let all: Vec<Value> = entries.iter().map(|(name, entry)| describe(name, entry)).collect();
    let mut plain = Zeroizing::new(String::new());
    for (name, entry) in entries {
        let _ = writeln!(plain, "{name}\n\tkey: {}", *entry.key.to_base64());
        entry.caps.iter().for_each(|(service, text)| {
            let _ = writeln!(plain, "\tcaps: [{service}] {text}");
        });
    }
    Ok(call.show(&json!({ "auth_dump": all }), plain.as_str()).with_status("installed auth entries:"))
}

pub(super) fn get(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = entity(call)?;
    let authority = authority(mon)?;
    let missing = || Refusal::missing(format!("failed to find {name} in keyring"));
    let entry = authority.keyring().entries.get(&name).ok_or_else(missing)?;
    let status = format!("exported keyring for {name}");
    let keyring = Keyring { entries: [(name, entry.clone())].into() };
    Ok(show_keyring(call, &keyring).with_status(status))
}

pub(super) fn export(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    if call.get("entity").is_some() {
        return get(mon, call);
    }
    Ok(show_keyring(call, authority(mon)?.keyring()).with_status("exported master keyring"))
}

pub(super) fn get_key(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = entity(call)?;
    let authority = authority(mon)?;
    let entry = authority.keyring().entries.get(&name);
    Ok(show_key(call, entry.ok_or_else(|| Refusal::missing(format!("don't have {name}")))?))
}

/// Finds somebody, who must be what is wanted, or adds him.
fn found_or_created(mon: &Mon, call: &Call<'_>) -> Result<(AuthName, Entry), Refusal> {
    let (name, wanted) = (entity(call)?, wanted_caps(call)?);
    let mut authority = authority(mon)?;
    if let Some(entry) = authority.keyring().entries.get(&name) {
        let other = wanted.iter().find(|(service, text)| entry.caps.get(*service) != Some(text));
        return match other {
            Some((service, _)) => {
                Err(Refusal::invalid(format!("key for {name} exists but cap {service} does not match")))
            }
            None => Ok((name, entry.clone())),
        };
    }
    check_room(&authority, &name)?;
    let entry = authority.create(call.now, name.clone(), wanted, cipher(call)).clone();
    Ok((name, entry))
}

pub(super) fn get_or_create(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, entry) = found_or_created(mon, call)?;
    let described = json!([describe(&name, &entry)]);
    // The keyring of a user has the key alone.
    let mine = Keyring { entries: [(name, Entry { caps: Caps::new(), ..entry })].into() };
    Ok(call.show(&described, mine.to_text().as_str()))
}

pub(super) fn get_or_create_key(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    Ok(show_key(call, &found_or_created(mon, call)?.1))
}

pub(super) fn add(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, mut caps) = (entity(call)?, wanted_caps(call)?);
    let mut authority = authority(mon)?;
    let given = input_keyring(call)?.map(|mut keyring| {
        let missing = || Refusal::invalid(format!("key for {name} not found in provided keyring"));
        keyring.entries.remove(&name).ok_or_else(missing)
    });
    let given = given.transpose()?;
    if let Some(given) = &given {
        if !caps.is_empty() && !given.caps.is_empty() {
            return Err(Refusal::invalid("caps cannot be specified both in keyring and in command"));
        }
        if caps.is_empty() {
            caps.clone_from(&given.caps);
            check_caps(&caps)?;
        }
    }
    if let Some(there) = authority.keyring().entries.get(&name) {
        if given.as_ref().is_some_and(|given| given.key != there.key) {
            let text = format!("entity {name} exists but key does not match");
            return Err(Refusal::new(EEXIST, text));
        }
        if caps != there.caps {
            return Err(Refusal::invalid(format!("entity {name} exists but caps do not match")));
        }
        return Ok(Reply::default());
    }
    let status = format!("added key for {name}");
    match given {
        Some(given) => insert(&mut authority, name, Entry { caps, ..given })?,
        None => {
            check_room(&authority, &name)?;
            authority.create(call.now, name, caps, cipher(call));
        }
    }
    Ok(Reply::done(status))
}

pub(super) fn set_caps(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, caps) = (entity(call)?, wanted_caps(call)?);
    let mut authority = authority(mon)?;
    let missing = || Refusal::missing(format!("couldn't find entry {name}"));
    let key = authority.keyring().entries.get(&name).ok_or_else(missing)?.key.clone();
    let status = format!("updated caps for {name}");
    authority.insert(name, Entry { key, caps });
    Ok(Reply::done(status))
}

pub(super) fn import(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let keyring = input_keyring(call)?.ok_or_else(|| Refusal::invalid("auth import: no data supplied"))?;
    let mut authority = authority(mon)?;
    // All or nothing.
    for (name, entry) in &keyring.entries {
        if entry.caps.is_empty() {
            return Err(Refusal::invalid("auth import: no caps supplied"));
        }
        check_caps(&entry.caps)?;
        check_room(&authority, name)?;
    }
    keyring.entries.into_iter().try_for_each(|(name, entry)| insert(&mut authority, name, entry))?;
    Ok(Reply::done("imported keyring"))
}

/// Gives somebody another key. Tickets that were given for the old one stay good for their time.
pub(super) fn rotate(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = entity(call)?;
    let cipher = cipher(call);
    let mut authority = authority(mon)?;
    let missing = || Refusal::missing(format!("failed to find {name} in keyring"));
    let caps = authority.keyring().entries.get(&name).ok_or_else(missing)?.caps.clone();
    let entry = authority.create(call.now, name.clone(), caps, cipher).clone();
    let status = format!("rotated key for {name}");
    Ok(show_keyring(call, &Keyring { entries: [(name, entry)].into() }).with_status(status))
}

pub(super) fn remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = entity(call)?;
    let removed = authority(mon)?.remove(&name);
    Ok(Reply::done(if removed { "updated".into() } else { format!("entity {name} does not exist") }))
}
