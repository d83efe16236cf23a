//! Commands that say where objects go, and the maps that follow from them.

use crate::support::{MON, Net, Who};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{PgId, Uuid};
use onego_cluster::{NewPool, OsdSettings, Settings};
use onego_msgr::encoding::{Decode as _, Encode as _};
use serde_json::{Value, json};
use std::time::Duration;

const ENOENT: i32 = -2;
const EBUSY: i32 = -16;
const EINVAL: i32 = -22;
const ENOTEMPTY: i32 = -39;
const EOPNOTSUPP: i32 = -95;

/// A cluster of four OSDs with a pool of two copies.
fn four() -> (Net, Who) {
    let osd = |n: u8| OsdSettings {
        uuid: Uuid([n; 16]),
        addrs: format!("v2:127.0.0.1:68{n:02}/1000").parse().unwrap(),
    };
    let pool = NewPool { size: Some(2), ..NewPool::for_images("rbd") };
    let settings =
        Settings { osds: (0..4).map(osd).collect(), pools: vec![pool], ..crate::support::settings() };
    let mut net = Net::with(settings);
    let mon = net.client(MON);
    (net, mon)
}

/// Where the groups of the pool belong, by the newest map as a client has it.
fn up(net: &Net) -> Vec<Vec<i32>> {
    let map = net.machine.osdmap().unwrap();
    let map = OsdMap::from_bytes(&map.to_bytes()).unwrap();
    (0..32).map(|seed| map.place(PgId { pool: 1, seed }).up).collect()
}

/// What `osd tree` says of an item.
fn in_tree(net: &mut Net, mon: Who, name: &str) -> Value {
    let tree = net.json(mon, r#""prefix": "osd tree""#);
    let nodes = tree["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap().clone()
}

fn refused(net: &mut Net, mon: Who, fields: &str) -> (i32, String) {
    let (result, status, _) = net.command(mon, &format!("{{{fields}}}"));
    assert!(!status.is_empty(), "{fields} is refused without a word");
    (result, status)
}

/// Lets what has to be copied be copied.
fn settle(net: &mut Net) {
    for _ in 0..1000 {
        if net.machine.is_clean() {
            return;
        }
        net.pass(Duration::from_millis(10));
    }
    panic!("the groups do not become clean");
}

#[test]
fn weights_in_the_crush_map_move_data() {
    let (mut net, mon) = four();
    let share = |net: &Net, osd: i32| up(net).iter().filter(|osds| osds.contains(&osd)).count();
    assert!(share(&net, 3) > 5);
    net.done(mon, r#""prefix": "osd crush reweight", "name": "osd.3", "weight": 0"#);
    settle(&mut net);
    assert_eq!(share(&net, 3), 0);
    assert_eq!(in_tree(&mut net, mon, "osd.3")["crush_weight"], 0.0);
    net.done(mon, r#""prefix": "osd crush reweight-subtree", "name": "default", "weight": 2.0"#);
    settle(&mut net);
    assert!(share(&net, 3) > 5);
    assert_eq!(
        refused(&mut net, mon, r#""prefix": "osd crush reweight", "name": "x", "weight": 1"#).0,
        ENOENT
    );
    let (errno, _) =
        refused(&mut net, mon, r#""prefix": "osd crush reweight", "name": "osd.1", "weight": -1"#);
    assert_eq!(errno, EINVAL);
}

#[test]
fn buckets_and_rules_keep_copies_apart() {
    let (mut net, mon) = four();
    net.done(mon, r#""prefix": "osd crush add-bucket", "name": "rack1", "type": "rack""#);
    net.done(mon, r#""prefix": "osd crush move", "name": "rack1", "args": ["root=default"]"#);
    // The other rack, and the hosts, are made as they are named.
    for (osd, rack) in [(0, "rack1"), (1, "rack1"), (2, "rack2"), (3, "rack2")] {
        let place = format!(r#""args": ["root=default", "rack={rack}", "host=at{osd}"]"#);
        net.done(mon, &format!(r#""prefix": "osd crush add", "id": {osd}, "weight": 1.0, {place}"#));
    }
    net.done(mon, r#""prefix": "osd crush rm", "name": "host0""#);
    net.done(
        mon,
        r#""prefix": "osd crush rule create-replicated", "name": "racks", "root": "default", "type": "rack""#,
    );
    assert_eq!(net.json(mon, r#""prefix": "osd crush rule ls""#), json!(["replicated_rule", "racks"]));
    net.done(mon, r#""prefix": "osd pool set", "pool": "rbd", "var": "crush_rule", "val": "racks""#);
    settle(&mut net);
    for osds in up(&net) {
        assert!(osds.len() == 2 && (osds[0] < 2) != (osds[1] < 2), "{osds:?} are in one rack");
    }
    let found = net.json(mon, r#""prefix": "osd find", "id": "2""#);
    assert_eq!(found["crush_location"], json!({"host": "at2", "rack": "rack2", "root": "default"}));

    // A new pool takes the rule it is made with.
    net.done(mon, r#""prefix": "osd pool create", "pool": "other", "rule": "racks", "size": 2"#);
    let rule = net.json(mon, r#""prefix": "osd pool get", "pool": "other", "var": "crush_rule""#);
    assert_eq!(rule["crush_rule"], "racks");
    let (errno, status) = refused(&mut net, mon, r#""prefix": "osd crush rule rm", "name": "racks""#);
    assert!(errno == EBUSY && status.contains("pool"), "{status}");
    net.done(mon, r#""prefix": "osd crush rule rm", "name": "replicated_rule""#);
    net.done(mon, r#""prefix": "osd pool create", "pool": "third""#);
    assert_eq!(refused(&mut net, mon, r#""prefix": "osd crush rm", "name": "rack1""#).0, ENOTEMPTY);

    // An OSD goes to another host, which is made for it.
    net.done(
        mon,
        r#""prefix": "osd crush set", "id": "osd.0", "weight": 1.0,
        "args": ["root=default", "rack=rack3", "host=new"]"#,
    );
    net.done(mon, r#""prefix": "osd crush rm", "name": "at0""#);
    settle(&mut net);
    let found = net.json(mon, r#""prefix": "osd find", "id": "0""#);
    assert_eq!(found["crush_location"], json!({"host": "new", "rack": "rack3", "root": "default"}));
    for nonsense in [r#""args": ["rack"]"#, r#""args": ["shelf=x"]"#, r#""args": ["osd=osd.1"]"#] {
        let (errno, _) =
            refused(&mut net, mon, &format!(r#""prefix": "osd crush move", "name": "new", {nonsense}"#));
        assert!(errno == EINVAL || errno == ENOENT, "{nonsense}: {errno}");
    }
}

#[test]
fn groups_are_placed_by_hand_and_left_to_crush_again() {
    let (mut net, mon) = four();
    let before = up(&net);
    let others: Vec<i32> = (0..4).filter(|osd| !before[5].contains(osd)).collect();
    let (from, to) = (before[5][0], others[0]);
    net.done(mon, &format!(r#""prefix": "osd pg-upmap-items", "pgid": "1.5", "id": [{from}, {to}]"#));
    settle(&mut net);
    assert_eq!(up(&net)[5], [to, before[5][1]]);
    let dump = net.json(mon, r#""prefix": "osd dump""#);
    let shown = json!([{"pgid": "1.5", "mappings": [{"from": from, "to": to}]}]);
    assert_eq!(dump["pg_upmap_items"], shown);
    net.done(mon, r#""prefix": "osd pg-upmap", "pgid": "1.6", "id": ["osd.3", "0"]"#);
    settle(&mut net);
    assert_eq!(up(&net)[6], [3, 0]);
    for pgid in ["1.5", "1.6"] {
        net.done(mon, &format!(r#""prefix": "osd rm-pg-upmap", "pgid": "{pgid}""#));
        net.done(mon, &format!(r#""prefix": "osd rm-pg-upmap-items", "pgid": "{pgid}""#));
    }
    settle(&mut net);
    assert_eq!(up(&net), before);

    for (command, errno) in [
        (r#""prefix": "osd pg-upmap-items", "pgid": "1.5", "id": ["0"]"#, EINVAL),
        (r#""prefix": "osd pg-upmap-items", "pgid": "1.5", "id": ["0", "0"]"#, EINVAL),
        (r#""prefix": "osd pg-upmap", "pgid": "1.5", "id": ["0", "0"]"#, EINVAL),
        (r#""prefix": "osd pg-upmap", "pgid": "1.5", "id": ["0", "1", "2"]"#, EINVAL),
        (r#""prefix": "osd pg-upmap", "pgid": "1.5", "id": ["0", "9"]"#, ENOENT),
        (r#""prefix": "osd pg-upmap", "pgid": "1.99", "id": ["0", "1"]"#, ENOENT),
        (r#""prefix": "osd pg-upmap-primary", "pgid": "1.5", "id": "0""#, EOPNOTSUPP),
    ] {
        assert_eq!(refused(&mut net, mon, command).0, errno, "{command}");
    }
    // What was placed by hand goes with its pool.
    net.done(mon, r#""prefix": "osd pg-upmap", "pgid": "1.6", "id": ["3", "0"]"#);
    net.done(
        mon,
        r#""prefix": "osd pool rm", "pool": "rbd", "pool2": "rbd", "yes_i_really_really_mean_it": true"#,
    );
    assert_eq!(net.json(mon, r#""prefix": "osd dump""#)["pg_upmap"], json!([]));
}

#[test]
fn an_osd_without_affinity_serves_first_only_where_no_other_can() {
    let (mut net, mon) = four();
    let is_first = |net: &Net, osd: i32| {
        let map = net.machine.osdmap().unwrap();
        (0..32).filter(|seed| map.place(PgId { pool: 1, seed: *seed }).up_primary == osd).count()
    };
    assert!(is_first(&net, 1) > 0);
    net.done(mon, r#""prefix": "osd primary-affinity", "id": "osd.1", "weight": 0"#);
    settle(&mut net);
    assert_eq!(is_first(&net, 1), 0);
    assert_eq!(in_tree(&mut net, mon, "osd.1")["primary_affinity"], 0.0);
    assert_eq!(
        refused(&mut net, mon, r#""prefix": "osd primary-affinity", "id": "1", "weight": 2"#).0,
        EINVAL
    );
}
