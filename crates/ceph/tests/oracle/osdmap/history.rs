//! History of a real cluster: applying each of a Ceph monitor's incremental maps to the previous map must yield
//! the monitor's full map, byte for byte.

use super::cluster::Cluster;
use super::run;
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_msgr::encoding::{Decode, Encode};
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[Need::Program("monmaptool"), Need::Program("ceph-mon"), Need::Program("ceph-osd"), Need::Program("ceph"), Need::Program("ceph-kvstore-tool")];
    incremental_maps_of_a_monitor_yield_its_full_maps,
];

fn maps(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let words = [Path::new("rocksdb"), store, Path::new("dump"), Path::new("osdmap")];
    parse_dump(&run("ceph-kvstore-tool", &words))
}

/// Parses a listing of keys and values, which omits lines of zeros.
fn parse_dump(dump: &str) -> BTreeMap<String, Vec<u8>> {
    let mut values = BTreeMap::new();
    let mut current: &mut Vec<u8> = &mut Vec::new();
    for line in dump.lines() {
        if let Some(key) = line.strip_prefix("osdmap\t") {
            current = values.entry(key.to_owned()).or_default();
            continue;
        }
        let hex = line.split('|').next().unwrap();
        let Some(Ok(offset)) = hex.get(..8).map(|offset| usize::from_str_radix(offset, 16)) else { continue };
        current.resize(offset, 0);
        let bytes = hex[8..].split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
        current.extend(bytes);
    }
    values
}

/// Applies all incremental maps in order. Returns their number.
fn replay(maps: &BTreeMap<String, Vec<u8>>) -> u32 {
    let mut map = OsdMap::default();
    for epoch in 1.. {
        let Some(incremental) = maps.get(&epoch.to_string()) else { break };
        let whole = &maps[&format!("full_{epoch}")];
        let change = Incremental::from_bytes(incremental).unwrap();
        assert_eq!(&change.to_bytes(), incremental, "incremental map {epoch}");
        assert_ne!(change.full_crc, 0, "the monitor gives a checksum");
        map.apply(&change).unwrap_or_else(|error| panic!("incremental map {epoch}: {error}"));
        assert_eq!(&map.to_bytes(), whole, "map {epoch}");
        assert_eq!(OsdMap::from_bytes(whole).as_ref(), Ok(&map));
    }
    map.epoch
}

fn incremental_maps_of_a_monitor_yield_its_full_maps() {
    let mut cluster = Cluster::start();
    let uuid = "11111111-2222-3333-4444-000000000000";
    cluster.ceph(&[&format!("osd new {uuid}")]);
    drop(cluster.start_osd("0", uuid));
    cluster.ceph(&COMMANDS);
    let places = OBJECTS.map(|(name, space)| cluster.ceph(&[&format!("osd map one {name} {space}")]));
    let maps = maps(&cluster.stop_monitor());
    let epoch = replay(&maps);
    assert!(epoch > 40, "the commands made {epoch} epochs");

    let map = OsdMap::from_bytes(&maps[&format!("full_{epoch}")]).unwrap();
    let id = map.pool_id("one").unwrap();
    let pool = &map.pools[&id];
    for ((name, space), place) in OBJECTS.iter().zip(places) {
        let raw = pool.object_pg(id, name.as_bytes(), b"", space.as_bytes(), -1);
        let expected = format!("-> pg {raw} ({})", pool.pg(raw));
        assert!(place.contains(&expected), "{expected} for {name} in {space:?}: {place}");
    }

    // The last one, with a wrong checksum.
    let mut map = OsdMap::from_bytes(&maps[&format!("full_{}", epoch - 1)]).unwrap();
    let mut change = Incremental::from_bytes(&maps[&epoch.to_string()]).unwrap();
    change.full_crc ^= 1;
    assert!(map.apply(&change).unwrap_err().to_string().contains("checksum"));
}

const OBJECTS: [(&str, &str); 4] = [
    ("rbd_directory", ""),
    ("rbd_directory", "space"),
    ("a", "b"),
    ("rbd_data.1.0000000000000007", "tenant-1"),
];

/// Makes a monitor emit every kind of change.
const COMMANDS: [&str; 56] = [
    "osd down 0",
    "osd new 11111111-2222-3333-4444-000000000001",
    "osd new 11111111-2222-3333-4444-000000000002",
    // A monitor of 16.2 crashes if OSDs are in without ever having been marked in.
    "osd out 1 2",
    "osd in 1 2",
    "osd crush add osd.0 1.0 root=default host=h0",
    "osd crush add osd.1 2.0 root=default host=h1",
    "osd crush add osd.2 2.0 root=default host=h1",
    "osd crush set-device-class ssd osd.1",
    "osd crush rule create-replicated fast default osd ssd",
    "osd set-group noout ssd",
    "osd set-group noup,noin osd.1",
    "osd unset-group noin osd.1",
    "osd pool create one 8",
    "osd pool create two 16 16 replicated fast",
    "osd erasure-code-profile set small k=2 m=1 crush-failure-domain=osd",
    "osd erasure-code-profile set other k=3 m=1 crush-failure-domain=osd",
    "osd pool create three 8 8 erasure small",
    "osd pool set one pg_num 12",
    "osd pool application enable one rbd",
    "osd pool rename two deux",
    "osd pool mksnap one snap1",
    "osd pool mksnap one snap2",
    "osd pool rmsnap one snap1",
    "osd pool set-quota one max_objects 1000",
    "osd pool set one compression_mode aggressive",
    "osd pool set one compression_required_ratio 0.5",
    "osd set pause",
    "osd unset pause",
    "osd reweight 1 0.5",
    "osd primary-affinity 1 0.25",
    "osd out 0",
    "osd in 0",
    "osd set-nearfull-ratio 0.8",
    "osd blocklist add 10.0.0.1:0/5",
    "osd blocklist add 10.0.0.2:123/7",
    "osd blocklist add [2001:db8::1]:123/7",
    "osd blocklist range add 10.1.0.0/16",
    "osd blocklist rm 10.0.0.1:0/5",
    "osd blocklist range rm 10.1.0.0/16",
    "osd crush weight-set create-compat",
    "osd crush weight-set reweight-compat osd.1 1.5",
    "osd set-require-min-compat-client luminous",
    "osd pg-upmap 1.1 2 1 0",
    "osd pg-upmap-items 1.2 0 1",
    "osd rm-pg-upmap 1.1",
    "osd pg-temp 1.0 1 0",
    "osd primary-temp 1.0 1",
    "osd pg-temp 1.0",
    "osd lost 2 --yes-i-really-mean-it",
    "osd crush rm osd.2",
    "osd rm 2",
    "osd setmaxosd 5",
    "osd pool rm deux deux --yes-i-really-really-mean-it",
    "osd erasure-code-profile rm other",
    "osd crush tunables hammer",
];
