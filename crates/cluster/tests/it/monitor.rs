//! The monitor as its clients see it: maps and subscriptions, commands, pool operations.

use crate::support::{MON, Net};
use onego_ceph::messages::{
    Config, GetMonMap, GetVersion, GetVersionReply, MapUpdate, MonMapMessage, PoolOp, PoolOpKind,
    PoolOpReply, Statfs, StatfsReply, Subscribe, Subscription,
};
use onego_ceph::monmap::MonMap;
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_ceph::types::Uuid;
use onego_cluster::NewPool;
use onego_msgr::encoding::Decode;

#[test]
fn a_client_gets_the_maps_that_it_asks_for() {
    let mut net = Net::new();
    let client = net.client(MON);
    net.send(client, 0, &GetMonMap);
    let (_, message) = net.receive::<MonMapMessage>(client).unwrap();
    let map = MonMap::from_bytes(&message.map).unwrap();
    assert_eq!((map.fsid, map.monitors.len()), (Uuid([7; 16]), 1));
    assert_eq!(map.by_rank(0).unwrap().public_addrs.to_string(), "v2:127.0.0.1:3300/0");

    let what = [("config".to_owned(), Subscription { start: 0, once: false })].into();
    net.send(client, 0, &Subscribe { what, hostname: String::new() });
    assert!(net.receive::<Config>(client).unwrap().1.settings.is_empty());

    let update = net.subscribe(client, 0, true).unwrap();
    let map = OsdMap::from_bytes(&update.full[&update.newest]).unwrap();
    assert_eq!(map.pool_id("rbd"), Some(1));
    assert_eq!(map.client_addr(0).unwrap().to_string(), "v2:127.0.0.1:6800/1000");
    let pool = &map.pools[&1];
    assert_eq!((pool.size, pool.pg_num), (1, 32));
    assert!((0..32).all(|seed| map.place(onego_ceph::types::PgId { pool: 1, seed }).acting_primary == 0));
}

#[test]
fn changes_lead_to_the_same_map_as_the_whole() {
    let mut net = Net::new();
    let client = net.client(MON);
    let first = net.subscribe(client, 0, true).unwrap();
    let mut map = OsdMap::from_bytes(&first.full[&first.newest]).unwrap();
    assert!(net.subscribe(client, u64::from(map.epoch) + 1, false).is_none());

    for n in 0..5 {
        let pool = NewPool { pg_num: 8 + n, ..NewPool::new(format!("pool{n}")) };
        net.machine.create_pool(net.now, &pool).unwrap();
    }
    net.machine.restart_osd(net.now, 0);
    let mut changes = 0;
    while let Some((_, update)) = net.receive::<MapUpdate>(client) {
        for change in update.incrementals.values() {
            map.apply(&Incremental::from_bytes(change).unwrap()).unwrap();
            changes += 1;
        }
    }
    assert_eq!(changes, 7);
    let other = net.client(MON);
    let whole = net.subscribe(other, 0, true).unwrap();
    assert_eq!(map, OsdMap::from_bytes(&whole.full[&whole.newest]).unwrap());
    assert_eq!(map.pool_names.len(), 6);
    assert_eq!(map.client_addr(0).unwrap().to_string(), "v2:127.0.0.1:6800/1001");
}

#[test]
fn one_update_is_all_that_one_who_asks_once_gets() {
    let mut net = Net::new();
    let (once, always) = (net.client(MON), net.client(MON));
    let epoch = u64::from(net.machine.osdmap().unwrap().epoch);
    assert!(net.subscribe(once, epoch + 1, true).is_none());
    assert!(net.subscribe(always, epoch + 1, false).is_none());
    for _ in 0..2 {
        net.machine.touch_map(net.now);
    }
    assert_eq!(net.waiting(once), [crate::support::OSD_MAP]);
    assert_eq!(net.waiting(always), [crate::support::OSD_MAP; 2]);
}

#[test]
fn versions_and_space_are_told() {
    let mut net = Net::new();
    let client = net.client(MON);
    let epoch = net.machine.touch_map(net.now);
    net.send(client, 9, &GetVersion { handle: 5, what: "osdmap".into() });
    let (tid, version) = net.receive::<GetVersionReply>(client).unwrap();
    assert_eq!((tid, version), (9, GetVersionReply { handle: 5, newest: epoch.into(), oldest: 1 }));
    net.send(client, 10, &Statfs { fsid: Uuid([7; 16]), data_pool: None });
    let (_, space) = net.receive::<StatfsReply>(client).unwrap();
    assert_eq!((space.kb, space.objects), (64 << 10, 0));
    assert!(space.kb_used > 0, "the map takes memory");
}

#[test]
fn pool_operations_make_pools_and_snapshots_of_one_kind_in_each() {
    let mut net = Net::new();
    let client = net.client(MON);
    let mut run = |op, pool, snap, name: &str, fsid| {
        net.send(client, 3, &PoolOp { fsid, pool, op, snap, name: name.into(), crush_rule: -1 });
        net.receive::<PoolOpReply>(client).unwrap().1
    };
    let fsid = Uuid([7; 16]);
    // librbd asks for one before it makes the first image of a pool.
    let first = run(PoolOpKind::CreateUnmanagedSnap, 1, 0, "", fsid);
    assert_eq!(first.output, Some(2_u64.to_le_bytes().to_vec()));
    assert_eq!(run(PoolOpKind::CreateUnmanagedSnap, 1, 0, "", fsid).output.unwrap()[0], 3);
    assert_eq!(run(PoolOpKind::DeleteUnmanagedSnap, 1, 2, "", fsid).result, 0);
    assert_eq!(run(PoolOpKind::DeleteUnmanagedSnap, 1, 99, "", fsid).result, -2);
    assert_eq!(run(PoolOpKind::CreateUnmanagedSnap, 77, 0, "", fsid).result, -2);
    assert_eq!(run(PoolOpKind::Create, 0, 0, "new", fsid).result, 0);
    assert_eq!(run(PoolOpKind::Create, 0, 0, "new", fsid).result, 0, "the reply to the first was lost");
    assert_eq!(
        run(PoolOpKind::CreateSnap, 1, 0, "snap", fsid).result,
        -22,
        "clients manage those of the pool"
    );
    assert_eq!(run(PoolOpKind::CreateSnap, 2, 0, "snap", fsid).result, 0);
    assert_eq!(run(PoolOpKind::CreateSnap, 2, 0, "snap", fsid).result, 0);
    assert_eq!(run(PoolOpKind::CreateUnmanagedSnap, 2, 0, "", fsid).result, -22);
    assert_eq!(run(PoolOpKind::DeleteUnmanagedSnap, 2, 1, "", fsid).result, -22);
    assert_eq!(run(PoolOpKind::DeleteSnap, 2, 0, "snap", fsid).result, 0);
    assert_eq!(run(PoolOpKind::DeleteSnap, 2, 0, "snap", fsid).result, 0);
    assert_eq!(run(PoolOpKind::Delete, 2, 0, "", Uuid([9; 16])).result, -22);
    assert_eq!(run(PoolOpKind::Delete, 2, 0, "", fsid).result, 0);
    let last = run(PoolOpKind::Delete, 2, 0, "", fsid);
    assert_eq!(last.result, 0, "the reply to the first was lost");
    assert_eq!(net.machine.osdmap().unwrap().epoch, last.epoch);
    assert_eq!(net.machine.osdmap().unwrap().pool_id("new"), None);
}

#[test]
fn commands_show_what_others_have_changed() {
    let mut net = Net::new();
    let client = net.client(MON);
    net.done(client, r#""prefix": "osd pool create", "pool": "things", "pg_num": 16"#);
    net.done(client, r#""prefix": "osd pool application enable", "pool": "things", "app": "mine""#);
    net.done(
        client,
        r#""prefix": "osd pool set", "pool": "things", "var": "compression_mode", "val": "force""#,
    );
    let dump = net.json(client, r#""prefix": "osd dump""#);
    let pool = &dump["pools"][1];
    assert_eq!((&pool["pool_name"], &pool["pg_num"]), (&"things".into(), &16.into()));
    assert_eq!(pool["application_metadata"], serde_json::json!({"mine": {}}));
    assert_eq!(pool["options"], serde_json::json!({"compression_mode": "force"}));
    assert_eq!(dump["osds"][0]["public_addrs"]["addrvec"][0]["addr"], "127.0.0.1:6800");
    let earlier = net.json(client, r#""prefix": "osd dump", "epoch": 2"#);
    assert_eq!((earlier["epoch"].as_u64(), earlier["pools"].as_array().unwrap().len()), (Some(2), 1));

    net.done(client, r#""prefix": "osd set", "key": "pause""#);
    let health = net.json(client, r#""prefix": "health""#);
    assert_eq!(health["status"], "HEALTH_WARN");
    assert_eq!(health["checks"]["OSDMAP_FLAGS"]["summary"]["message"], "pauserd,pausewr flag(s) set");
    net.done(client, r#""prefix": "osd unset", "key": "pause""#);
    assert_eq!(net.json(client, r#""prefix": "status""#)["health"]["status"], "HEALTH_OK");
}

/// A client whose connection broke before the reply sends its command again (`MonClient::_resend_mon_commands`).
#[test]
fn commands_that_are_repeated_after_a_lost_reply_succeed_again() {
    let mut net = Net::new();
    let client = net.client(MON);
    let commands = [
        r#""prefix": "osd pool create", "pool": "a""#,
        r#""prefix": "osd pool rename", "srcpool": "a", "destpool": "b""#,
        r#""prefix": "osd pool mksnap", "pool": "b", "snap": "s""#,
        r#""prefix": "osd pool rmsnap", "pool": "b", "snap": "s""#,
        r#""prefix": "osd pool application enable", "pool": "b", "app": "x""#,
        r#""prefix": "osd pool application set", "pool": "b", "app": "x", "key": "k", "value": "v""#,
        r#""prefix": "osd pool application rm", "pool": "b", "app": "x", "key": "k""#,
        r#""prefix": "osd pool application disable", "pool": "b", "app": "x", "yes_i_really_mean_it": true"#,
        r#""prefix": "osd pool set-quota", "pool": "b", "field": "max_objects", "val": "9""#,
        r#""prefix": "osd pool set", "pool": "b", "var": "pg_num", "val": "64""#,
        r#""prefix": "osd pool delete", "pool": "b", "pool2": "b", "yes_i_really_really_mean_it": true"#,
        r#""prefix": "osd crush add-bucket", "name": "r1", "type": "rack""#,
        r#""prefix": "osd crush move", "name": "r1", "args": ["root=default"]"#,
        r#""prefix": "osd crush rename-bucket", "srcname": "r1", "dstname": "r2""#,
        r#""prefix": "osd crush rm", "name": "r2""#,
        r#""prefix": "osd crush rule create-replicated", "name": "u1", "root": "default", "type": "host""#,
        r#""prefix": "osd crush rule rename", "srcname": "u1", "dstname": "u2""#,
        r#""prefix": "osd crush rule rm", "name": "u2""#,
        r#""prefix": "osd pg-upmap", "pgid": "1.0", "id": ["0"]"#,
        r#""prefix": "osd rm-pg-upmap", "pgid": "1.0""#,
        r#""prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/7""#,
        r#""prefix": "osd blocklist", "blocklistop": "rm", "addr": "10.0.0.1:0/7""#,
        r#""prefix": "osd blocklist clear""#,
        r#""prefix": "osd set", "key": "noout""#,
        r#""prefix": "osd unset", "key": "noout""#,
        r#""prefix": "osd out", "ids": ["0"]"#,
        r#""prefix": "osd in", "ids": ["0"]"#,
        r#""prefix": "config set", "who": "client", "name": "a", "value": "1""#,
        r#""prefix": "config rm", "who": "client", "name": "a""#,
        r#""prefix": "config-key set", "key": "k", "val": "v""#,
        r#""prefix": "config-key rm", "key": "k""#,
    ];
    for command in commands {
        net.done(client, command);
        net.done(client, command);
    }
}

/// A setting that is there can be changed, however many there are.
#[test]
fn bounds_count_what_is_new() {
    let mut net = Net::new();
    let client = net.client(MON);
    for n in 0..1024 {
        net.done(
            client,
            &format!(r#""prefix": "config set", "who": "client", "name": "n{n}", "value": "1""#),
        );
    }
    net.done(client, r#""prefix": "config set", "who": "client", "name": "n7", "value": "2""#);
    let more = r#"{"prefix": "config set", "who": "client", "name": "more", "value": "1"}"#;
    assert_eq!(net.command(client, more).0, -34);
}

#[test]
fn a_pool_is_removed_only_for_one_who_means_it() {
    let mut net = Net::new();
    let client = net.client(MON);
    let remove = |net: &mut Net, more: &str| {
        let command = format!(r#"{{"prefix": "osd pool rm", "pool": "rbd"{more}}}"#);
        net.command(client, &command).0
    };
    assert_eq!(remove(&mut net, ""), -1);
    assert_eq!(remove(&mut net, r#", "pool2": "rbd""#), -1);
    assert_eq!(remove(&mut net, r#", "pool2": "other", "yes_i_really_really_mean_it": true"#), -1);
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "nodelete", "val": "true""#);
    assert_eq!(remove(&mut net, r#", "pool2": "rbd", "yes_i_really_really_mean_it": true"#), -1);
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "nodelete", "val": "0""#);
    assert_eq!(remove(&mut net, r#", "pool2": "rbd", "yes_i_really_really_mean_it": true"#), 0);
    assert!(net.machine.osdmap().unwrap().pools.is_empty());
}

#[test]
fn nonsense_is_refused_with_a_reason_and_the_session_goes_on() {
    let mut net = Net::new();
    let client = net.client(MON);
    let deep = "[".repeat(100_000);
    let long = format!(r#"{{"prefix": "status", "x": "{}"}}"#, "y".repeat(100_000));
    for (command, result, said) in [
        ("", -22, "not JSON"),
        ("{", -22, "not JSON"),
        (deep.as_str(), -22, "bound"),
        (&"[".repeat(1000), -22, "not JSON"),
        ("[]", -22, "not a JSON object"),
        ("{}", -22, "prefix"),
        (r#"{"prefix": 7}"#, -22, "prefix"),
        (r#"{"prefix": "osd fly"}"#, -22, "'osd fly' is not known"),
        (r#"{"prefix": "status", "format": "xml"}"#, -22, "plain, json"),
        (r#"{"prefix": "osd pool create"}"#, -22, "needs 'pool'"),
        (r#"{"prefix": "osd pool create", "pool": ""}"#, -22, "1 to 1024 bytes"),
        (r#"{"prefix": "osd pool create", "pool": "x", "pg_num": -1}"#, -22, "from 0 on"),
        (r#"{"prefix": "osd pool create", "pool": "x", "pg_num": 5000000000}"#, -22, "too large"),
        (r#"{"prefix": "osd pool create", "pool": "x", "pg_num": 70000}"#, -34, "65536"),
        (r#"{"prefix": "osd pool create", "pool": ["x"]}"#, -22, "must be a text"),
        (r#"{"prefix": "osd pool create", "pool": "x", "size": 11}"#, -22, "between 1 and 10"),
        (r#"{"prefix": "osd pool get", "pool": "none", "var": "size"}"#, -2, "'none'"),
        (r#"{"prefix": "osd pool get", "pool": "rbd", "var": "colour"}"#, -22, "one of size|"),
        (r#"{"prefix": "osd pool set", "pool": "rbd", "var": "pg_num", "val": "many"}"#, -22, "'many'"),
        (r#"{"prefix": "osd blocklist", "blocklistop": "add", "addr": "nowhere"}"#, -22, "an address"),
        (r#"{"prefix": "osd dump", "epoch": 99}"#, -2, "epoch 99"),
        (r#"{"prefix": "osd getmap", "epoch": 99999999999}"#, -2, "epoch 99999999999"),
        (r#"{"prefix": "config set", "who": "client", "name": "a b;", "value": "1"}"#, -22, "letters"),
        (&long, -22, "bound"),
    ] {
        let (actual, status, output) = net.command(client, command);
        let shown: String = command.chars().take(80).collect();
        assert_eq!(actual, result, "{shown}: {status}");
        assert!(status.contains(said), "{shown}: {status}");
        assert!(output.is_empty());
    }
    assert_eq!(net.json(client, r#""prefix": "fsid""#)["fsid"], Uuid([7; 16]).to_string());
}

#[test]
fn a_pool_may_have_more_copies_than_there_are_osds() {
    let mut net = Net::new();
    let client = net.client(MON);
    let state = |net: &mut Net| {
        let groups = net.json(client, r#""prefix": "pg ls-by-pool", "poolstr": "rbd""#);
        groups["pg_stats"][0]["state"].as_str().unwrap().to_owned()
    };
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "size", "val": "2""#);
    assert_eq!(state(&mut net), "active+undersized");
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "size", "val": "3""#);
    assert_eq!(state(&mut net), "undersized+peered", "one of two copies at least is missing");
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "min_size", "val": "1""#);
    assert_eq!(state(&mut net), "active+undersized");
    net.done(client, r#""prefix": "osd pool create", "pool": "other", "size": 10"#);
}

#[test]
fn the_flag_eio_is_set_shown_and_cleared() {
    let mut net = Net::new();
    let client = net.client(MON);
    let flags =
        |net: &mut Net| net.json(client, r#""prefix": "osd dump""#)["pools"][0]["flags_names"].clone();
    assert_eq!(flags(&mut net), "hashpspool");
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "eio", "val": "true""#);
    assert_eq!(flags(&mut net), "hashpspool,eio");
    assert_eq!(net.json(client, r#""prefix": "osd pool get", "pool": "rbd", "var": "eio""#)["eio"], true);
    assert_eq!(net.machine.osdmap().unwrap().pools[&1].flags, 1 | 1 << 16);
    net.done(client, r#""prefix": "osd pool set", "pool": "rbd", "var": "eio", "val": "false""#);
    assert_eq!(flags(&mut net), "hashpspool");
}

#[test]
fn settings_reach_the_clients_that_they_are_for() {
    let mut net = Net::new();
    let client = net.client(MON);
    let what = [("config".to_owned(), Subscription { start: 0, once: false })].into();
    net.send(client, 0, &Subscribe { what, hostname: String::new() });
    net.receive::<Config>(client).unwrap();
    for (who, value) in [("global", "1"), ("osd", "2"), ("client.admin", "3"), ("client", "4")] {
        net.done(
            client,
            &format!(r#""prefix": "config set", "who": "{who}", "name": "debug ms", "value": "{value}""#),
        );
    }
    let what = [("config".to_owned(), Subscription { start: 0, once: false })].into();
    net.send(client, 0, &Subscribe { what, hostname: String::new() });
    let settings = net.receive::<Config>(client).unwrap().1.settings;
    assert_eq!(settings, [("debug_ms".to_owned(), "3".to_owned())].into());
    assert_eq!(net.json(client, r#""prefix": "config get", "who": "client.other", "key": "debug_ms""#), "4");
}

#[test]
fn every_command_answers_in_every_format() {
    let mut net = Net::new();
    let client = net.client(MON);
    let (_, _, described) = net.command(client, r#"{"prefix": "get_command_descriptions"}"#);
    let described: serde_json::Value = serde_json::from_slice(&described).unwrap();
    let values = [
        ("pool", "rbd"),
        ("poolstr", "rbd"),
        ("object", "thing"),
        ("id", "0"),
        ("who", "client"),
        ("pgid", "1.5"),
        ("var", "size"),
        ("srcpool", "rbd"),
        ("destpool", "other"),
    ];
    let mut asked = 0;
    for one in described.as_object().unwrap().values().filter(|one| one["perm"] == "r") {
        let signature = one["sig"].as_array().unwrap();
        let words: Vec<&str> = signature.iter().filter_map(serde_json::Value::as_str).collect();
        let mut fields = serde_json::Map::from_iter([("prefix".to_owned(), words.join(" ").into())]);
        for arg in signature.iter().filter(|arg| arg.is_object() && arg["req"] != "false") {
            let name = arg["name"].as_str().unwrap();
            let value = values.iter().find(|(known, _)| *known == name).map_or("x", |(_, value)| value);
            fields.insert(name.into(), value.into());
        }
        for format in ["plain", "json", "json-pretty"] {
            fields.insert("format".into(), format.into());
            let (result, status, output) =
                net.command(client, &serde_json::Value::from(fields.clone()).to_string());
            let words = words.join(" ");
            let missing = words.starts_with("auth get") || words.starts_with("config-key");
            assert!(result == 0 || missing, "{words}: {status}");
            let binary = words.contains("getmap") || words.contains("getcrushmap");
            if format != "plain" && result == 0 && !binary {
                serde_json::from_slice::<serde_json::Value>(&output).unwrap_or_else(|_| panic!("{words}"));
            }
            asked += 1;
        }
    }
    assert!(asked > 100);
}

/// A client whose connection ends when it gives a command gives it again on the next, without end.
#[test]
fn a_command_that_is_too_large_is_answered_and_the_session_goes_on() {
    let mut net = Net::new();
    let client = net.client(MON);
    let set = r#"{"prefix": "config-key set", "key": "k"}"#;
    let (result, status, _) = net.command_with(client, set, &"v".repeat((16 << 20) + 1));
    assert_eq!(
        (result, status.as_str()),
        (-27, "the command's input has 16777217 bytes, the most is 16777216")
    );
    let long = format!(r#"{{"prefix": "config-key set", "key": "k", "val": "{}"}}"#, "v".repeat(2 << 20));
    assert_eq!(net.command(client, &long).0, -22);
    net.done(client, r#""prefix": "config-key ls""#);
}
