//! Encoding of a CRUSH map.
//!
//! Source: ceph `src/crush/CrushWrapper.cc`, `encode`, `decode` and `decode_crush_bucket`; `src/crush/builder.c`,
//! `crush_finalize`. There is no version: later additions are at the end, and may be missing.

use super::bucket::{Bucket, Weights};
use super::choose_args::{ChooseArg, ChooseArgs};
use super::map::{CrushMap, device_bound};
use super::rule::{Rule, Step, StepOp};
use super::tunables::{MsrTunables, Tunables};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

const MAGIC: u32 = 0x0001_0000;

/// Maximum depth of a hierarchy. Ceph's own limit, which is not enforced, is 10.
const MAX_DEPTH: u32 = 64;

impl Decode for CrushMap {
    /// Decodes a map that extends to the end of `r`.
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let magic = r.u32("crush magic")?;
        if magic != MAGIC {
            return Err(DecodeError::Invalid { what: "crush magic", value: magic.into() });
        }
        let max_buckets = r.i32("crush max_buckets")?;
        let max_rules = r.u32("crush max_rules")?;
        let max_devices = r.i32("crush max_devices")?;
        let max_buckets = bounded(i64::from(max_buckets), r, "crush max_buckets")?;
        let buckets: Vec<_> = (0..max_buckets).map(|at| decode_bucket(r, at)).collect::<Decoded<_>>()?;
        check_hierarchy(&buckets)?;
        let max_rules = bounded(i64::from(max_rules), r, "crush max_rules")?;
        let rules = (0..max_rules).map(|_| decode_rule(r)).collect::<Decoded<_>>()?;
        let mut map = Self {
            // An encoding from before the removal of devices still counts them.
            max_devices: max_devices.max(device_bound(&buckets)),
            buckets,
            rules,
            type_names: Decode::decode(r)?,
            item_names: Decode::decode(r)?,
            rule_names: Decode::decode(r)?,
            tunables: decode_tunables(r)?,
            classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            class_buckets: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        };
        if !r.is_empty() {
            map.classes = Decode::decode(r)?;
            map.class_names = Decode::decode(r)?;
            map.class_buckets = Decode::decode(r)?;
        }
        if !r.is_empty() {
            for _ in 0..r.count(12, "crush choose_args")? {
                let pool = r.i64("crush choose_args pool")?;
                map.choose_args.insert(pool, decode_choose_args(r, &map.buckets)?);
            }
        }
        if !r.is_empty() {
            map.tunables.msr = Some(MsrTunables {
                descents: r.u32("crush msr_descents")?,
                collision_tries: r.u32("crush msr_collision_tries")?,
            });
        }
        Ok(map)
    }
}

/// Checks a count of elements that take at least 4 bytes each.
fn bounded(count: i64, r: &Reader<'_>, what: &'static str) -> Decoded<usize> {
    let bound = r.left() / 4;
    match usize::try_from(count) {
        Ok(count) if count <= bound => Ok(count),
        Ok(count) => Err(DecodeError::OverBound { what, value: count as u64, bound: bound as u64 }),
        Err(_) => Err(DecodeError::Invalid { what, value: count as u64 }),
    }
}

fn decode_bucket(r: &mut Reader<'_>, at: usize) -> Decoded<Option<Bucket>> {
    let algorithm = r.u32("crush bucket algorithm")?;
    if algorithm == 0 {
        return Ok(None);
    }
    let id = r.i32("crush bucket id")?;
    if i64::from(id) != -1 - at as i64 {
        return Err(DecodeError::Invalid { what: "crush bucket id", value: id as u32 as u64 });
    }
    let kind = r.u16("crush bucket type")?;
    let again = r.u8("crush bucket algorithm")?;
    if u32::from(again) != algorithm {
        return Err(DecodeError::Invalid { what: "crush bucket algorithm", value: again.into() });
    }
    let hash = r.u8("crush bucket hash")?;
    let weight = r.u32("crush bucket weight")?;
    let items: Vec<i32> = Decode::decode(r)?;
    let n = items.len();
    let weights = match again {
        1 => Weights::Uniform { item: r.u32("crush item weight")? },
        2 => {
            let (items, sums) = decode_pairs(r, n)?;
            Weights::List { items, sums }
        }
        3 => {
            let nodes = r.u8("crush bucket nodes")?;
            Weights::Tree { nodes: decode_words(r, nodes.into())? }
        }
        4 => {
            let (items, straws) = decode_pairs(r, n)?;
            Weights::Straw { items, straws }
        }
        5 => Weights::Straw2 { items: decode_words(r, n)? },
        _ => return Err(DecodeError::Invalid { what: "crush bucket algorithm", value: again.into() }),
    };
    Ok(Some(Bucket { id, kind, hash, weight, items, weights }))
}

fn decode_words(r: &mut Reader<'_>, n: usize) -> Decoded<Vec<u32>> {
    let (words, _) = r.take(4 * n, "crush weights")?.as_chunks();
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

fn decode_pairs(r: &mut Reader<'_>, n: usize) -> Decoded<(Vec<u32>, Vec<u32>)> {
    let words = decode_words(r, 2 * n)?;
    Ok(words.as_chunks().0.iter().map(|&[first, second]| (first, second)).unzip())
}

fn decode_rule(r: &mut Reader<'_>) -> Decoded<Option<Rule>> {
    if r.u32("crush rule")? == 0 {
        return Ok(None);
    }
    // The count is before the mask, the steps are after it.
    let steps = r.u32("crush rule steps")?;
    let [ruleset, kind, min_size, max_size] = r.array("crush rule mask")?;
    let bound = (r.left() / 12) as u64;
    if u64::from(steps) > bound {
        return Err(DecodeError::OverBound { what: "crush rule steps", value: steps.into(), bound });
    }
    let steps = (0..steps)
        .map(|_| {
            Ok(Step {
                op: StepOp(r.u32("crush step op")?),
                arg1: r.i32("crush step argument")?,
                arg2: r.i32("crush step argument")?,
            })
        })
        .collect::<Decoded<_>>()?;
    Ok(Some(Rule { ruleset, kind, min_size, max_size, steps }))
}

fn decode_tunables(r: &mut Reader<'_>) -> Decoded<Tunables> {
    const WHAT: &str = "crush tunables";
    let mut tunables = Tunables::LEGACY;
    if !r.is_empty() {
        tunables.choose_local_tries = r.u32(WHAT)?;
        tunables.choose_local_fallback_tries = r.u32(WHAT)?;
        tunables.choose_total_tries = r.u32(WHAT)?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_descend_once = r.u32(WHAT)?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_vary_r = r.u8(WHAT)?;
    }
    if !r.is_empty() {
        tunables.straw_calc_version = r.u8(WHAT)?;
    }
    if !r.is_empty() {
        tunables.allowed_bucket_algs = r.u32(WHAT)?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_stable = r.u8(WHAT)?;
    }
    Ok(tunables)
}

/// Decodes a set of alternatives, and adjusts it to the buckets like peers (`CrushWrapper::update_choose_args`).
fn decode_choose_args(r: &mut Reader<'_>, buckets: &[Option<Bucket>]) -> Decoded<ChooseArgs> {
    let mut args = ChooseArgs::new();
    for _ in 0..r.count(12, "crush choose_args buckets")? {
        let at = r.u32("crush choose_args bucket")?;
        let Some(slot) = buckets.get(at as usize) else {
            return Err(DecodeError::Invalid { what: "crush choose_args bucket", value: at.into() });
        };
        let mut arg = ChooseArg::default();
        for _ in 0..r.count(4, "crush weight_set positions")? {
            let n = r.count(4, "crush weight_set")?;
            arg.weight_set.push(decode_words(r, n)?);
        }
        arg.ids = Decode::decode(r)?;
        let Some(Bucket { items, weights: Weights::Straw2 { .. }, .. }) = slot else { continue };
        if !arg.ids.is_empty() && arg.ids.len() != items.len() {
            return Err(DecodeError::Invalid { what: "crush choose_args ids", value: arg.ids.len() as u64 });
        }
        for weights in &mut arg.weight_set {
            weights.resize(items.len(), 0);
        }
        if arg != ChooseArg::default() {
            args.insert(at, arg);
        }
    }
    Ok(args)
}

/// Rejects cyclic hierarchies, and those too deep for recursion.
fn check_hierarchy(buckets: &[Option<Bucket>]) -> Decoded<()> {
    let at = |item: i32| Some(!item as u32 as usize).filter(|&at| item < 0 && at < buckets.len());
    let children = |bucket: usize| buckets[bucket].iter().flat_map(|b| &b.items).filter_map(|&item| at(item));
    let mut parents = vec![0u32; buckets.len()];
    (0..buckets.len()).flat_map(children).for_each(|child| parents[child] += 1);
    // In this order, parents precede their children; buckets on or below a cycle are never added.
    let mut order: Vec<usize> = (0..buckets.len()).filter(|&bucket| parents[bucket] == 0).collect();
    let mut depth = vec![1u32; buckets.len()];
    let mut next = 0;
    while let Some(&bucket) = order.get(next) {
        next += 1;
        if depth[bucket] > MAX_DEPTH {
            return Err(DecodeError::OverBound {
                what: "crush hierarchy",
                value: depth[bucket].into(),
                bound: MAX_DEPTH.into(),
            });
        }
        for child in children(bucket) {
            depth[child] = depth[child].max(depth[bucket] + 1);
            parents[child] -= 1;
            if parents[child] == 0 {
                order.push(child);
            }
        }
    }
    match parents.iter().position(|&left| left > 0) {
        Some(at) => Err(DecodeError::Invalid { what: "crush bucket cycle, at index", value: at as u64 }),
        None => Ok(()),
    }
}

impl Encode for CrushMap {
    fn encode(&self, w: &mut Writer) {
        w.u32(MAGIC);
        w.count(self.buckets.len());
        w.count(self.rules.len());
        w.i32(self.max_devices);
        for bucket in &self.buckets {
            match bucket {
                Some(bucket) => encode_bucket(w, bucket),
                None => w.u32(0),
            }
        }
        for rule in &self.rules {
            match rule {
                Some(rule) => encode_rule(w, rule),
                None => w.u32(0),
            }
        }
        self.type_names.encode(w);
        self.item_names.encode(w);
        self.rule_names.encode(w);
        let tunables = &self.tunables;
        w.u32(tunables.choose_local_tries);
        w.u32(tunables.choose_local_fallback_tries);
        w.u32(tunables.choose_total_tries);
        w.u32(tunables.chooseleaf_descend_once);
        w.u8(tunables.chooseleaf_vary_r);
        w.u8(tunables.straw_calc_version);
        w.u32(tunables.allowed_bucket_algs);
        w.u8(tunables.chooseleaf_stable);
        self.classes.encode(w);
        self.class_names.encode(w);
        self.class_buckets.encode(w);
        w.count(self.choose_args.len());
        for (&pool, args) in &self.choose_args {
            w.i64(pool);
            w.count(args.len());
            for (&at, arg) in args {
                w.u32(at);
                arg.weight_set.encode(w);
                arg.ids.encode(w);
            }
        }
        if let Some(msr) = tunables.msr {
            w.u32(msr.descents);
            w.u32(msr.collision_tries);
        }
    }
}

fn encode_bucket(w: &mut Writer, bucket: &Bucket) {
    let algorithm = bucket.weights.algorithm();
    w.u32(algorithm.into());
    w.i32(bucket.id);
    w.u16(bucket.kind);
    w.u8(algorithm);
    w.u8(bucket.hash);
    w.u32(bucket.weight);
    bucket.items.encode(w);
    match &bucket.weights {
        Weights::Uniform { item } => w.u32(*item),
        Weights::Tree { nodes } => {
            // The count is a byte on the wire, which is too small for the tree of 128 or more items.
            let nodes = &nodes[..nodes.len().min(u8::MAX.into())];
            w.u8(nodes.len() as u8);
            nodes.iter().for_each(|&weight| w.u32(weight));
        }
        Weights::Straw2 { items } => items.iter().for_each(|&weight| w.u32(weight)),
        Weights::List { items: first, sums: second } | Weights::Straw { items: first, straws: second } => {
            for (&first, &second) in first.iter().zip(second) {
                w.u32(first);
                w.u32(second);
            }
        }
    }
}

fn encode_rule(w: &mut Writer, rule: &Rule) {
    w.u32(1);
    w.count(rule.steps.len());
    w.put(&[rule.ruleset, rule.kind, rule.min_size, rule.max_size]);
    for step in &rule.steps {
        w.u32(step.op.0);
        w.i32(step.arg1);
        w.i32(step.arg2);
    }
}
