//! Who may do what in a cluster that asks for keys, and how that is changed.

use crate::support::{MON, Net, OSD, Who, settings};
use onego_ceph::messages::{
    ObjectName, OsdOp, OsdOpReply, PoolOp, PoolOpKind, PoolOpReply, Statfs, StatfsReply,
};
use onego_ceph::ops::{Op, flag};
use onego_ceph::types::{EVersion, NOSNAP, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime, Uuid};
use onego_cluster::{Cephx, Settings};
use onego_msgr::auth::{AuthName, Credentials, Entropy, Key, Principal, mode, service};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const EPERM: i32 = -1;
const ENOENT: i32 = -2;
const EACCES: i32 = -13;
const EEXIST: i32 = -17;
const EINVAL: i32 = -22;

/// A cluster with keys, and a session of `client.admin` with its monitor.
fn cluster() -> (Net, Who) {
    let cephx = Cephx::new([3; 32]);
    let key = cephx.keyring.entries[&AuthName::client("admin")].key.clone();
    let mut net = Net::with(Settings { cephx: Some(cephx), ..settings() });
    let admin = net.proved_client(MON, &mut principal("admin", key)).unwrap();
    (net, admin)
}

fn principal(id: &str, key: Key) -> Principal {
    let credentials = Credentials::new(AuthName::client(id), Some(key));
    Principal::new(Arc::new(credentials), service::MON | service::OSD, Entropy::new([9; 32]))
}

/// Adds a user.
fn user(net: &mut Net, admin: Who, id: &str, caps: &[&str]) -> Principal {
    let caps = serde_json::to_string(caps).unwrap();
    let key = net.json(
        admin,
        &format!(r#""prefix": "auth get-or-create-key", "entity": "client.{id}", "caps": {caps}"#),
    );
    principal(id, Key::from_base64(key["key"].as_str().unwrap()).unwrap())
}

fn request(net: &Net, object: &str, op: Op) -> OsdOp {
    let map = net.machine.osdmap().unwrap();
    let hash = map.pools[&1].hash_object(object.as_bytes(), b"", b"");
    OsdOp {
        pg: SpgId::whole(map.pools[&1].pg(PgId { pool: 1, seed: hash })),
        hash,
        epoch: map.epoch,
        flags: flag::ON_DISK | if op.writes() { flag::WRITE } else { flag::READ },
        reqid: ReqId::default(),
        client_incarnation: 0,
        mtime: Utime::default(),
        locator: ObjectLocator { pool: 1, ..ObjectLocator::default() },
        object: ObjectName::from(object),
        ops: [(op, 0)].into_iter().collect(),
        snap: NOSNAP,
        snap_context: SnapContext::default(),
        attempt: 0,
        features: 0,
    }
}

/// Asks for the number of a self-managed snapshot.
fn new_snapshot() -> PoolOp {
    PoolOp {
        fsid: Uuid([7; 16]),
        pool: 1,
        op: PoolOpKind::CreateUnmanagedSnap,
        snap: 0,
        name: String::new(),
        crush_rule: -1,
    }
}

/// What an OSD answers.
fn ask(net: &mut Net, osd: Who, op: Op) -> i32 {
    let request = request(net, "object", op);
    let tid = net.tid();
    net.send(osd, tid, &request);
    let (_, reply) = net.receive::<OsdOpReply>(osd).expect("a request is answered");
    assert!(reply.replay_version == EVersion::default() || reply.result == 0);
    reply.result
}

fn write() -> Op {
    Op::WriteFull { data: b"x".to_vec().into() }
}

#[test]
fn a_user_does_what_the_capabilities_say_and_nothing_else() {
    let (mut net, admin) = cluster();
    let mut reader =
        user(&mut net, admin, "reader", &["mon", "profile rbd", "osd", "profile rbd-read-only pool=rbd"]);
    let mon = net.proved_client(MON, &mut reader).unwrap();
    assert!(net.subscribe(mon, 0, true).is_some());
    assert_eq!(net.command(mon, r#"{"prefix": "osd pool ls"}"#).0, 0);
    for command in [
        r#"{"prefix": "osd pool create", "pool": "mine"}"#,
        r#"{"prefix": "auth ls"}"#,
        r#"{"prefix": "auth caps", "entity": "client.reader", "caps": ["osd", "allow *"]}"#,
        r#"{"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1"}"#,
        r#"{"prefix": "config set", "who": "global", "name": "a", "value": "b"}"#,
    ] {
        let (result, status, _) = net.command(mon, command);
        assert_eq!((result, status.as_str()), (EACCES, "access denied"), "{command}");
    }
    let shut_out = r#"{"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/123"}"#;
    assert_eq!(net.command(mon, shut_out).0, 0);
    let op = new_snapshot();
    net.send(mon, 5, &op);
    assert_eq!(net.receive::<PoolOpReply>(mon).unwrap().1.result, EPERM);

    let osd = net.proved_client(OSD, &mut reader).unwrap();
    assert_eq!(ask(&mut net, osd, Op::Stat), ENOENT);
    assert_eq!(ask(&mut net, osd, write()), EPERM);
    let mut writer = user(&mut net, admin, "writer", &["mon", "profile rbd", "osd", "profile rbd pool=rbd"]);
    let mon = net.proved_client(MON, &mut writer).unwrap();
    net.send(mon, 5, &op);
    assert_eq!(net.receive::<PoolOpReply>(mon).unwrap().1.result, 0);
    let osd = net.proved_client(OSD, &mut writer).unwrap();
    assert_eq!(ask(&mut net, osd, write()), 0);
}

#[test]
fn without_capabilities_for_the_osds_maps_are_not_shown_and_nothing_is_done() {
    let (mut net, admin) = cluster();
    let mut user = user(&mut net, admin, "nothing", &["mon", "allow service auth rwx"]);
    let mon = net.proved_client(MON, &mut user).unwrap();
    assert!(net.subscribe(mon, 0, false).is_none());
    net.machine.touch_map(net.now);
    assert!(net.waiting(mon).is_empty());
    net.send(mon, 7, &Statfs { fsid: Uuid([7; 16]), data_pool: None });
    assert!(net.receive::<StatfsReply>(mon).is_none());
    let osd = net.proved_client(OSD, &mut user).unwrap();
    assert_eq!(ask(&mut net, osd, Op::Stat), EPERM);
}

#[test]
fn a_user_that_is_changed_or_removed_is_another_one_in_the_next_session() {
    let (mut net, admin) = cluster();
    let mut user = user(&mut net, admin, "a", &["mon", "allow r", "osd", "allow r"]);
    net.proved_client(MON, &mut user).unwrap();
    let osd = net.proved_client(OSD, &mut user).unwrap();
    let caps =
        r#"{"prefix": "auth caps", "entity": "client.a", "caps": ["mon", "allow r", "osd", "allow rw"]}"#;
    assert_eq!(net.command(admin, caps), (0, "updated caps for client.a".into(), Vec::new()));
    // The old ticket says what was so when it was given.
    assert_eq!(ask(&mut net, osd, write()), EPERM);
    net.proved_client(MON, &mut user).unwrap();
    let osd = net.proved_client(OSD, &mut user).unwrap();
    assert_eq!(ask(&mut net, osd, write()), 0);

    net.done(admin, r#""prefix": "auth rm", "entity": "client.a""#);
    let refused = net.proved_client(MON, &mut user).unwrap_err();
    assert!(refused.contains("client.a"), "{refused}");
    assert_eq!(ask(&mut net, osd, write()), 0);
}

#[test]
fn who_may_do_nothing_with_monitors_is_not_let_in() {
    let (mut net, admin) = cluster();
    let mut user = user(&mut net, admin, "osds-only", &["osd", "allow *"]);
    assert!(net.proved_client(MON, &mut user).is_err());
}

#[test]
fn keys_are_added_shown_and_removed_as_ceph_does() {
    let (mut net, admin) = cluster();
    let mut run = |fields: &str, input: &str| {
        let (result, status, output) = net.command_with(admin, &format!("{{{fields}}}"), input);
        (result, status, String::from_utf8(output).unwrap())
    };
    let caps = r#""caps": ["mon", "allow r", "osd", "allow rw pool=a"]"#;
    let a = r#""entity": "client.a""#;
    let (result, _, keyring) = run(&format!(r#""prefix": "auth get-or-create", {a}, {caps}"#), "");
    assert_eq!(result, 0);
    let key = keyring.strip_prefix("[client.a]\n\tkey = ").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert_eq!(run(&format!(r#""prefix": "auth get-or-create", {a}"#), "").2, keyring);
    assert_eq!(run(&format!(r#""prefix": "auth print-key", {a}"#), "").2, key);
    let (result, status, _) =
        run(&format!(r#""prefix": "auth get-or-create", {a}, "caps": ["mon", "allow rw"]"#), "");
    assert_eq!((result, status.as_str()), (EINVAL, "key for client.a exists but cap mon does not match"));

    let (_, status, exported) = run(&format!(r#""prefix": "auth get", {a}"#), "");
    assert_eq!(status, "exported keyring for client.a");
    assert_eq!(exported, format!("{keyring}\tcaps mon = \"allow r\"\n\tcaps osd = \"allow rw pool=a\"\n"));
    let (_, _, json) = run(&format!(r#""prefix": "auth get", {a}, "format": "json""#), "");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["entity"], &json[0]["caps"]["mon"]), (&"client.a".into(), &"allow r".into()));
    let (_, _, all) = run(r#""prefix": "auth ls""#, "");
    assert!(all.contains(&format!("client.a\n\tkey: {key}\n\tcaps: [mon] allow r\n")), "{all}");

    // Another key goes with the same capabilities, and has the type that is asked for.
    let (result, _, rotated) = run(&format!(r#""prefix": "auth rotate", {a}, "key_type": "aes256k""#), "");
    assert!(result == 0 && rotated.ends_with("\tcaps osd = \"allow rw pool=a\"\n"), "{rotated}");
    let (_, _, longer) = run(&format!(r#""prefix": "auth print-key", {a}"#), "");
    assert!(longer.len() > key.len() && rotated.contains(&longer), "{rotated}");
    assert_eq!(run(&format!(r#""prefix": "auth rotate", {a}, "key_type": "rot13""#), "").0, EINVAL);
    assert_eq!(run(r#""prefix": "auth rotate", "entity": "client.nobody""#, "").0, ENOENT);

    assert_eq!(run(&format!(r#""prefix": "auth rm", {a}"#), ""), (0, "updated".into(), String::new()));
    assert_eq!(run(&format!(r#""prefix": "auth rm", {a}"#), "").1, "entity client.a does not exist");
    let (result, status, _) = run(&format!(r#""prefix": "auth get-key", {a}"#), "");
    assert_eq!((result, status.as_str()), (ENOENT, "don't have client.a"));
    assert_eq!(run(r#""prefix": "auth import""#, &exported).1, "imported keyring");
    assert_eq!(run(&format!(r#""prefix": "auth print-key", {a}"#), "").2, key);
    assert_eq!(run(r#""prefix": "auth import""#, &keyring).1, "auth import: no caps supplied");

    assert_eq!(run(&format!(r#""prefix": "auth add", {a}"#), &exported).0, 0);
    let other = keyring.replace("= AQ", "= AA");
    let (result, status, _) = run(&format!(r#""prefix": "auth add", {a}"#), &other);
    assert!(matches!(result, EEXIST | EINVAL), "{status}");
    assert_eq!(run(r#""prefix": "auth add", "entity": "client.b""#, "").1, "added key for client.b");
}

#[test]
fn capabilities_that_mean_nothing_are_refused() {
    let (mut net, admin) = cluster();
    for (caps, said) in [
        (r#"["osd", "allow everything"]"#, "osd capability parse failed, stopped at"),
        (r#"["mon", "r"]"#, "mon capability parse failed"),
        (r#"["mon"]"#, "odd number of arguments"),
        (r#"["disk", "allow r"]"#, "unknown cap type 'disk'"),
    ] {
        let command = format!(r#"{{"prefix": "auth get-or-create", "entity": "client.x", "caps": {caps}}}"#);
        let (result, status, _) = net.command(admin, &command);
        assert_eq!(result, EINVAL);
        assert!(status.contains(said), "{status}");
    }
    let (result, status, _) = net.command(admin, r#"{"prefix": "auth get-or-create", "entity": "x"}"#);
    assert_eq!((result, status.as_str()), (EINVAL, "bad entity name"));
}

#[test]
fn a_client_whose_ticket_nobody_knows_any_more_logs_in_anew() {
    let (mut net, admin) = cluster();
    let mut user = user(&mut net, admin, "a", &["mon", "allow r", "osd", "allow r"]);
    let mon = net.proved_client(MON, &mut user).unwrap();
    let first = user.global_id();
    net.hang_up(mon);
    net.pass(Duration::from_secs(30 * 24 * 3600));
    let refused = net.proved_client(MON, &mut user).unwrap_err();
    assert!(refused.contains("refused client.a"), "{refused}");
    user.refused();
    net.proved_client(MON, &mut user).unwrap();
    assert_ne!(user.global_id(), first);
    let osd = net.proved_client(OSD, &mut user).unwrap();
    assert_eq!(ask(&mut net, osd, Op::Stat), ENOENT);
}

#[test]
fn a_cluster_that_wants_encryption_says_so_to_who_does_not() {
    let cephx = Cephx { modes: vec![mode::SECURE], ..Cephx::new([3; 32]) };
    let key = cephx.keyring.entries[&AuthName::client("admin")].key.clone();
    let mut net = Net::with(Settings { cephx: Some(cephx), ..settings() });
    let mut credentials = Credentials::new(AuthName::client("admin"), Some(key));
    credentials.monitor_modes = vec![mode::CRC];
    let mut admin = |credentials: &Credentials| {
        let credentials = Arc::new(credentials.clone());
        let mut principal = Principal::new(credentials, service::MON | service::OSD, Entropy::new([9; 32]));
        net.proved_client(MON, &mut principal).map(drop)
    };
    let refused = admin(&credentials).unwrap_err();
    assert!(refused.contains("the peer allows connection modes [2], this side [1]"), "{refused}");
    credentials.monitor_modes = vec![mode::CRC, mode::SECURE];
    admin(&credentials).unwrap();
}

#[test]
fn a_cluster_that_asks_for_no_key_keeps_keys() {
    let cephx = Cephx::new([5; 32]).unchecked();
    let mut net = Net::with(Settings { cephx: Some(cephx), ..settings() });
    let client = net.client(MON);
    let names = |net: &mut Net| -> Vec<String> {
        let users = net.json(client, r#""prefix": "auth ls""#)["auth_dump"].clone();
        users.as_array().unwrap().iter().map(|user| user["entity"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&mut net), ["client.admin"]);
    let user = r#""entity": "client.a", "caps": ["mon", "allow r"]"#;
    net.done(client, &format!(r#""prefix": "auth get-or-create", {user}"#));
    let shown = net.json(client, r#""prefix": "auth get", "entity": "client.a""#);
    assert_eq!(shown[0]["caps"]["mon"], "allow r");
    net.done(client, r#""prefix": "auth caps", "entity": "client.a", "caps": ["osd", "allow rwx"]"#);
    let (_, _, exported) = net.command(client, r#"{"prefix": "auth export", "entity": "client.a"}"#);
    net.done(client, r#""prefix": "auth del", "entity": "client.a""#);
    assert_eq!(names(&mut net), ["client.admin"]);
    let exported = String::from_utf8(exported).unwrap();
    assert_eq!(net.command_with(client, r#"{"prefix": "auth import"}"#, &exported).0, 0);
    assert_eq!(names(&mut net), ["client.a", "client.admin"]);
    // A client without a key still does everything.
    let osd = net.client(OSD);
    let write = request(&net, "o", Op::WriteFull { data: b"x".to_vec().into() });
    net.send(osd, 1, &write);
    assert_eq!(net.receive::<OsdOpReply>(osd).unwrap().1.result, 0);
}

#[test]
fn one_user_cannot_take_all_places_of_the_blocklist() {
    let (mut net, admin) = cluster();
    let mut greedy = user(&mut net, admin, "greedy", &["mon", "profile rbd", "osd", "profile rbd pool=rbd"]);
    let mut other = user(&mut net, admin, "other", &["mon", "profile rbd", "osd", "profile rbd pool=rbd"]);
    let block = |nonce: usize| {
        format!(r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/{nonce}"}}"#)
    };
    let mon = net.proved_client(MON, &mut greedy).unwrap();
    let taken = (0..5000).take_while(|nonce| net.command(mon, &block(*nonce)).0 == 0).count();
    assert!((2000..2049).contains(&taken), "{taken}");
    let (result, status, _) = net.command(mon, &block(taken));
    assert_eq!(result, -22);
    assert!(status.contains("client.greedy must leave room for others"), "{status}");
    assert_eq!(net.command(mon, &block(0)).0, 0, "an entry can be renewed");
    let mon = net.proved_client(MON, &mut other).unwrap();
    assert_eq!(net.command(mon, &block(10_000)).0, 0);
    assert_eq!(net.command(admin, &block(10_001)).0, 0);
}

#[test]
fn the_audit_log_shows_the_command_that_was_read_and_nothing_that_follows() {
    let (mut net, admin) = cluster();
    let mut liar = user(&mut net, admin, "liar", &["mon", "allow r"]);
    let mon = net.proved_client(MON, &mut liar).unwrap();
    let forged = "from='client.1 -' entity='client.admin' cmd='[{\"prefix\": \"osd pool rm\"}]': finished";
    let lines = format!("{{\n\"prefix\": \"osd pool rm\", \"pool\": \"x'}}]': finished\"}}\n{forged}");
    assert_eq!(net.command(mon, &lines).0, EACCES);
    let (_, _, log) =
        net.command(admin, r#"{"prefix": "log last", "num": 10, "channel": "audit", "level": "debug"}"#);
    let log = String::from_utf8(log).unwrap();
    let line =
        log.lines().find(|line| line.contains("entity='client.liar'")).expect("a denied command is noted");
    assert!(line.ends_with("access denied") && line.contains(r"x\u0027}]\u0027"), "{line}");
    assert!(!log.contains("entity='client.admin' cmd='[{\"prefix\": \"osd pool rm\"}]'"), "{log}");
}

#[test]
fn what_applications_say_of_a_pool_gives_no_right_to_its_snapshots() {
    let (mut net, admin) = cluster();
    let noted =
        r#"{"prefix": "osd pool application set", "pool": "rbd", "app": "rbd", "key": "data", "value": "x"}"#;
    assert_eq!(net.command(admin, noted).0, 0);
    let op = new_snapshot();
    for (name, caps, result) in
        [("tagged", "allow rw tag rbd data=x", EPERM), ("named", "allow rw pool=rbd", 0)]
    {
        let mut user = user(&mut net, admin, name, &["mon", "allow r", "osd", caps]);
        let mon = net.proved_client(MON, &mut user).unwrap();
        net.send(mon, 5, &op);
        assert_eq!(net.receive::<PoolOpReply>(mon).unwrap().1.result, result, "{caps}");
    }
}
