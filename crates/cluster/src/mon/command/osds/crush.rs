//! The CRUSH map: how objects are spread over the OSDs.
//!
//! Source: ceph `src/crush/CrushWrapper.cc` (`dump`), `src/crush/CrushTreeDumper.h`.

use super::osd::map_at;
use crate::mon::command::call::{Call, CommandOutcome};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use crate::mon::text::{Left, Right, Table};
use onego_ceph::crush::{Bucket, CrushMap, Rule, StepOp, WEIGHT_ONE};
use serde_json::{Map, Value, json};

fn name(crush: &CrushMap, item: i32) -> &str {
    crush.item_names.get(&item).map(String::as_str).unwrap_or_default()
}

fn kind_name(crush: &CrushMap, kind: i32) -> &str {
    crush.type_names.get(&kind).map(String::as_str).unwrap_or_default()
}

/// An item of the hierarchy and how deep it is, parents first.
struct Node<'a> {
    item: i32,
    depth: usize,
    weight: u32,
    bucket: Option<&'a Bucket>,
}

fn nodes(crush: &CrushMap) -> Vec<Node<'_>> {
    let buckets = || crush.buckets.iter().flatten();
    let is_root = |bucket: &&Bucket| !buckets().any(|other| other.items.contains(&bucket.id));
    let mut nodes = Vec::new();
    for root in buckets().filter(is_root) {
        add(crush, root.id, 0, root.weight, &mut nodes);
    }
    nodes
}

fn add<'a>(crush: &'a CrushMap, item: i32, depth: usize, weight: u32, nodes: &mut Vec<Node<'a>>) {
    let bucket = crush.bucket(item);
    nodes.push(Node { item, depth, weight, bucket });
    for (at, &child) in bucket.iter().flat_map(|bucket| bucket.items.iter().enumerate()) {
        let weight = bucket.and_then(|bucket| bucket.weights.item(at)).unwrap_or(0);
        add(crush, child, depth + 1, weight, nodes);
    }
}

fn weight(value: u32) -> f64 {
    f64::from(value) / f64::from(WEIGHT_ONE)
}

fn node_json(crush: &CrushMap, node: &Node<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    let kind = node.bucket.map_or(0, |bucket| i32::from(bucket.kind));
    fields.insert("id".into(), node.item.into());
    fields.insert("name".into(), name(crush, node.item).into());
    fields.insert("type".into(), kind_name(crush, kind).into());
    fields.insert("type_id".into(), kind.into());
    match node.bucket {
        Some(bucket) => drop(fields.insert("children".into(), bucket.items.clone().into())),
        None => {
            fields.insert("crush_weight".into(), weight(node.weight).into());
            fields.insert("depth".into(), node.depth.into());
            fields.insert("pool_weights".into(), json!({}));
        }
    }
    fields
}

/// The name as a tree shows it: behind its type, a step to the right for each level.
fn node_label(crush: &CrushMap, node: &Node<'_>) -> String {
    let kind = node.bucket.map(|bucket| format!("{} ", kind_name(crush, bucket.kind.into())));
    format!("{}{}{}", "    ".repeat(node.depth), kind.unwrap_or_default(), name(crush, node.item))
}

pub(crate) fn osd_tree(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let map = map_at(mon, call)?;
    let crush = &map.crush;
    let mut table = Table::new(&[
        ("ID", Left, Right),
        ("CLASS", Left, Right),
        ("WEIGHT", Left, Right),
        ("TYPE NAME", Left, Left),
        ("STATUS", Left, Right),
        ("REWEIGHT", Left, Right),
        ("PRI-AFF", Left, Right),
    ]);
    let mut list = Vec::new();
    for node in nodes(crush) {
        let mut fields = node_json(crush, &node);
        let mut row = vec![node.item.to_string(), String::new(), format!("{:.5}", weight(node.weight))];
        row.push(node_label(crush, &node));
        if node.bucket.is_none() {
            let up = if map.is_up(node.item) { "up" } else { "down" };
            let share = map.osd_weight.get(node.item as usize).copied().unwrap_or(0);
            fields.insert("exists".into(), 1.into());
            fields.insert("status".into(), up.into());
            fields.insert("reweight".into(), weight(share).into());
            let affinity = map.osd_primary_affinity.get(node.item as usize).copied();
            let affinity = weight(affinity.unwrap_or(WEIGHT_ONE));
            fields.insert("primary_affinity".into(), affinity.into());
            // Nothing is shown as such (ceph `src/include/types.h`, `weightf_t`).
            let reweight = if share == 0 { "0".to_owned() } else { format!("{:.5}", weight(share)) };
            row.extend([up.to_owned(), reweight, format!("{affinity:.5}")]);
        }
        list.push(Value::Object(fields));
        table.row(row);
    }
    Ok(call.show(&json!({"nodes": list, "stray": []}), table.render()))
}

pub(crate) fn crush_tree(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let crush = &mon.osdmap().crush;
    let columns =
        [("ID", Left, Right), ("CLASS", Left, Right), ("WEIGHT", Left, Right), ("TYPE NAME", Left, Left)];
    let mut table = Table::new(&columns);
    for node in nodes(crush) {
        let weight = format!("{:.5}", weight(node.weight));
        table.row([node.item.to_string(), String::new(), weight, node_label(crush, &node)]);
    }
    let list: Vec<Value> = nodes(crush).iter().map(|node| Value::Object(node_json(crush, node))).collect();
    Ok(call.show(&json!({"nodes": list, "stray": []}), table.render()))
}

pub(crate) fn class_list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let names: Vec<Value> =
        mon.osdmap().crush.class_names.values().map(|name| name.as_str().into()).collect();
    Ok(call.show_json(&names.into()))
}

/// The rules with their numbers and names.
fn rules(crush: &CrushMap) -> impl Iterator<Item = (usize, &str, &Rule)> {
    crush.rules.iter().enumerate().filter_map(|(number, rule)| {
        let name = crush.rule_names.get(&(number as i32)).map(String::as_str).unwrap_or_default();
        Some((number, name, rule.as_ref()?))
    })
}

fn rule_json(crush: &CrushMap, number: usize, rule_name: &str, rule: &Rule) -> Value {
    let steps: Vec<Value> = rule
        .steps
        .iter()
        .map(|step| match step.op {
            StepOp::TAKE => json!({"op": "take", "item": step.arg1, "item_name": name(crush, step.arg1)}),
            StepOp::EMIT => json!({"op": "emit"}),
            StepOp::CHOOSE_FIRSTN => {
                json!({"op": "choose_firstn", "num": step.arg1, "type": kind_name(crush, step.arg2)})
            }
            StepOp::CHOOSELEAF_FIRSTN => {
                json!({"op": "chooseleaf_firstn", "num": step.arg1, "type": kind_name(crush, step.arg2)})
            }
            other => json!({"opcode": other.0, "arg1": step.arg1, "arg2": step.arg2}),
        })
        .collect();
    json!({
        "rule_id": number,
        "rule_name": rule_name,
        "ruleset": rule.ruleset,
        "type": rule.kind,
        "min_size": rule.min_size,
        "max_size": rule.max_size,
        "steps": steps,
    })
}

fn rules_json(crush: &CrushMap) -> Vec<Value> {
    rules(crush).map(|(number, name, rule)| rule_json(crush, number, name, rule)).collect()
}

pub(crate) fn rule_list(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let names: Vec<&str> = rules(&mon.osdmap().crush).map(|(_, name, _)| name).collect();
    let plain: String = names.iter().map(|name| format!("{name}\n")).collect();
    Ok(call.show(&json!(names), plain))
}

pub(crate) fn rule_dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let crush = &mon.osdmap().crush;
    let Some(wanted) = call.get("name") else {
        return Ok(call.show_json(&rules_json(crush).into()));
    };
    match rules(crush).find(|(_, name, _)| *name == wanted) {
        Some((number, name, rule)) => Ok(call.show_json(&rule_json(crush, number, name, rule))),
        None => Err(Refusal::missing(format!("unknown crush rule '{wanted}'"))),
    }
}

pub(crate) fn dump(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let crush = &mon.osdmap().crush;
    let devices: Vec<Value> =
        (0..crush.max_devices).map(|id| json!({"id": id, "name": name(crush, id)})).collect();
    let types: Vec<Value> =
        crush.type_names.iter().map(|(id, name)| json!({"type_id": id, "name": name})).collect();
    let buckets: Vec<Value> =
        crush.buckets.iter().flatten().map(|bucket| bucket_json(crush, bucket)).collect();
    let tunables = &crush.tunables;
    Ok(call.show_json(&json!({
        "devices": devices,
        "types": types,
        "buckets": buckets,
        "rules": rules_json(crush),
        "tunables": {
            "choose_local_tries": tunables.choose_local_tries,
            "choose_local_fallback_tries": tunables.choose_local_fallback_tries,
            "choose_total_tries": tunables.choose_total_tries,
            "chooseleaf_descend_once": tunables.chooseleaf_descend_once,
            "chooseleaf_vary_r": tunables.chooseleaf_vary_r,
            "chooseleaf_stable": tunables.chooseleaf_stable,
            "straw_calc_version": tunables.straw_calc_version,
            "allowed_bucket_algs": tunables.allowed_bucket_algs,
            "profile": "jewel",
            "optimal_tunables": 1,
            "legacy_tunables": 0,
            "minimum_required_version": "jewel",
        },
        "choose_args": {},
    })))
}

fn bucket_json(crush: &CrushMap, bucket: &Bucket) -> Value {
    let items: Vec<Value> = bucket
        .items
        .iter()
        .enumerate()
        .map(|(at, item)| json!({"id": item, "weight": bucket.weights.item(at).unwrap_or(0), "pos": at}))
        .collect();
    json!({
        "id": bucket.id,
        "name": name(crush, bucket.id),
        "type_id": bucket.kind,
        "type_name": kind_name(crush, bucket.kind.into()),
        "weight": bucket.weight,
        "alg": "straw2",
        "hash": "rjenkins1",
        "items": items,
    })
}
