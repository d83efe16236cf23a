//! CRUSH maps that no peer would create, and lookups.

use onego_ceph::crush::{
    Bucket, ChooseArg, ChooseArgs, CrushMap, DEFAULT_CHOOSE_ARGS, Layout, Rule, Step, StepOp, WEIGHT_ONE,
};
use onego_msgr::encoding::{Decode, Encode};

#[test]
fn counts_beyond_the_encoding_are_rejected() {
    let bytes = CrushMap::flat(&[0, 1], Layout::OneHost).to_bytes();
    // max_buckets, max_rules, and the number of items of the first bucket.
    for at in [4, 8, 16 + 4 + 4 + 2 + 1 + 1 + 4] {
        for count in [0x10_0000, i32::MAX, -1] {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(CrushMap::from_bytes(&bytes).is_err(), "{count} at byte {at}");
        }
    }
}

fn map_of(buckets: Vec<Bucket>) -> CrushMap {
    let mut map = CrushMap::flat(&[0], Layout::OneHost);
    map.buckets = buckets.into_iter().map(Some).collect();
    map
}

#[test]
fn cyclic_buckets_are_rejected_and_do_not_hang_the_mapper() {
    let loops = [
        vec![Bucket::straw2(-1, 11, [(-1, 1)])],
        vec![Bucket::straw2(-1, 11, [(-2, 1)]), Bucket::straw2(-2, 1, [(0, 1), (-1, 1)])],
        vec![
            Bucket::straw2(-1, 11, [(0, 1)]),
            Bucket::straw2(-2, 3, [(-3, 1)]),
            Bucket::straw2(-3, 3, [(-2, 1)]),
        ],
    ];
    for buckets in loops {
        let map = map_of(buckets);
        let error = CrushMap::from_bytes(&map.to_bytes()).unwrap_err().to_string();
        assert!(error.contains("cycle"), "{error}");
        assert!(map.do_rule(0, 1, 3, &[WEIGHT_ONE], None).len() <= 3);
    }
}

#[test]
fn a_too_deep_hierarchy_is_rejected() {
    let level = |id: i32| Bucket::straw2(id, 3, [(id - 1, 1)]);
    let tower = |levels: i32| {
        let top = (1..levels).map(|n| level(-n));
        map_of(top.chain([Bucket::straw2(-levels, 1, [(0, 1)])]).collect())
    };
    assert_eq!(CrushMap::from_bytes(&tower(12).to_bytes()), Ok(tower(12)));
    assert!(CrushMap::from_bytes(&tower(20_000).to_bytes()).is_err());
}

#[test]
fn an_endless_rule_terminates() {
    let mut map = CrushMap::flat(&[0, 1, 2], Layout::HostPerDevice);
    map.tunables.choose_total_tries = u32::MAX - 1;
    map.tunables.choose_local_fallback_tries = u32::MAX;
    // Three replicas, but only two devices that are in.
    let weights = [WEIGHT_ONE, WEIGHT_ONE, 0];
    assert_eq!(map.do_rule(0, 1, 3, &weights, None), [0i32; 0]);
    for op in [StepOp::CHOOSELEAF_INDEP, StepOp::CHOOSE_MSR] {
        let rule = map.rules[0].as_mut().unwrap();
        rule.kind = if op == StepOp::CHOOSE_MSR { Rule::MSR_INDEP } else { Rule::ERASURE };
        rule.steps[1] = Step { op, arg1: i32::MAX, arg2: 1 };
        map.tunables.msr = None;
        assert!(map.do_rule(0, 1, 3, &weights, None).len() <= 3);
    }
}

#[test]
fn missing_rules_and_devices_map_to_nothing() {
    let map = CrushMap::flat(&[0, 1, 2], Layout::HostPerDevice);
    let weights = [WEIGHT_ONE; 3];
    assert_eq!(map.do_rule(1, 7, 3, &weights, None), [0i32; 0], "no such rule");
    assert_eq!(map.do_rule(0, 7, 0, &weights, None), [0i32; 0], "nothing requested");
    assert_eq!(map.do_rule(0, 7, usize::MAX, &weights, None), [0i32; 0], "more than the limit");
    assert_eq!(map.do_rule(0, 7, 3, &[], None), [0i32; 0], "devices without weights are out");
    let mut empty = map.clone();
    empty.buckets[0] = Some(Bucket::straw2(-1, 11, []));
    assert_eq!(empty.do_rule(0, 7, 3, &weights, None), [0i32; 0], "an empty root");
    empty.buckets[0] = None;
    assert_eq!(empty.do_rule(0, 7, 3, &weights, None), [0i32; 0], "no root");
    empty.buckets.clear();
    assert_eq!(empty.do_rule(0, 7, 3, &weights, None), [0i32; 0], "no buckets");
}

#[test]
fn rules_and_items_are_found_by_name() {
    let map = CrushMap::flat(&[0, 1], Layout::HostPerDevice);
    assert_eq!(map.rule_id("replicated_rule"), Some(0));
    assert_eq!(map.item_id("default"), Some(-1));
    assert_eq!(map.item_id("osd.1"), Some(1));
    assert_eq!(map.type_id("root"), Some(11));
    assert_eq!(map.item_id("osd.2"), None);
    assert_eq!(map.find_rule(0, Rule::REPLICATED, 3), Some(0));
    assert_eq!(map.find_rule(0, Rule::REPLICATED, 101), None, "too many replicas");
    assert_eq!(map.find_rule(0, Rule::ERASURE, 3), None);
    assert_eq!(map.find_rule(1, Rule::REPLICATED, 3), None);
}

#[test]
fn a_pool_without_its_own_choose_args_has_the_default_ones() {
    let mut map = CrushMap::flat(&[0, 1], Layout::HostPerDevice);
    let weights = [WEIGHT_ONE; 2];
    let first = |map: &CrushMap, pool| (0..100).map(|x| map.do_rule(0, x, 1, &weights, pool)[0]).max();
    assert_eq!(first(&map, Some(3)), Some(1));
    let only = |weights: [u32; 2]| {
        ChooseArgs::from([(0, ChooseArg { weight_set: vec![weights.to_vec()], ids: vec![] })])
    };
    map.choose_args.insert(DEFAULT_CHOOSE_ARGS, only([WEIGHT_ONE, 0]));
    assert_eq!(first(&map, Some(3)), Some(0), "the default ones place everything on device 0");
    assert_eq!(first(&map, None), Some(1), "none are requested");
    map.choose_args.insert(3, only([WEIGHT_ONE, WEIGHT_ONE]));
    assert_eq!(first(&map, Some(3)), Some(1), "its own");
    assert_eq!(first(&map, Some(4)), Some(0));
    assert_eq!(CrushMap::from_bytes(&map.to_bytes()), Ok(map));
}

#[test]
fn choose_args_are_adjusted_to_the_buckets() {
    let mut map = CrushMap::flat(&[0, 1, 2], Layout::OneHost);
    let arg = |weights: &[u32]| ChooseArg { weight_set: vec![weights.to_vec()], ids: vec![] };
    map.choose_args.insert(0, ChooseArgs::from([(0, arg(&[5, 6])), (1, arg(&[7]))]));
    let fitted = CrushMap::from_bytes(&map.to_bytes()).unwrap();
    assert_eq!(fitted.choose_args[&0], ChooseArgs::from([(0, arg(&[5])), (1, arg(&[7, 0, 0]))]));
    map.choose_args.insert(0, ChooseArgs::from([(9, arg(&[5]))]));
    assert!(CrushMap::from_bytes(&map.to_bytes()).is_err(), "no such bucket");
}

#[test]
fn removed_devices_count_until_the_map_is_finalized() {
    let mut map = CrushMap::flat(&[0, 1], Layout::OneHost);
    map.max_devices = 7;
    let mut decoded = CrushMap::from_bytes(&map.to_bytes()).unwrap();
    assert_eq!(decoded.max_devices, 7);
    decoded.finalize();
    assert_eq!(decoded.max_devices, 2);
    map.max_devices = 1;
    assert_eq!(CrushMap::from_bytes(&map.to_bytes()).unwrap().max_devices, 2, "device 1 is there");
}
