//! Maps equal the output of `crushtool -d`, and damaged ones are rejected or harmless.

use super::random::{self, Random};
use super::{CRUSHTOOL, Folder, Inputs, compare_mappings, compile, crushtool, load, text};
use onego_ceph::crush::{CrushMap, Layout, WEIGHT_ONE};
use onego_msgr::encoding::{Decode, Encode};
use onego_testkit::{NeedyTest, needy_tests};

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    CRUSHTOOL;
    maps_equal_the_output_of_crushtool,
    a_new_clusters_map_is_decompiled_by_crushtool,
    a_truncated_map_is_rejected_unless_it_is_an_older_encoding,
    a_corrupted_map_is_rejected_or_harmless,
];

fn maps_equal_the_output_of_crushtool() {
    let folder = Folder::new();
    let mut random = Random(11);
    for n in 0..40 {
        let classes = n % 2 == 0;
        let algorithms: &[&str] = if classes {
            &["list", "straw", "straw2"]
        } else {
            &["uniform", "list", "tree", "straw", "straw2"]
        };
        let file = compile(&folder, &random::map(&mut random, algorithms, classes));
        let theirs = crushtool(["-d", file.to_str().unwrap()]);
        assert_eq!(text::decompile(&load(&file)), text::lines(&theirs));
    }
}

fn a_new_clusters_map_is_decompiled_by_crushtool() {
    let folder = Folder::new();
    let file = folder.path("flat");
    for (layout, devices, result_max) in [
        (Layout::OneHost, vec![0], 1),
        (Layout::OneHost, vec![0, 1, 2], 3),
        (Layout::HostPerDevice, (0..12).collect(), 3),
        (Layout::HostPerDevice, vec![5, 2, 9], 2),
    ] {
        let map = CrushMap::flat(&devices, layout);
        std::fs::write(&file, map.to_bytes()).unwrap();
        let theirs = crushtool(["-d", file.to_str().unwrap()]);
        assert_eq!(text::decompile(&map), text::lines(&theirs));
        let inputs = Inputs { xs: 0..=499, result_max, reweights: vec![] };
        assert_eq!(compare_mappings(&file, &map, &inputs), 500);
        let weights = vec![WEIGHT_ONE; 12];
        assert!((0..500).all(|x| map.do_rule(0, x, result_max, &weights, None).len() == result_max));
    }
}

fn rich_map() -> CrushMap {
    let folder = Folder::new();
    let text = random::map(&mut Random(5), &["list", "tree", "straw", "straw2"], false);
    load(&compile(&folder, &text))
}

fn a_truncated_map_is_rejected_unless_it_is_an_older_encoding() {
    let bytes = rich_map().to_bytes();
    let whole = (0..bytes.len()).filter(|&len| CrushMap::from_bytes(&bytes[..len]).is_ok()).count();
    // Encodings have grown at the end: after the names, and after each tunable or group of tunables.
    assert!(whole <= 8, "{whole} shorter maps decode");
}

fn a_corrupted_map_is_rejected_or_harmless() {
    let map = rich_map();
    let bytes = map.to_bytes();
    let weights = vec![WEIGHT_ONE; map.max_devices as usize];
    let mut random = Random(6);
    let mut decoded = 0;
    for _ in 0..3000 {
        let mut bytes = bytes.clone();
        for _ in 0..random.in_range(1..=3) {
            let at = random.in_range(0..=bytes.len() as i64 - 1) as usize;
            bytes[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, random.0 as u8]);
        }
        let Ok(map) = CrushMap::from_bytes(&bytes) else { continue };
        decoded += 1;
        for rule in 0..map.rules.len() as u32 {
            assert!(map.do_rule(rule, 1, 4, &weights, Some(0)).len() <= 4);
        }
    }
    assert!(decoded > 100, "only {decoded} maps got as far as mapping");
}
