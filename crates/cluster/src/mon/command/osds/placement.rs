//! Commands that say where objects go: changes of the CRUSH map, groups that are placed by hand, and who serves first.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd crush ...", "osd pg-upmap ...", "osd primary-affinity").

use super::osd::find_osd;
use crate::errno::{EBUSY, EEXIST, EINVAL, ENOENT, ENOTEMPTY, EOPNOTSUPP};
use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use onego_ceph::crush::{CrushMap, EditError, Location, WEIGHT_ONE};
use onego_ceph::types::PgId;
use onego_msgr::encoding::Encode as _;
use std::collections::BTreeSet;

/// The largest weight: what ten thousand terabytes weigh. Sums of them fit a map.
const MAX_WEIGHT: f64 = 10_000.0;

/// Primary affinity 1.
const AFFINITY_ONE: f64 = 65_536.0;

impl From<EditError> for Refusal {
    fn from(error: EditError) -> Self {
        let errno = match error {
            EditError::NoItem(_) | EditError::NoRule(_) | EditError::NoType(_) => ENOENT,
            EditError::Exists(_) => EEXIST,
            EditError::InUse(_) => EBUSY,
            EditError::NotEmpty(_) => ENOTEMPTY,
            EditError::OtherAlgorithm(_) => EOPNOTSUPP,
            _ => EINVAL,
        };
        Self::new(errno, error.to_string())
    }
}

/// Makes a map of the OSDs with another CRUSH map, unless that is the same.
fn edit<T>(
    mon: &mut Mon,
    call: &Call<'_>,
    change_it: impl FnOnce(&mut CrushMap) -> Result<T, EditError>,
) -> Result<T, Refusal> {
    let before = &mon.osdmap().crush;
    let mut crush = CrushMap::clone(before);
    let done = change_it(&mut crush)?;
    if crush != **before {
        crush.finalize();
        let mut change = mon.maps.change(call.now);
        change.crush = crush.to_bytes();
        mon.commit(change);
    }
    Ok(done)
}

/// A weight as a map has it.
fn weight(call: &Call<'_>) -> Result<u32, Refusal> {
    let weight = call.float("weight").unwrap_or_default();
    if !(0.0..=MAX_WEIGHT).contains(&weight) {
        return Err(Refusal::invalid(format!("a weight is from 0 to {MAX_WEIGHT}, not {weight}")));
    }
    Ok((weight * f64::from(WEIGHT_ONE)) as u32)
}

/// Where something is to be: words like "root=default".
fn location(call: &Call<'_>) -> Result<Location, Refusal> {
    let words = call.list("args");
    let pairs = words.iter().flat_map(|words| words.split_whitespace()).map(|word| {
        let pair = word.split_once('=').filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
        let (kind, name) =
            pair.ok_or_else(|| Refusal::invalid(format!("'{word}' is no place: TYPE=NAME is one")))?;
        Ok((kind.to_owned(), name.to_owned()))
    });
    pairs.collect()
}

fn shown(location: &Location) -> String {
    let parts: Vec<String> = location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", parts.join(","))
}

pub(crate) fn set(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (osd, weight, place) = (find_osd(mon, call.text("id"))?, weight(call)?, location(call)?);
    edit(mon, call, |crush| crush.set(osd, weight, &place))?;
    Ok(Reply::done(format!(
        "set item id {osd} name 'osd.{osd}' weight {weight:#x} at location {}",
        shown(&place)
    )))
}

/// Puts an OSD there, with that weight if it was nowhere.
pub(crate) fn create_or_move(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (osd, weight, place) = (find_osd(mon, call.text("id"))?, weight(call)?, location(call)?);
    let name = format!("osd.{osd}");
    let is_there = !mon.osdmap().crush.location(osd).is_empty();
    edit(
        mon,
        call,
        |crush| {
            if is_there { crush.move_item(&name, &place) } else { crush.set(osd, weight, &place) }
        },
    )?;
    Ok(Reply::done(format!("create-or-move updating item name '{name}' to location {}", shown(&place))))
}

pub(crate) fn move_item(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, place) = (call.text("name"), location(call)?);
    edit(mon, call, |crush| crush.move_item(name, &place))?;
    Ok(Reply::done(format!("moved item '{name}' to location {}", shown(&place))))
}

pub(crate) fn remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = call.text("name");
    if mon.osdmap().crush.item_id(name).is_none() {
        return Ok(Reply::done(format!("item '{name}' does not appear in the crush map")));
    }
    edit(mon, call, |crush| crush.remove_item(name))?;
    Ok(Reply::done(format!("removed item '{name}' from crush map")))
}

pub(crate) fn reweight(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, weight) = (call.text("name"), weight(call)?);
    edit(mon, call, |crush| crush.reweight(name, weight))?;
    Ok(Reply::done(format!("reweighted item '{name}' to {}", f64::from(weight) / f64::from(WEIGHT_ONE))))
}

pub(crate) fn reweight_subtree(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, weight) = (call.text("name"), weight(call)?);
    edit(mon, call, |crush| crush.reweight_subtree(name, weight))?;
    Ok(Reply::done(format!("reweighted subtree '{name}' to {}", f64::from(weight) / f64::from(WEIGHT_ONE))))
}

pub(crate) fn add_bucket(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (name, kind, place) = (call.text("name"), call.text("type"), location(call)?);
    let made = edit(mon, call, |crush| {
        crush.add_bucket(name, kind)?;
        if place.is_empty() { Ok(()) } else { crush.move_item(name, &place) }
    });
    match made {
        // Making what is there already is no failure.
        Err(refusal) if refusal.errno == EEXIST => Ok(Reply::done(refusal.text)),
        made => made.map(|()| Reply::done(format!("added bucket {name} type {kind} to crush map"))),
    }
}

pub(crate) fn rename_bucket(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (from, to) = (call.text("srcname"), call.text("dstname"));
    let crush = &mon.osdmap().crush;
    if crush.item_id(from).is_none() && crush.item_id(to).is_some_and(|item| item < 0) {
        // The client repeats a command whose reply was lost.
        return Ok(Reply::done(format!("bucket {from} does not exist; bucket {to} does: taken as renamed")));
    }
    edit(mon, call, |crush| crush.rename_bucket(from, to))?;
    Ok(Reply::done(format!("renamed bucket {from} into {to}")))
}

pub(crate) fn create_rule(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    if call.get("class").is_some_and(|class| !class.is_empty()) {
        return Err(Refusal::new(EOPNOTSUPP, crate::mon::command::refused::NO_CLASSES));
    }
    let (name, root, kind) = (call.text("name"), call.text("root"), call.text("type"));
    match edit(mon, call, |crush| crush.add_replicated_rule(name, root, kind)) {
        Err(refusal) if refusal.errno == EEXIST => Ok(Reply::done(format!("rule {name} already exists"))),
        made => made.map(|number| Reply::done(format!("made rule {number} '{name}'"))),
    }
}

pub(crate) fn remove_rule(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let name = call.text("name");
    let map = mon.osdmap();
    let Some(number) = map.crush.rule_id(name) else {
        return Ok(Reply::done(format!("rule {name} does not exist")));
    };
    if let Some((id, _)) = map.pools.iter().find(|(_, pool)| u32::from(pool.crush_rule) == number) {
        let pool = map.pool_names.get(id).map(String::as_str).unwrap_or_default();
        return Err(Refusal::new(EBUSY, format!("crush rule {name} is in use by pool '{pool}'")));
    }
    edit(mon, call, |crush| crush.remove_rule(name))?;
    Ok(Reply::done(format!("removed rule '{name}'")))
}

pub(crate) fn rename_rule(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (from, to) = (call.text("srcname"), call.text("dstname"));
    let crush = &mon.osdmap().crush;
    if crush.rule_id(from).is_none() && crush.rule_id(to).is_some() {
        return Ok(Reply::done(format!("rule '{from}' does not exist; rule '{to}' does: taken as renamed")));
    }
    edit(mon, call, |crush| crush.rename_rule(from, to))?;
    Ok(Reply::done(format!("renamed rule '{from}' to '{to}'")))
}

pub(crate) fn tunables(_: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    match call.text("profile") {
        // All three are what the map has from the start.
        profile @ ("optimal" | "default" | "jewel") => {
            Ok(Reply::done(format!("adjusted tunables profile to {profile}")))
        }
        profile => Err(Refusal::new(
            EOPNOTSUPP,
            format!("the embedded cluster has the tunables of profile 'jewel', and not those of '{profile}'"),
        )),
    }
}

pub(crate) fn primary_affinity(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (osd, share) = (find_osd(mon, call.text("id"))?, call.float("weight").unwrap_or(1.0));
    let affinity = (share * AFFINITY_ONE) as u32;
    let mut change = mon.maps.change(call.now);
    change.new_primary_affinity.insert(osd, affinity);
    mon.commit(change);
    Ok(Reply::done(format!("set osd.{osd} primary-affinity to {share} ({affinity:#x})")))
}

/// The group that the command names.
fn group(mon: &Mon, call: &Call<'_>) -> Result<PgId, Refusal> {
    let text = call.text("pgid");
    let pg: PgId = text.parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
    let exists = mon.osdmap().pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num);
    if exists { Ok(pg) } else { Err(Refusal::missing(format!("pg '{text}' does not exist"))) }
}

/// The OSDs that the command names.
fn osds(mon: &Mon, call: &Call<'_>) -> Result<Vec<i32>, Refusal> {
    let named: Result<Vec<i32>, _> = call.list("id").iter().map(|id| find_osd(mon, id)).collect();
    let named = named?;
    if named.is_empty() { Err(Refusal::invalid("the command names no OSD")) } else { Ok(named) }
}

fn check_different(osds: &[i32]) -> Result<(), Refusal> {
    if osds.iter().collect::<BTreeSet<_>>().len() == osds.len() {
        return Ok(());
    }
    Err(Refusal::invalid("an OSD is named twice"))
}

pub(crate) fn upmap(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pg, osds) = (group(mon, call)?, osds(mon, call)?);
    check_different(&osds)?;
    let pool = &mon.osdmap().pools[&pg.pool];
    if !(pool.min_size..=pool.size).contains(&u8::try_from(osds.len()).unwrap_or(u8::MAX)) {
        return Err(Refusal::invalid(format!(
            "{} OSDs are named, and the pool has from {} to {} copies",
            osds.len(),
            pool.min_size,
            pool.size
        )));
    }
    let mut change = mon.maps.change(call.now);
    change.new_pg_upmap.insert(pg, osds.clone());
    mon.commit(change);
    Ok(Reply::done(format!("set {pg} pg_upmap mapping to {osds:?}")))
}

pub(crate) fn upmap_items(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pg, osds) = (group(mon, call)?, osds(mon, call)?);
    if osds.len() % 2 != 0 {
        return Err(Refusal::invalid("OSDs are named in pairs: from which one, to which one"));
    }
    let pairs: Vec<(i32, i32)> = osds.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let [from, to] = [|pair: &(i32, i32)| pair.0, |pair: &(i32, i32)| pair.1]
        .map(|of| pairs.iter().map(of).collect::<Vec<_>>());
    check_different(&from)?;
    check_different(&to)?;
    if pairs.iter().any(|(from, to)| from == to) {
        return Err(Refusal::invalid("an OSD is to take its own place"));
    }
    let mut change = mon.maps.change(call.now);
    change.new_pg_upmap_items.insert(pg, pairs.clone());
    mon.commit(change);
    let pairs: Vec<String> = pairs.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    Ok(Reply::done(format!("set {pg} pg_upmap_items mapping to [{}]", pairs.join(","))))
}

pub(crate) fn remove_upmap(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let pg = group(mon, call)?;
    if mon.osdmap().pg_upmap.contains_key(&pg) {
        let mut change = mon.maps.change(call.now);
        change.old_pg_upmap.insert(pg);
        mon.commit(change);
    }
    Ok(Reply::done(format!("clear {pg} pg_upmap mapping")))
}

pub(crate) fn remove_upmap_items(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let pg = group(mon, call)?;
    if mon.osdmap().pg_upmap_items.contains_key(&pg) {
        let mut change = mon.maps.change(call.now);
        change.old_pg_upmap_items.insert(pg);
        mon.commit(change);
    }
    Ok(Reply::done(format!("clear {pg} pg_upmap_items mapping")))
}
