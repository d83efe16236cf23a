//! Placement of groups and objects, compared with Ceph's `osdmaptool`.

use super::random::Shape;
use super::{OSDMAPTOOL, load, osdmaptool, random, simple, store};
use onego_ceph::crush::Workspace;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::PgId;
use onego_testkit::{NeedyTest, needy_tests};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    OSDMAPTOOL;
    groups_of_random_maps_are_placed_like_osdmaptool,
    groups_balanced_by_osdmaptool_are_placed_like_it,
    objects_are_placed_like_osdmaptool,
];

/// Parses the OSDs and the primary in `([1,2,3], p1)` after `name`.
fn parse_set(line: &str, name: &str) -> (Vec<i32>, i32) {
    let set = line.split_once(&format!(" {name} ([")).unwrap_or_else(|| panic!("no {name} in {line}")).1;
    let (osds, rest) = set.split_once("], p").unwrap();
    let primary = rest.split_once(')').unwrap().0;
    let osds = osds.split(',').filter(|osd| !osd.is_empty()).map(|osd| osd.parse().unwrap()).collect();
    (osds, primary.parse().unwrap())
}

/// Compares the placement of all groups of a map. Returns their number.
fn compare(map: &OsdMap, file: &Path) -> usize {
    let theirs = osdmaptool(file, &["--test-map-pgs-dump-all"]);
    let mut workspace = Workspace::default();
    let mut compared = 0;
    for line in theirs.lines().filter(|line| line.contains(" raw ([")) {
        let pg: PgId = line.split_once(' ').unwrap().0.parse().unwrap();
        let ours = map.place_with(&mut workspace, pg);
        assert_eq!((ours.up, ours.up_primary), parse_set(line, "up"), "{line}");
        assert_eq!((ours.acting, ours.acting_primary), parse_set(line, "acting"), "{line}");
        compared += 1;
    }
    let expected: u32 = map.pools.values().map(|pool| pool.pg_num).sum();
    assert_eq!(compared, expected as usize, "osdmaptool maps all groups");
    compared
}

fn groups_of_random_maps_are_placed_like_osdmaptool() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    let mut compared = 0;
    for seed in 0..28 {
        let osds = [10, 12, 30, 64, 100, 333, 1000][seed as usize % 7];
        let osds_per_host = [1, 3, 4, 12][seed as usize % 4];
        let map = random::map(Shape { seed: 1000 + seed, osds, osds_per_host, pgs: 5000 });
        store(&map, &file);
        compared += compare(&map, &file);
    }
    assert!(compared >= 100_000, "{compared}");
}

fn groups_balanced_by_osdmaptool_are_placed_like_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    for (seed, osds) in [(1, 12), (2, 40)] {
        // Only osdmaptool moves groups of such a map.
        let mut map = random::map(Shape { seed, osds, osds_per_host: 2, pgs: 2000 });
        map.pg_temp.clear();
        map.primary_temp.clear();
        map.pg_upmap.clear();
        map.pg_upmap_items.clear();
        store(&map, &file);
        let commands = dir.path().join("commands");
        let balance =
            ["--upmap", commands.to_str().unwrap(), "--upmap-deviation", "1", "--upmap-max", "300", "--save"];
        osdmaptool(&file, &balance);
        let map = load(&file);
        assert!(map.pg_upmap_items.len() > 10, "osdmaptool moved {} groups", map.pg_upmap_items.len());
        compare(&map, &file);
    }
}

fn objects_are_placed_like_osdmaptool() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("osdmap");
    let mut map = simple(&file, 9, 5);
    map.pools.get_mut(&1).unwrap().pg_num = 300;
    store(&map, &file);
    for length in 1..=38 {
        let name = &"rbd_data.10226b8b4567.0000000000000fff"[..length];
        let theirs = osdmaptool(&file, &["--test-map-object", name, "--pool", "1"]);
        let pool = &map.pools[&1];
        let pg = pool.pg(pool.object_pg(1, name.as_bytes(), b"", b"", -1));
        assert!(theirs.contains(&format!("-> {pg} ->")), "{name} is in {pg}, osdmaptool says {theirs}");
    }
}
