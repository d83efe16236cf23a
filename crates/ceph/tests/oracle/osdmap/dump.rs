//! What maps say, compared with what Ceph's `osdmaptool` says of them.

use super::random::Shape;
use super::{OSDMAPTOOL, json, load, osdmaptool, random, simple, store};
use onego_ceph::osdmap::OsdMap;
use onego_testkit::{NeedyTest, needy_tests};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    OSDMAPTOOL;
    maps_of_osdmaptool_say_to_us_what_they_say_to_it,
    maps_of_ours_say_to_osdmaptool_what_they_say_to_us,
];

fn assert_dumps_same(map: &OsdMap, file: &Path) {
    let theirs = osdmaptool(file, &["--dump", "json"]);
    let theirs = serde_json::from_str(&theirs).expect("osdmaptool prints JSON");
    json::assert_same(&json::osdmap(map), &theirs, "");
}

fn maps_of_osdmaptool_say_to_us_what_they_say_to_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    for (osds, pg_bits) in [(1, 0), (3, 4), (17, 6), (250, 3)] {
        let map = simple(&file, osds, pg_bits);
        assert_eq!(map.max_osd, osds);
        assert_dumps_same(&map, &file);
    }
}

fn maps_of_ours_say_to_osdmaptool_what_they_say_to_us() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    for seed in 0..20 {
        let osds = 1 + seed as usize * 3;
        let map =
            random::map(Shape { seed, osds: osds.max(10), osds_per_host: 1 + seed as usize % 4, pgs: 80 });
        store(&map, &file);
        assert_eq!(load(&file), map);
        assert_dumps_same(&map, &file);
    }
}
