//! What maps say, compared with what Ceph's `osdmaptool` says of them.

use crate::support::random::Shape;
use crate::support::{dump, load, osdmaptool, random, simple, store};
use onego_ceph::osdmap::OsdMap;
use std::path::Path;
use tempfile::TempDir;

fn assert_dumps_same(map: &OsdMap, file: &Path) {
    let theirs = osdmaptool(file, &["--dump", "json"]);
    let theirs = serde_json::from_str(&theirs).expect("osdmaptool prints JSON");
    dump::assert_same(&dump::osdmap(map), &theirs, "");
}

#[test]
fn maps_of_osdmaptool_say_to_us_what_they_say_to_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    for (osds, pg_bits) in [(1, 0), (3, 4), (17, 6), (250, 3)] {
        let map = simple(&file, osds, pg_bits);
        assert_eq!(map.max_osd, osds);
        assert_dumps_same(&map, &file);
    }
}

#[test]
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

#[test]
fn a_damaged_map_is_refused_by_its_checksum() {
    use onego_msgr::encoding::{Decode, Encode};
    let bytes = random::map(Shape { seed: 1, osds: 10, osds_per_host: 2, pgs: 20 }).to_bytes();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(OsdMap::from_bytes(&damaged).is_err(), "byte {at}");
    }
}
