//! Formats a map in crushtool's language, like `crushtool -d` except for comments and layout.

use std::collections::BTreeSet;

use onego_ceph::crush::{Bucket, ChooseArgs, CrushMap, Rule, Step, StepOp, Tunables, Weights};

/// Returns the lines of a text without comments, blank lines and surplus space.
pub(crate) fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap().split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

pub(crate) fn decompile(map: &CrushMap) -> Vec<String> {
    let mut out = tunables(&map.tunables);
    for device in 0..map.max_devices {
        if let Some(name) = map.item_names.get(&device) {
            let class = map.classes.get(&device).map(|class| format!(" class {}", map.class_names[class]));
            out.push(format!("device {device} {name}{}", class.unwrap_or_default()));
        }
    }
    out.extend(map.type_names.iter().map(|(id, name)| format!("type {id} {name}")));
    let mut written = BTreeSet::new();
    for bucket in map.buckets.iter().flatten() {
        // The name of a shadow is not stored: it is that of its bucket, "~", and that of the class.
        if !map.item_names[&bucket.id].contains('~') {
            decompile_tree(map, bucket, &mut written, &mut out);
        }
    }
    for (number, rule) in map.rules.iter().enumerate() {
        if let Some(rule) = rule {
            out.extend(decompile_rule(map, number, rule));
        }
    }
    for (pool, args) in &map.choose_args {
        out.push(format!("choose_args {pool} {{"));
        out.extend(choose_args(args));
        out.push("}".to_owned());
    }
    out
}

fn tunables(of: &Tunables) -> Vec<String> {
    let legacy = Tunables::LEGACY;
    [
        ("choose_local_tries", of.choose_local_tries, legacy.choose_local_tries),
        ("choose_local_fallback_tries", of.choose_local_fallback_tries, legacy.choose_local_fallback_tries),
        ("choose_total_tries", of.choose_total_tries, legacy.choose_total_tries),
        ("chooseleaf_descend_once", of.chooseleaf_descend_once, legacy.chooseleaf_descend_once),
        ("chooseleaf_vary_r", of.chooseleaf_vary_r.into(), legacy.chooseleaf_vary_r.into()),
        ("chooseleaf_stable", of.chooseleaf_stable.into(), legacy.chooseleaf_stable.into()),
        ("straw_calc_version", of.straw_calc_version.into(), legacy.straw_calc_version.into()),
        ("allowed_bucket_algs", of.allowed_bucket_algs, legacy.allowed_bucket_algs),
    ]
    .iter()
    .filter(|(_, value, legacy)| value != legacy)
    .map(|(name, value, _)| format!("tunable {name} {value}"))
    .collect()
}

fn decompile_tree(map: &CrushMap, bucket: &Bucket, written: &mut BTreeSet<i32>, out: &mut Vec<String>) {
    if written.insert(bucket.id) {
        for child in bucket.items.iter().filter_map(|&item| map.bucket(item)) {
            decompile_tree(map, child, written, out);
        }
        out.extend(decompile_bucket(map, bucket));
    }
}

fn decompile_bucket(map: &CrushMap, bucket: &Bucket) -> Vec<String> {
    let name = &map.item_names[&bucket.id];
    let mut out = vec![format!("{} {name} {{", map.type_names[&bucket.kind.into()])];
    out.push(format!("id {}", bucket.id));
    for (class, shadow) in map.class_buckets.get(&bucket.id).into_iter().flatten() {
        out.push(format!("id {shadow} class {}", map.class_names[class]));
    }
    let (algorithm, positions) = match bucket.weights {
        Weights::Uniform { .. } => ("uniform", true),
        Weights::List { .. } => ("list", false),
        Weights::Tree { .. } => ("tree", true),
        Weights::Straw { .. } => ("straw", false),
        Weights::Straw2 { .. } => ("straw2", false),
    };
    out.push(format!("alg {algorithm}"));
    out.push(format!("hash {}", bucket.hash));
    for (at, item) in bucket.items.iter().enumerate() {
        let position = if positions { format!(" pos {at}") } else { String::new() };
        let weight = fixed(bucket.weights.item(at).unwrap());
        out.push(format!("item {} weight {weight}{position}", map.item_names[item]));
    }
    out.push("}".to_owned());
    out
}

fn decompile_rule(map: &CrushMap, number: usize, rule: &Rule) -> Vec<String> {
    let kind = if rule.kind == Rule::ERASURE { "erasure" } else { "replicated" };
    let mut out = vec![
        format!("rule {} {{", map.rule_names[&(number as i32)]),
        format!("id {}", rule.ruleset),
        format!("type {kind}"),
        format!("min_size {}", rule.min_size),
        format!("max_size {}", rule.max_size),
    ];
    out.extend(rule.steps.iter().map(|&step| format!("step {}", decompile_step(map, step))));
    out.push("}".to_owned());
    out
}

fn decompile_step(map: &CrushMap, Step { op, arg1, arg2 }: Step) -> String {
    let choose = |how: &str| format!("{how} {arg1} type {}", map.type_names[&arg2]);
    match op {
        StepOp::TAKE => format!("take {}", map.item_names[&arg1].replace('~', " class ")),
        StepOp::EMIT => "emit".to_owned(),
        StepOp::CHOOSE_FIRSTN => choose("choose firstn"),
        StepOp::CHOOSE_INDEP => choose("choose indep"),
        StepOp::CHOOSELEAF_FIRSTN => choose("chooseleaf firstn"),
        StepOp::CHOOSELEAF_INDEP => choose("chooseleaf indep"),
        StepOp::SET_CHOOSE_TRIES => format!("set_choose_tries {arg1}"),
        StepOp::SET_CHOOSELEAF_TRIES => format!("set_chooseleaf_tries {arg1}"),
        StepOp::SET_CHOOSE_LOCAL_TRIES => format!("set_choose_local_tries {arg1}"),
        StepOp::SET_CHOOSE_LOCAL_FALLBACK_TRIES => format!("set_choose_local_fallback_tries {arg1}"),
        StepOp::SET_CHOOSELEAF_VARY_R => format!("set_chooseleaf_vary_r {arg1}"),
        StepOp::SET_CHOOSELEAF_STABLE => format!("set_chooseleaf_stable {arg1}"),
        other => format!("unknown {other:?}"),
    }
}

fn choose_args(args: &ChooseArgs) -> Vec<String> {
    let mut out = Vec::new();
    for (&at, arg) in args {
        out.push("{".to_owned());
        out.push(format!("bucket_id {}", -1 - at as i32));
        if !arg.weight_set.is_empty() {
            out.push("weight_set [".to_owned());
            for weights in &arg.weight_set {
                let weights: Vec<_> = weights.iter().map(|&weight| fixed(weight)).collect();
                out.push(format!("[ {} ]", weights.join(" ")));
            }
            out.push("]".to_owned());
        }
        if !arg.ids.is_empty() {
            let ids: Vec<_> = arg.ids.iter().map(i32::to_string).collect();
            out.push(format!("ids [ {} ]", ids.join(" ")));
        }
        out.push("}".to_owned());
    }
    out
}

fn fixed(weight: u32) -> String {
    format!("{:.3}", f64::from(weight as f32 / 65536.0))
}
