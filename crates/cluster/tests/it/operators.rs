//! What operators' programs ask of the cluster beside its maps: its log, commands to single daemons, space.

use crate::support::{MGR, MON, Net, OSD, Who, request};
use onego_ceph::messages::{
    Log, LogLevel, OsdOpReply, Properties, ReportConfig, ServiceClose, ServiceOpen, ServiceReport, Statfs,
    StatfsReply, Subscribe, Subscription, kind,
};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::ops::Op;
use onego_ceph::types::Uuid;
use onego_cluster::{NewPool, OsdSettings, Settings};
use onego_msgr::Message;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_wire::{Reader, Writer};
use serde_json::{Value, json};
use std::time::Duration;

const EINVAL: i32 = -22;
const EOPNOTSUPP: i32 = -95;

fn subscribe(net: &mut Net, who: Who, what: &str, start: u64) {
    let what = [(what.to_owned(), Subscription { start, once: false })].into();
    net.send(who, 0, &Subscribe { what, hostname: String::new() });
}

fn log(net: &mut Net, who: Who) -> Option<Log> {
    net.receive::<Log>(who).map(|(_, log)| log)
}

/// A command to a daemon itself, as `ceph tell` gives it: its result, and what it printed.
fn tell(net: &mut Net, who: Who, command: &str) -> (i32, String, Vec<u8>) {
    let mut front = Writer::new();
    Uuid([7; 16]).encode(&mut front);
    vec![command.to_owned()].encode(&mut front);
    net.send_message(who, Message::new(kind::COMMAND, 1, 1, front.into_vec()).with_tid(4));
    for _ in 0..1000 {
        net.pass(Duration::from_millis(1));
        if let Some(reply) = net.receive_raw(who, kind::COMMAND_REPLY) {
            let r = &mut Reader::new(&reply.front);
            let (result, status) = (r.i32("result").unwrap(), r.string("status").unwrap());
            return (result, status, reply.data.to_vec());
        }
    }
    panic!("a command to a daemon is answered")
}

#[test]
fn a_subscription_to_the_log_gets_the_newest_entry_and_what_follows() {
    let mut net = Net::new();
    let (reader, writer) = (net.client(MON), net.client(MON));
    subscribe(&mut net, reader, "log-info", 0);
    let first = log(&mut net, reader).expect("the newest entry comes at once");
    assert_eq!(first.entries.len(), 1);

    net.done(writer, r#""prefix": "log", "logtext": ["it", "rains"]"#);
    let mut texts = Vec::new();
    let mut version = first.version;
    while let Some(log) = log(&mut net, reader) {
        assert!(log.version > version, "versions go up");
        version = log.version;
        texts.extend(log.entries);
    }
    let rain = texts.iter().find(|entry| entry.text == "it rains").expect("the entry arrives");
    assert_eq!((rain.channel.as_str(), rain.level), ("cluster", LogLevel::Info));
    assert_eq!(rain.name.to_string(), "client.admin");
    let audit: Vec<&str> =
        texts.iter().filter(|entry| entry.channel == "audit").map(|entry| entry.text.as_str()).collect();
    assert!(
        audit[0].contains("entity='client.admin' cmd='[{") && audit[0].ends_with(": dispatch"),
        "{audit:?}"
    );

    // What only shows and what is for debugging is for those who want to know that.
    net.json(writer, r#""prefix": "status""#);
    assert!(log(&mut net, reader).is_none());
    subscribe(&mut net, reader, "log-debug", version + 1);
    assert!(log(&mut net, reader).unwrap().entries.iter().any(|entry| entry.text.contains("status")));
    subscribe(&mut net, reader, "log-error", 0);
    net.done(writer, r#""prefix": "log", "logtext": ["quiet"]"#);
    assert!(log(&mut net, reader).is_none(), "a session has one wish at a time");
    net.done(writer, r#""prefix": "log", "logtext": ["loud"], "level": "error""#);
    assert_eq!(log(&mut net, reader).unwrap().entries[0].text, "loud");
}

#[test]
fn the_last_entries_are_shown_by_level_and_channel() {
    let mut net = Net::new();
    let client = net.client(MON);
    for n in 0..1100 {
        let level = ["info", "warn"][n % 2];
        net.done(client, &format!(r#""prefix": "log", "logtext": ["entry {n}"], "level": "{level}""#));
        net.json(client, r#""prefix": "fsid""#);
    }
    let texts = |value: &Value| -> Vec<String> {
        let entries = value.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    };
    let last = net.json(client, r#""prefix": "log last", "num": 3"#);
    assert_eq!(texts(&last), ["entry 1097", "entry 1098", "entry 1099"]);
    assert_eq!((&last[0]["priority"], &last[0]["name"]), (&"[WRN]".into(), &"client.admin".into()));
    assert_eq!(texts(&net.json(client, r#""prefix": "log last""#)).len(), 20);
    let warned = net.json(client, r#""prefix": "log last", "num": 2, "level": "warn""#);
    assert_eq!(texts(&warned), ["entry 1097", "entry 1099"]);
    let audit =
        net.json(client, r#""prefix": "log last", "num": 10000, "level": "debug", "channel": "audit""#);
    assert!(texts(&audit).iter().any(|text| text.contains("fsid")));
    let all = net.json(client, r#""prefix": "log last", "num": 10000, "level": "debug", "channel": "*""#);
    assert_eq!(all.as_array().unwrap().len(), 1250, "the log is bounded");
    let (_, _, plain) = net.command(client, r#"{"prefix": "log last", "num": 1}"#);
    let plain = String::from_utf8(plain).unwrap();
    assert!(
        plain.ends_with(" : cluster [WRN] entry 1099\n") && plain.contains(" client.admin (client."),
        "{plain}"
    );
    let (result, ..) = net.command(client, r#"{"prefix": "log last", "level": "loud"}"#);
    assert_eq!(result, EINVAL);
    // What is too long is cut, between two letters.
    net.done(client, &format!(r#""prefix": "log", "logtext": ["{}"]"#, "ä".repeat(5000)));
    assert_eq!(texts(&net.json(client, r#""prefix": "log last", "num": 1"#))[0].len(), 4096);
}

#[test]
fn daemons_answer_what_they_are_told() {
    let mut net = Net::new();
    let (mon, osd) = (net.client(MON), net.client(OSD));
    let (result, _, output) = tell(&mut net, mon, r#"{"prefix": "version"}"#);
    let version: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((result, &version["release"]), (0, &"pacific".into()));
    let (result, _, output) = tell(&mut net, mon, r#"{"prefix": "fsid"}"#);
    assert_eq!((result, output), (0, format!("{}\n", Uuid([7; 16])).into_bytes()));
    let (result, _, output) = tell(&mut net, mon, r#"{"prefix": "mon_status"}"#);
    let status: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(
        (result, &status["name"], &status["monmap"]["mons"][0]["name"]),
        (0, &"a".into(), &"a".into())
    );
    assert_eq!(net.json(mon, r#""prefix": "service dump""#)["services"], serde_json::json!({}));
    assert_eq!(tell(&mut net, mon, r#"{"prefix": "fly"}"#).0, EINVAL);

    let (result, _, output) = tell(&mut net, osd, r#"{"prefix": "version", "format": "json"}"#);
    assert_eq!((result, serde_json::from_slice::<Value>(&output).unwrap()), (0, version));
    let (result, status, _) = tell(&mut net, osd, r#"{"prefix": "injectargs", "injected_args": ["--x"]}"#);
    assert!(result == EOPNOTSUPP && status.contains("'injectargs'"), "{status}");
    assert_eq!(tell(&mut net, osd, "nonsense").0, EINVAL);
    let (_, _, output) = tell(&mut net, osd, r#"{"prefix": "get_command_descriptions"}"#);
    let described: Value = serde_json::from_slice(&output).unwrap();
    let described = described.as_object().unwrap();
    assert!(described.values().any(|one| one["sig"][0] == "bench"));
    // `ceph tell PGID query` adds the group after it has checked the words.
    let query = described.values().find(|one| one["sig"][0] == "query").unwrap();
    assert_eq!(query["sig"][1]["req"], "false");
}

#[test]
fn a_group_is_described_by_its_primary() {
    let mut net = Net::new();
    let osd = net.client(OSD);
    let write = request(&net, "thing", [Op::WriteFull { data: b"data".to_vec().into() }]);
    let pg = write.pg.pg.to_string();
    net.send(osd, 9, &write);
    assert_eq!(net.receive::<OsdOpReply>(osd).unwrap().1.result, 0);
    let old = format!(r#"{{"prefix": "pg", "pgid": "{pg}", "cmd": "query"}}"#);
    let new = format!(r#"{{"prefix": "query", "pgid": "{pg}", "format": "json"}}"#);
    for command in [old, new] {
        let (result, status, output) = tell(&mut net, osd, &command);
        assert_eq!(result, 0, "{status}");
        let said: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!((&said["state"], &said["acting"]), (&json!("active+clean"), &json!([0])));
        let info = &said["info"];
        assert_eq!((&info["pgid"], &info["last_user_version"]), (&json!(pg), &json!(1)));
        assert_eq!(info["last_update"], info["last_complete"]);
        assert_eq!(info["stats"]["stat_sum"]["num_objects"], json!(1));
        assert_eq!(said["recovery_state"][0]["name"], json!("Started/Primary/Active"));
    }
    for (pg, expected) in [("1.99", -2), ("77.0", -2), ("1", EINVAL), ("", EINVAL)] {
        let (result, ..) = tell(&mut net, osd, &format!(r#"{{"prefix": "query", "pgid": "{pg}"}}"#));
        assert_eq!(result, expected, "{pg}");
    }
}

#[test]
fn daemons_of_services_are_shown_until_they_leave() {
    let mut net = Net::new();
    let mon = net.client(MON);
    let properties = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Properties>()
    };
    let daemons: Vec<(Who, String)> = ["a", "b"]
        .map(|host| {
            let (who, daemon) = (net.client(MGR), format!("gateway.{host}"));
            let metadata = properties(&[("daemon_type", "portal"), ("hostname", host), ("zone_id", "z")]);
            let registration = Some((metadata, Properties::new()));
            let open = ServiceOpen { daemon: daemon.clone(), service: "iscsi".into(), registration };
            net.send(who, 0, &open);
            assert_eq!(net.receive::<ReportConfig>(who).unwrap().1.period, 5);
            (who, daemon)
        })
        .into();
    let status = net.json(mon, r#""prefix": "status""#);
    let shown = &status["servicemap"]["services"]["iscsi"]["daemons"];
    assert_eq!(shown["gateway.b"]["metadata"]["hostname"], json!("b"));
    assert_eq!(net.json(mon, r#""prefix": "service dump""#)["services"], status["servicemap"]["services"]);
    let plain = |net: &mut Net| String::from_utf8(net.command(mon, r#"{"prefix": "status"}"#).2).unwrap();
    let text = plain(&mut net);
    assert!(text.contains("    iscsi: 2 portals active (2 hosts, 1 zones)\n"), "{text}");
    assert!(text.contains("    osd:   1 osds"), "{text}");

    let (who, daemon) = daemons[0].clone();
    let status = Some(properties(&[("sessions", "7")]));
    net.send(who, 0, &ServiceReport { daemon: daemon.clone(), service: "iscsi".into(), status });
    net.run();
    let states = net.json(mon, r#""prefix": "service status""#);
    assert_eq!(states["iscsi"]["gateway.a"]["status"], json!({"sessions": "7"}));
    let close = ServiceClose { daemon, service: "iscsi".into() };
    net.send(who, 5, &close);
    assert_eq!(net.receive::<ServiceClose>(who).unwrap(), (5, close));
    let text = plain(&mut net);
    assert!(text.contains("    iscsi: 1 portal active (1 hosts, 1 zones)\n"), "{text}");
}

#[test]
fn an_osd_is_measured_and_serves_meanwhile() {
    let mut net = Net::new();
    let osd = net.client(OSD);
    let (result, _, output) = tell(&mut net, osd, r#"{"prefix": "bench", "size": 4096, "count": 8192}"#);
    let said: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((result, &said["blocksize"], &said["bytes_written"]), (0, &json!(4096), &json!(8192)));
    assert!(said["elapsed_sec"].as_f64().unwrap() > 0.0 && said["iops"].as_f64().unwrap() > 0.0, "{said}");
    // A large one takes many turns; nothing of it stays.
    let (result, _, output) = tell(&mut net, osd, r#"{"prefix": "bench", "count": 104857600}"#);
    let said: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((result, &said["bytes_written"]), (0, &json!(100 << 20)));
    for (fields, what) in [
        (r#""size": 0"#, "'size' is from 1"),
        (r#""size": 100000000"#, "'size' is from 1"),
        (r#""size": 4096, "count": 1000000000"#, "'count' is from 1 to 12288000"),
        (r#""count": 0"#, "'count' is from 1"),
        (r#""count": "many""#, "whole number"),
    ] {
        let (result, status, _) = tell(&mut net, osd, &format!(r#"{{"prefix": "bench", {fields}}}"#));
        assert!(result == EINVAL && status.contains(what), "{fields}: {status}");
    }
}

#[test]
fn space_is_counted_with_all_copies() {
    let osd = |n: u8| OsdSettings {
        uuid: Uuid([n; 16]),
        addrs: format!("v2:127.0.0.1:68{n:02}/1000").parse().unwrap(),
    };
    let three = NewPool { size: Some(3), ..NewPool::for_images("rbd") };
    let one = NewPool { size: Some(1), ..NewPool::for_images("single") };
    let mut net = Net::with(Settings {
        osds: (0..3).map(osd).collect(),
        pools: vec![three, one],
        ..crate::support::settings()
    });
    let mon = net.client(MON);
    let df = net.json(mon, r#""prefix": "df""#);
    let raw = df["pools"][1]["stats"]["max_avail"].as_u64().unwrap();
    assert_eq!(df["pools"][0]["stats"]["max_avail"].as_u64().unwrap(), raw / 3);
    // Of three OSDs with 64 MiB each, 95 % can be filled.
    let full = (3 << 20) * 64 * 95 / 100;
    assert!((full - (1 << 20)..=full).contains(&raw), "{raw}");
    let mut space = |data_pool| {
        net.send(mon, 10, &Statfs { fsid: Uuid([7; 16]), data_pool });
        net.receive::<StatfsReply>(mon).unwrap().1
    };
    assert_eq!(space(Some(1)).kb_avail, raw / 3 / 1024);
    assert!(space(None).kb_used > 0, "an empty cluster takes memory, too");
}

#[test]
fn values_are_kept_by_keys_and_their_text_is_in_no_log() {
    let mut net = Net::new();
    let mon = net.client(MON);
    net.done(mon, r#""prefix": "config-key set", "key": "mgr/a", "val": "sesame""#);
    let (result, ..) =
        net.command_with(mon, r#"{"prefix": "config-key put", "key": "mgr/b"}"#, "\u{7f}input");
    assert_eq!(result, 0);
    let (_, _, value) = net.command(mon, r#"{"prefix": "config-key get", "key": "mgr/a"}"#);
    assert_eq!(value, b"sesame");
    assert_eq!(net.json(mon, r#""prefix": "config-key ls""#), json!(["mgr/a", "mgr/b"]));
    let dump = net.json(mon, r#""prefix": "config-key dump", "key": "mgr/b""#);
    assert_eq!(dump, json!({"mgr/b": "\u{7f}input"}));
    net.done(mon, r#""prefix": "config-key exists", "key": "mgr/a""#);
    net.done(mon, r#""prefix": "config-key rm", "key": "mgr/a""#);
    for prefix in ["config-key exists", "config-key get"] {
        assert_eq!(net.command(mon, &format!(r#"{{"prefix": "{prefix}", "key": "mgr/a"}}"#)).0, -2);
    }
    let (result, status, _) =
        net.command_with(mon, r#"{"prefix": "config-key set", "key": "c"}"#, &"x".repeat(65_537));
    assert!(result == -27 && status.contains("65536"), "{status}");
    let audit = net.json(mon, r#""prefix": "log last", "num": 100, "level": "debug", "channel": "audit""#);
    assert!(audit.to_string().contains("config-key set") && !audit.to_string().contains("sesame"), "{audit}");
}

#[test]
fn placement_groups_are_listed_by_pool_osd_and_state() {
    let mut net = Net::new();
    let mon = net.client(MON);
    net.done(mon, r#""prefix": "osd pool create", "pool": "small", "pg_num": 4"#);
    let mut count = |fields: &str| {
        let listed = net.json(mon, fields);
        listed["pg_stats"].as_array().unwrap().len()
    };
    assert_eq!(count(r#""prefix": "pg ls""#), 36);
    assert_eq!(count(r#""prefix": "pg ls", "pool": 2"#), 4);
    assert_eq!(count(r#""prefix": "pg ls-by-pool", "poolstr": "small", "states": ["clean"]"#), 4);
    assert_eq!(count(r#""prefix": "pg ls", "states": ["degraded"]"#), 0);
    assert_eq!(count(r#""prefix": "pg ls-by-osd", "id": "osd.0""#), 36);
    assert_eq!(count(r#""prefix": "pg ls-by-primary", "id": "0", "pool": 1"#), 32);
    assert_eq!(net.command(mon, r#"{"prefix": "pg ls", "pool": 9}"#).0, -2);
    assert_eq!(net.command(mon, r#"{"prefix": "pg ls-by-osd", "id": "7"}"#).0, -2);
}

#[test]
fn what_ceph_can_do_and_the_cluster_cannot_is_refused_with_its_reason() {
    let mut net = Net::new();
    let mon = net.client(MON);
    for (command, why) in [
        ("osd tier add", "cache tiers"),
        ("osd erasure-code-profile set", "erasure-coded"),
        ("osd crush weight-set create", "item by item"),
        ("osd crush set-device-class", "no device classes"),
        ("osd setcrushmap", "item by item"),
        ("osd reweight-by-utilization", "balancing"),
        ("fs new", "file systems"),
        ("mgr module enable", "no modules"),
        ("pg deep-scrub", "scrub"),
        ("mon add", "started with"),
    ] {
        let (result, status, _) = net.command(mon, &format!(r#"{{"prefix": "{command}"}}"#));
        assert!(result == EOPNOTSUPP && status.contains(why), "{command}: {result} {status}");
    }
    assert_eq!(net.command(mon, r#"{"prefix": "osd tierce"}"#).0, EINVAL);
}

/// A command to the manager, in one of the two forms that clients have for it, and its answer.
fn ask_manager(net: &mut Net, who: Who, form: (u16, u16), command: &str) -> (i32, String, Vec<u8>) {
    let mut front = Writer::new();
    Uuid([0; 16]).encode(&mut front);
    vec![command.to_owned()].encode(&mut front);
    net.send_message(who, Message::new(form.0, 1, 1, front.into_vec()).with_tid(9));
    let reply = net.receive_raw(who, form.1).expect("the manager answers at once");
    assert_eq!(reply.header.tid, 9);
    let r = &mut Reader::new(&reply.front);
    (r.i32("result").unwrap(), r.string("status").unwrap(), reply.data.to_vec())
}

#[test]
fn the_manager_is_in_its_map_and_answers_what_shows_groups_and_osds() {
    let mut net = Net::new();
    let client = net.client(MON);
    subscribe(&mut net, client, "mgrmap", 0);
    let map = net.receive_raw(client, kind::MGR_MAP).expect("the map comes at once");
    let map = MgrMap::from_bytes(&map.front).unwrap();
    assert!(map.available && map.active_gid != 0);
    assert_eq!(map.active_addrs, net.machine.addresses().unwrap().mgr);
    assert_eq!(net.json(client, r#""prefix": "mgr stat""#)["active_name"], map.active_name);

    let manager = net.client(MGR);
    for form in [(kind::COMMAND, kind::COMMAND_REPLY), (kind::MGR_COMMAND, kind::MGR_COMMAND_REPLY)] {
        let (result, _, output) =
            ask_manager(&mut net, manager, form, r#"{"prefix": "pg ls", "format": "json"}"#);
        let groups: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!((result, groups["pg_stats"].as_array().map(Vec::len)), (0, Some(32)));
        assert_eq!(ask_manager(&mut net, manager, form, r#"{"prefix": "osd df"}"#).0, 0);
    }
    let form = (kind::MGR_COMMAND, kind::MGR_COMMAND_REPLY);
    let (_, _, output) = ask_manager(&mut net, manager, form, r#"{"prefix": "get_command_descriptions"}"#);
    let known: Value = serde_json::from_slice(&output).unwrap();
    assert!(known.as_object().unwrap().values().any(|one| one["sig"][0] == "pg" && one["sig"][1] == "dump"));
    assert!(known.as_object().unwrap().values().all(|one| one["perm"] == "r"), "it changes nothing");

    // What changes something, and what only modules do, is refused at once.
    for refused in ["osd pool create", "auth ls", "balancer status", "rbd perf image stats"] {
        let (result, status, _) =
            ask_manager(&mut net, manager, form, &format!(r#"{{"prefix": "{refused}", "pool": "x"}}"#));
        assert!(result == EOPNOTSUPP && status.contains("manager"), "{refused}: {result} {status}");
    }
    assert_eq!(ask_manager(&mut net, manager, form, r#"{"prefix": "fly"}"#).0, EINVAL);
    // `rbd perf image` ends its command with a brace too many, which Ceph's parser does not look at.
    let command = r#"{"prefix": "pg stat"} }"#;
    assert_eq!(ask_manager(&mut net, manager, form, command).0, 0);
    // A real manager is told much by daemons, and so is this one.
    net.send_message(manager, Message::new(0x700, 1, 1, Vec::new()));
    net.run();
    assert!(!net.is_closed(manager));
}
