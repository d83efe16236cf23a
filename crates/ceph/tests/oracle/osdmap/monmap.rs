//! Contents of monitor maps, compared with the output of Ceph's `monmaptool`.

use super::{json, run};
use onego_ceph::monmap::{MonInfo, MonMap};
use onego_ceph::types::Utime;
use onego_msgr::encoding::{Decode, Encode};
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[Need::Program("monmaptool")];
    monmaptools_maps_have_the_same_contents_here,
    our_maps_have_the_same_contents_in_monmaptool,
];

/// Formats a map like `monmaptool --print`, from its epoch on.
fn print(map: &MonMap) -> String {
    let release = match map.min_mon_release {
        0 => "unknown",
        16 => "pacific",
        other => panic!("release {other} has no name here"),
    };
    let mut text = format!(
        "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({release})\nelection_strategy: {}\n",
        map.epoch,
        map.fsid,
        json::time(map.last_changed),
        json::time(map.created),
        map.min_mon_release,
        map.strategy as u8,
    );
    for (rank, name) in map.ranks.iter().enumerate() {
        writeln!(text, "{rank}: {} mon.{name}", map.monitors[name].public_addrs).unwrap();
    }
    text
}

fn assert_prints_same(map: &MonMap, file: &Path) {
    let theirs = run("monmaptool", &["--print", file.to_str().unwrap()]);
    let (_, theirs) = theirs.split_once('\n').expect("monmaptool names the file first");
    assert_eq!(print(map), theirs);
}

fn load(file: &Path) -> MonMap {
    let bytes = fs::read(file).unwrap();
    let map = MonMap::from_bytes(&bytes).unwrap();
    assert_eq!(map.to_bytes(), bytes);
    map
}

fn monmaptools_maps_have_the_same_contents_here() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("monmap");
    let path = file.to_str().unwrap();
    let both = "[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0]";
    run(
        "monmaptool",
        &["--create", "--set-min-mon-release", "16", "--add", "a", "10.0.0.9", "--addv", "b", both, path],
    );
    run("monmaptool", &["--addv", "c", "[v2:[2001:db8::1]:3300/0]", path]);
    let map = load(&file);
    assert_eq!(map.monitors["b"].public_addrs.to_string(), both);
    assert_prints_same(&map, &file);
    run("monmaptool", &["--rm", "b", path]);
    assert_prints_same(&load(&file), &file);
}

fn our_maps_have_the_same_contents_in_monmaptool() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("monmap");
    let time = Utime { sec: 1_700_000_000, nsec: 123_456_000 };
    let mut map =
        MonMap { epoch: 17, last_changed: time, created: time, min_mon_release: 16, ..MonMap::default() };
    map.fsid = "9a1f7a3e-0f53-4c33-8a5f-5d4d1e3f2b10".parse().unwrap();
    for (name, addrs) in [("z", "10.0.0.1"), ("y", "v2:[::1]:3300/0"), ("x", "v1:10.0.0.3:6789/0")] {
        let mut info =
            MonInfo { name: name.into(), public_addrs: addrs.parse().unwrap(), ..MonInfo::default() };
        info.time_added = time;
        map.add(info);
    }
    fs::write(&file, map.to_bytes()).unwrap();
    assert_prints_same(&map, &file);
}
