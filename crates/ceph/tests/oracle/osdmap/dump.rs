//! Contents of maps, compared with the output of Ceph's `osdmaptool`.

use super::random::Shape;
use super::{OSDMAPTOOL, json, load, osdmaptool, random, simple, store};
use onego_ceph::osdmap::OsdMap;
use onego_testkit::{NeedyTest, needy_tests};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    OSDMAPTOOL;
    osdmaptools_maps_have_the_same_contents_here,
    our_maps_have_the_same_contents_in_osdmaptool,
];

fn assert_dumps_same(map: &OsdMap, file: &Path) {
    let theirs = osdmaptool(file, &["--dump", "json"]);
    let theirs = serde_json::from_str(&theirs).expect("osdmaptool prints JSON");
    json::assert_same(&json::osdmap(map), &theirs, "");
}

fn osdmaptools_maps_have_the_same_contents_here() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    for (osds, pg_bits) in [(1, 0), (3, 4), (17, 6), (250, 3)] {
        let map = simple(&file, osds, pg_bits);
        assert_eq!(map.max_osd, osds);
        assert_dumps_same(&map, &file);
    }
}

fn our_maps_have_the_same_contents_in_osdmaptool() {
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
