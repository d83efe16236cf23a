//! Requests to the OSD through the whole cluster: maps that are out of date, lives of the OSD, bounds, bad input.

use crate::support::{MON, Net, OSD, OSD_MAP, OSD_OP_REPLY, Who, request};
use onego_ceph::messages::{MapUpdate, OsdOp, OsdOpReply};
use onego_ceph::ops::{Op, WatchOp, flag};
use onego_ceph::osdmap::{pool_flag, state};
use onego_ceph::types::{PgId, Uuid};
use onego_cluster::{NewPool, OsdSettings, Settings};
use onego_msgr::addr::EntityAddr;
use onego_wire::Machine;
use std::time::Duration;

fn write(net: &Net, name: &str, data: Vec<u8>) -> OsdOp {
    request(net, name, [Op::WriteFull { data: data.into() }])
}

fn read(net: &Net, name: &str) -> OsdOp {
    request(net, name, [Op::Read { offset: 0, length: 0 }])
}

fn ask(net: &mut Net, who: Who, op: &OsdOp) -> Option<OsdOpReply> {
    let tid = net.tid();
    net.send(who, tid, op);
    net.receive::<OsdOpReply>(who).map(|(_, reply)| reply)
}

#[test]
fn what_is_written_is_read_by_another() {
    let mut net = Net::new();
    let (writer, reader) = (net.client(OSD), net.client(OSD));
    // Below and above the size from which payloads get memory of their own, and over several receives.
    for (name, len) in [("small", 100), ("page", 4096), ("large", 5 << 20)] {
        let data: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
        let op = write(&net, name, data.clone());
        assert_eq!(ask(&mut net, writer, &op).unwrap().result, 0);
        let op = read(&net, name);
        let reply = ask(&mut net, reader, &op).unwrap();
        assert_eq!((reply.result, reply.ops[0].output.to_vec() == data), (0, true), "{name}");
    }
    assert_eq!(net.machine.usage().objects(), 3);
}

#[test]
fn a_client_with_an_old_map_is_served_and_told_of_the_new_one_once() {
    let mut net = Net::new();
    let client = net.client(OSD);
    let op = write(&net, "thing", vec![1; 10]);
    net.machine.touch_map(net.now);
    net.machine.touch_map(net.now);
    net.send(client, 1, &op);
    net.send(client, 2, &op);
    assert_eq!(net.waiting(client), [OSD_MAP, OSD_OP_REPLY, OSD_OP_REPLY]);
    let (_, update) = net.receive::<MapUpdate>(client).unwrap();
    assert_eq!(update.incrementals.keys().copied().collect::<Vec<_>>(), [op.epoch + 1, op.epoch + 2]);
}

#[test]
fn a_request_of_before_a_split_is_dropped_and_the_same_after_it_is_done() {
    let mut net = Net::new();
    let client = net.client(OSD);
    let old = write(&net, "thing", vec![1; 10]);
    net.machine.set_pg_num(net.now, 1, 64);
    net.send(client, 1, &old);
    assert_eq!(net.waiting(client), [OSD_MAP]);
    assert_eq!(net.machine.usage().objects(), 0);
    let new = write(&net, "thing", vec![1; 10]);
    assert_eq!(ask(&mut net, client, &new).unwrap().result, 0);
}

#[test]
fn a_request_for_a_pool_that_is_gone_is_dropped_and_what_it_held_is_free() {
    let mut net = Net::new();
    let (client, admin) = (net.client(OSD), net.client(MON));
    let op = write(&net, "thing", vec![1; 1 << 20]);
    ask(&mut net, client, &op).unwrap();
    assert!(net.machine.usage().used > 1 << 20);
    net.done(
        admin,
        r#""prefix": "osd pool rm", "pool": "rbd", "pool2": "rbd", "yes_i_really_really_mean_it": true"#,
    );
    assert!(net.machine.usage().used < 4096);
    net.send(client, 2, &op);
    assert_eq!(net.waiting(client), [OSD_MAP]);
}

#[test]
fn a_request_from_the_future_ends_the_connection_and_no_other() {
    let mut net = Net::new();
    let (client, other) = (net.client(OSD), net.client(OSD));
    let mut op = write(&net, "thing", vec![1]);
    op.epoch += 1;
    assert!(ask(&mut net, client, &op).is_none());
    assert!(net.is_closed(client));
    op.epoch -= 1;
    assert_eq!(ask(&mut net, other, &op).unwrap().result, 0);
}

#[test]
fn a_new_life_of_the_osd_breaks_connections_and_keeps_objects() {
    let mut net = Net::new();
    let client = net.client(OSD);
    let op = write(&net, "thing", b"still here".to_vec());
    ask(&mut net, client, &op).unwrap();
    net.machine.stop_osd(net.now, 0);
    net.run();
    assert!(net.is_closed(client));
    assert!(!net.machine.osdmap().unwrap().is_up(0));
    assert!(net.try_client(OSD).is_none(), "an OSD that is down takes no connection");
    let health = {
        let admin = net.client(MON);
        net.json(admin, r#""prefix": "health""#)
    };
    assert_eq!(health["checks"]["OSD_DOWN"]["severity"], "HEALTH_WARN");

    net.machine.start_osd(net.now, 0);
    let client = net.client(OSD);
    assert!(ask(&mut net, client, &op).is_none(), "requests of before its life are dropped");
    let op = read(&net, "thing");
    assert_eq!(ask(&mut net, client, &op).unwrap().ops[0].output.to_vec(), b"still here");
}

#[test]
fn a_client_that_is_shut_out_gets_in_again_when_its_time_is_up() {
    let mut net = Net::new();
    let (client, admin) = (net.client(OSD), net.client(MON));
    let addr: EntityAddr = "127.0.0.1:0/77".parse().unwrap();
    net.done(
        admin,
        &format!(r#""prefix": "osd blocklist", "blocklistop": "add", "addr": "{addr}", "expire": 60"#),
    );
    let op = read(&net, "thing");
    assert_eq!(ask(&mut net, client, &op).unwrap().result, -108);
    net.pass(Duration::from_secs(61));
    assert!(net.machine.osdmap().unwrap().blocklist.is_empty());
    let op = read(&net, "thing");
    assert_eq!(ask(&mut net, client, &op).unwrap().result, -2);
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let mut net = Net::new();
    let (client, other) = (net.client(OSD), net.client(OSD));
    let op = write(&net, "thing", vec![1; 128 << 10]);
    ask(&mut net, client, &op).unwrap();
    let op = read(&net, "thing");
    net.set_reads(client, false);
    for tid in 0..5000 {
        net.send(client, tid, &op);
    }
    net.run();
    assert!(net.backlog(client) > 100_000, "only {} bytes are held back", net.backlog(client));
    assert_eq!(ask(&mut net, other, &op).unwrap().result, 0);
    net.set_reads(client, true);
    let mut answers = 0;
    while net.receive::<OsdOpReply>(client).is_some() {
        answers += 1;
    }
    assert_eq!((answers, net.backlog(client)), (5000, 0));
}

#[test]
fn the_first_half_of_the_replies_is_sent_before_the_other_requests_are_carried_out() {
    let mut net = Net::new();
    let client = net.client(OSD);
    let thing = write(&net, "thing", vec![1; 4096]);
    ask(&mut net, client, &thing).unwrap();
    net.set_reads(client, false);
    let get = read(&net, "thing");
    for tid in 100..104 {
        net.send(client, tid, &get);
    }
    for tid in 104..108 {
        let put = write(&net, &format!("new {tid}"), vec![2; 10]);
        net.send(client, tid, &put);
    }
    net.run();
    assert_eq!(net.machine.usage().objects(), 1, "the writes wait for the replies to the reads");
    net.send(client, 108, &get);
    net.run();
    assert!(net.backlog(client) > 0, "nothing more is read meanwhile");
    net.set_reads(client, true);
    let replied: Vec<u64> = std::iter::from_fn(|| Some(net.receive::<OsdOpReply>(client)?.0)).collect();
    assert_eq!(replied, (100..109).collect::<Vec<u64>>());
    assert_eq!((net.machine.usage().objects(), net.backlog(client)), (5, 0));
}

#[test]
fn replies_of_few_bytes_wait_for_the_others() {
    let mut net = Net::new();
    let client = net.client(OSD);
    net.set_reads(client, false);
    for tid in 1..9 {
        let put = write(&net, &format!("new {tid}"), vec![2; 10]);
        net.send(client, tid, &put);
    }
    net.run();
    assert_eq!(net.machine.usage().objects(), 8);
}

#[test]
fn payloads_wait_for_room_in_turn_and_all_get_in() {
    let mut net =
        Net::with(Settings { null_writes: true, memory_limit: u64::MAX, ..crate::support::settings() });
    let clients: Vec<Who> = (0..6).map(|_| net.client(OSD)).collect();
    let op = write(&net, "thing", vec![1; 20 << 20]);
    // All but the last byte of each payload come; the memory for three is all that is given.
    let tails: Vec<Vec<u8>> = clients
        .iter()
        .map(|&client| {
            net.send(client, 1, &op);
            net.cut(client, 100)
        })
        .collect();
    net.run();
    let held: Vec<bool> = clients.iter().map(|&client| net.backlog(client) > 10 << 20).collect();
    assert_eq!(held, [false, false, false, true, true, true]);
    // One is hung up on; the others finish, and with each there is room for the next.
    net.hang_up(clients[0]);
    for (&client, tail) in clients.iter().zip(&tails).skip(1) {
        net.send_raw(client, tail);
    }
    net.run();
    for &client in &clients[1..] {
        assert_eq!(net.receive::<OsdOpReply>(client).map(|(_, reply)| reply.result), Some(0));
    }
}

#[test]
fn a_payload_of_which_nothing_more_comes_makes_room() {
    let mut net = Net::new();
    let (vanished, other) = (net.client(OSD), net.client(OSD));
    let op = write(&net, "thing", vec![1; 60 << 20]);
    net.send(vanished, 1, &op);
    net.cut(vanished, 100);
    let op = write(&net, "other", vec![1; 20 << 20]);
    assert!(ask(&mut net, other, &op).is_none());
    net.pass(Duration::from_secs(1));
    assert!(!net.is_closed(vanished));
    (0..60).for_each(|_| net.pass(Duration::from_secs(1)));
    assert!(net.is_closed(vanished) && !net.is_closed(other));
    assert_eq!(net.receive::<OsdOpReply>(other).map(|(_, reply)| reply.result), Some(0));
}

#[test]
fn garbage_ends_its_own_connection_and_no_other() {
    let mut net = Net::new();
    let other = net.client(OSD);
    let mut x = 0x1234_5678_u64;
    for (listener, ready) in [(MON, false), (OSD, false), (MON, true), (OSD, true)] {
        for len in [1, 30, 1000, 70_000] {
            let who = if ready { net.client(listener) } else { net.try_client(listener).unwrap() };
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (x >> 33) as u8
                })
                .collect();
            net.send_raw(who, &bytes);
            net.run();
            if len >= 1000 {
                assert!(net.is_closed(who), "{len} bytes of garbage are taken");
            } else if !net.is_closed(who) {
                net.hang_up(who);
            }
        }
    }
    let op = write(&net, "thing", vec![1]);
    assert_eq!(ask(&mut net, other, &op).unwrap().result, 0);
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let mut net = Net::new();
    let peer = "127.0.0.1:5".parse().unwrap();
    let conn = net.machine.accepted(net.now, MON, peer, "127.0.0.1:3300".parse().unwrap()).unwrap();
    let deadline = net.machine.deadline().unwrap();
    assert!(deadline.since(net.now) <= Duration::from_secs(30));
    net.machine.timeout(deadline);
    let closed = std::iter::from_fn(|| net.machine.next_action(deadline))
        .any(|action| matches!(action, onego_wire::Action::Close { conn: closed } if closed == conn));
    assert!(closed);
}

#[test]
fn commands_to_a_daemon_itself_are_refused_in_words() {
    use onego_msgr::Message;
    let mut net = Net::new();
    for listener in [MON, OSD] {
        let client = net.client(listener);
        // MCommand: the cluster's id and the words.
        let mut front = vec![7; 16];
        front.extend([1, 0, 0, 0, 2, 0, 0, 0, b'{', b'}']);
        net.send_message(client, Message::new(97, 1, 1, front).with_tid(4));
        assert_eq!(net.waiting(client), [98]);
    }
}

#[test]
fn a_cluster_starts_with_the_pools_it_is_told_to() {
    let pools = vec![NewPool::new("a"), NewPool { pg_num: 4, ..NewPool::new("b") }];
    let mut net = Net::with(Settings { pools, ..crate::support::settings() });
    let admin = net.client(MON);
    assert_eq!(net.json(admin, r#""prefix": "osd pool ls""#), serde_json::json!(["a", "b"]));
    assert_eq!(net.machine.create_pool(net.now, &NewPool::new("b")), Some(2));
}

/// A cluster with room for 16 MiB, and a client that has filled it to the mark.
fn full() -> (Net, Who) {
    let mut net = Net::with(Settings { memory_limit: 16 << 20, ..crate::support::settings() });
    let client = net.client(OSD);
    for number in 0.. {
        let op = write(&net, &format!("filler-{number}"), vec![1; 200_000]);
        assert_eq!(ask(&mut net, client, &op).unwrap().result, 0);
        if net.machine.osdmap().unwrap().is_pool_full(1) {
            break;
        }
    }
    let map = net.machine.osdmap().unwrap();
    assert_eq!(map.osd_state[0], state::EXISTS | state::UP | state::FULL);
    let used = net.machine.usage().ratio();
    assert!((0.95..0.97).contains(&used), "{used}");
    (net, client)
}

#[test]
fn a_full_pool_takes_no_more_and_gives_up_what_it_has() {
    let (mut net, client) = full();
    let with = |op: OsdOp, flags| OsdOp { flags: op.flags | flags, ..op };
    let (new, overwrite) = (write(&net, "new", vec![2; 9]), write(&net, "filler-0", vec![2; 200_000]));
    let longer = write(&net, "filler-0", vec![3; 200_001]);
    for op in [&new, &longer] {
        // Clients keep this back; one that does not is not answered.
        assert_eq!(ask(&mut net, client, op), None);
        assert_eq!(ask(&mut net, client, &with(op.clone(), flag::FULL_TRY)).unwrap().result, -28);
    }
    assert_eq!(ask(&mut net, client, &overwrite).unwrap().result, 0);
    let op = read(&net, "filler-0");
    assert_eq!(ask(&mut net, client, &op).unwrap().ops[0].output.to_vec(), [2; 200_000]);
    assert_eq!(ask(&mut net, client, &with(new.clone(), flag::FULL_FORCE)).unwrap().result, 0);
    for number in 0..20 {
        let op = request(&net, &format!("filler-{number}"), [Op::Delete]);
        assert_eq!(ask(&mut net, client, &op).unwrap().result, 0);
    }
    // Not every write makes a map.
    assert!(net.machine.osdmap().unwrap().is_pool_full(1));
    net.pass(Duration::from_secs(1));
    let map = net.machine.osdmap().unwrap();
    assert!(!map.is_pool_full(1) && map.osd_state[0] == state::EXISTS | state::UP);
    let op = write(&net, "longer", vec![3; 200_000]);
    assert_eq!(ask(&mut net, client, &op).unwrap().result, 0);
}

#[test]
fn what_was_sent_before_the_pool_was_full_is_dropped_whole() {
    let (mut net, client) = full();
    let before = net.machine.osdmap().unwrap().epoch - 1;
    let overwrite = OsdOp { epoch: before, ..write(&net, "filler-0", vec![2; 200_000]) };
    assert_eq!(ask(&mut net, client, &overwrite), None);
    let tries = OsdOp { flags: overwrite.flags | flag::FULL_TRY, ..overwrite };
    assert_eq!(ask(&mut net, client, &tries).unwrap().result, 0);
    let read = OsdOp { epoch: before, flags: flag::READ, ..read(&net, "filler-0") };
    assert_eq!(ask(&mut net, client, &read).unwrap().result, 0);
}

#[test]
fn a_quota_is_reached_and_raised() {
    let mut net = Net::new();
    let (mon, osd) = (net.client(MON), net.client(OSD));
    let set = |field: &str, value: &str| {
        format!(r#""prefix": "osd pool set-quota", "pool": "rbd", "field": "{field}", "val": "{value}""#)
    };
    net.done(mon, &set("max_objects", "2"));
    net.done(mon, &set("max_bytes", "1M"));
    for name in ["one", "two"] {
        let op = write(&net, name, vec![1; 1000]);
        assert_eq!(ask(&mut net, osd, &op).unwrap().result, 0);
    }
    net.pass(Duration::from_secs(1));
    let flags = |net: &Net| net.machine.osdmap().unwrap().pools[&1].flags;
    assert_eq!(
        flags(&net) & (pool_flag::FULL | pool_flag::FULL_QUOTA),
        pool_flag::FULL | pool_flag::FULL_QUOTA
    );
    let op = write(&net, "three", vec![1; 1000]);
    let tries = OsdOp { flags: op.flags | flag::FULL_TRY, ..op };
    assert_eq!(ask(&mut net, osd, &tries).unwrap().result, -122);
    let health = net.json(mon, r#""prefix": "health", "detail": "detail""#);
    let told = &health["checks"]["POOL_FULL"]["detail"][0]["message"];
    assert_eq!(told, "pool 'rbd' is full (running out of quota)");
    let quota = net.json(mon, r#""prefix": "osd pool get-quota", "pool": "rbd""#);
    assert_eq!((&quota["quota_max_bytes"], &quota["current_num_objects"]), (&(1 << 20).into(), &2.into()));

    net.done(mon, &set("max_objects", "0"));
    net.pass(Duration::from_secs(1));
    assert_eq!(flags(&net) & (pool_flag::FULL | pool_flag::FULL_QUOTA), 0);
    let op = write(&net, "three", vec![1; 1000]);
    assert_eq!(ask(&mut net, osd, &op).unwrap().result, 0);
}

/// A cluster in which one of two OSDs was away, without its objects if it was `wiped`, while an object was written. What its
/// monitor's client is told says whether it has caught up.
fn one_that_was_away(flag: &str, wiped: bool) -> (Net, Who) {
    let second = OsdSettings { uuid: Uuid([9; 16]), addrs: "v2:127.0.0.1:6801/1001".parse().unwrap() };
    let mut settings = crate::support::settings();
    settings.osds.push(second);
    settings.pools = vec![NewPool { size: Some(2), ..NewPool::for_images("rbd") }];
    let mut net = Net::with(settings);
    let (mon, osd) = (net.client(MON), net.client(OSD));
    net.done(mon, &format!(r#""prefix": "osd set", "key": "{flag}""#));
    let write = |net: &mut Net, byte| {
        let op = write(net, "thing", vec![byte; 1000]);
        assert_eq!(ask(net, osd, &op).unwrap().result, 0);
    };
    write(&mut net, 1);
    let now = net.now;
    net.machine.stop_osd(now, 1);
    if wiped {
        net.machine.wipe_osd(1);
    }
    net.run();
    write(&mut net, 2);
    let now = net.now;
    net.machine.start_osd(now, 1);
    (net, mon)
}

#[test]
fn a_write_is_for_the_primary_whatever_its_flags_say() {
    let second = OsdSettings { uuid: Uuid([9; 16]), addrs: "v2:127.0.0.1:6801/1001".parse().unwrap() };
    let mut settings = crate::support::settings();
    settings.osds.push(second);
    settings.pools = vec![NewPool { size: Some(2), ..NewPool::for_images("rbd") }];
    let mut net = Net::with(settings);
    let osd = net.client(OSD);
    let map = net.machine.osdmap().unwrap().clone();
    let is_replica = |name: &String| {
        let pool = &map.pools[&1];
        let seed = pool.hash_object(name.as_bytes(), b"", b"");
        let pg = pool.pg(PgId { pool: 1, seed });
        map.place(pg).acting_primary == 1
    };
    let name = (0..).map(|n| format!("object{n}")).find(is_replica).unwrap();
    for flags in [flag::BALANCE_READS, flag::LOCALIZE_READS] {
        for op in [
            Op::WriteFull { data: vec![1; 10].into() },
            Op::Call { class: "lock".into(), method: "lock".into(), input: Vec::new().into() },
            Op::Watch { cookie: 1, op: WatchOp::Watch, generation: 0, timeout: 0 },
        ] {
            let mut smuggled = request(&net, &name, [op]);
            smuggled.flags = flag::READ | flags;
            assert!(ask(&mut net, osd, &smuggled).is_none(), "{smuggled:?}");
        }
        // A read of it is the replica's, too.
        let mut read = read(&net, &name);
        read.flags = flag::READ | flags;
        assert!(ask(&mut net, osd, &read).is_some());
    }
    assert_eq!(net.machine.usage().objects(), 0);
}

/// Are copies missing after a while?
fn lacks_copies(net: &mut Net, mon: Who) -> bool {
    (0..200).for_each(|_| net.pass(Duration::from_millis(5)));
    net.json(mon, r#""prefix": "health""#)["checks"]["PG_DEGRADED"].is_object()
}

#[test]
fn osds_catch_up_unless_a_flag_holds_them_back() {
    for (flag, wiped, holds) in [
        ("noscrub", false, false),
        ("norecover", false, true),
        ("norecover", true, true),
        ("nobackfill", false, false),
        ("nobackfill", true, true),
        // A copy is missing.
        ("norebalance", true, false),
    ] {
        let (mut net, mon) = one_that_was_away(flag, wiped);
        assert_eq!(lacks_copies(&mut net, mon), holds, "{flag}, wiped: {wiped}");
        assert!(net.machine.deadline().is_none_or(|deadline| deadline > net.now), "nothing goes round");
        net.done(mon, &format!(r#""prefix": "osd unset", "key": "{flag}""#));
        assert!(!lacks_copies(&mut net, mon), "{flag}, wiped: {wiped}");
    }
}

#[test]
fn ratios_say_from_where_on_an_osd_is_full() {
    let mut net = Net::with(Settings { memory_limit: 16 << 20, ..crate::support::settings() });
    let (mon, osd) = (net.client(MON), net.client(OSD));
    let op = write(&net, "thing", vec![1; 4 << 20]);
    assert_eq!(ask(&mut net, osd, &op).unwrap().result, 0);
    for (ratio, level, said) in [
        (0.2, "nearfull", "OSD_NEARFULL"),
        (0.2, "backfillfull", "OSD_BACKFILLFULL"),
        (0.2, "full", "OSD_FULL"),
    ] {
        net.done(mon, &format!(r#""prefix": "osd set-{level}-ratio", "ratio": {ratio}"#));
        net.pass(Duration::from_secs(1));
        let health = net.json(mon, r#""prefix": "health""#);
        assert!(health["checks"][said].is_object(), "{health}");
        let dump = net.json(mon, r#""prefix": "osd dump""#);
        assert!(dump["osds"][0]["state"].as_array().unwrap().contains(&level.into()), "{dump}");
        assert!(
            dump["pools"][0]["flags_names"].as_str().unwrap().split(',').any(|name| name == level),
            "{dump}"
        );
    }
    for level in ["nearfull", "backfillfull", "full"] {
        net.done(mon, &format!(r#""prefix": "osd set-{level}-ratio", "ratio": 0.9"#));
    }
    net.pass(Duration::from_secs(1));
    let health = net.json(mon, r#""prefix": "health""#);
    assert!(health["checks"]["OSD_FULL"].is_null() && health["checks"]["POOL_FULL"].is_null(), "{health}");
}

/// As Ceph's OSDs answer (osd_max_write_size, osd_max_object_size).
#[test]
fn what_is_too_large_is_refused_with_the_numbers_that_ceph_has() {
    const EMSGSIZE: i32 = -90;
    const EFBIG: i32 = -27;
    let mut net = Net::with(Settings { memory_limit: 1 << 30, ..crate::support::settings() });
    let client = net.client(OSD);
    let op = write(&net, "a", vec![7; (90 << 20) + 1]);
    assert_eq!(ask(&mut net, client, &op).unwrap().result, EMSGSIZE);
    // More than is kept of any message: it is discarded as it comes, and answered all the same.
    let op = write(&net, "a", vec![7; (256 << 20) + 1]);
    assert_eq!(ask(&mut net, client, &op).expect("an answer").result, EMSGSIZE);
    let op = write(&net, "a", vec![7; 90 << 20]);
    assert_eq!(ask(&mut net, client, &op).unwrap().result, 0);
    let op = request(&net, "a", [Op::Append { data: vec![8; 38 << 20].into() }]);
    assert_eq!(ask(&mut net, client, &op).unwrap().result, 0);
    let op = request(&net, "a", [Op::Append { data: vec![9].into() }]);
    assert_eq!(ask(&mut net, client, &op).unwrap().result, EFBIG);
    let op = request(&net, "a", [Op::Read { offset: 0, length: 120 << 20 }]);
    let reply = ask(&mut net, client, &op).unwrap();
    assert_eq!((reply.result, reply.ops[0].output.len()), (0, 120 << 20));
}

/// A client whose connection ends when it sends a request opens the next and sends it again, without end.
#[test]
fn names_that_are_too_long_and_many_operations_are_answered_and_the_session_goes_on() {
    const ENAMETOOLONG: i32 = -36;
    const EINVAL: i32 = -22;
    let mut net = Net::new();
    let client = net.client(OSD);
    let mut name = |name: &str, key: usize, namespace: usize| {
        let mut op = write(&net, name, vec![1]);
        let pool = &net.machine.osdmap().unwrap().pools[&1];
        (op.locator.key, op.locator.namespace) = (vec![b'k'; key], vec![b'n'; namespace]);
        op.hash = pool.hash_object(name.as_bytes(), &op.locator.key, &op.locator.namespace);
        op.pg.pg = pool.pg(PgId { pool: 1, seed: op.hash });
        let answer = ask(&mut net, client, &op);
        answer.unwrap_or_else(|| panic!("no answer: {} {key} {namespace}", name.len())).result
    };
    for (len, expected) in [(2048, 0), (2049, ENAMETOOLONG), (1 << 20, ENAMETOOLONG)] {
        assert_eq!(name(&"o".repeat(len), 0, 0), expected, "{len}");
        assert_eq!(name("o", len, 0), expected, "{len}");
    }
    assert_eq!((name("o", 0, 256), name("o", 0, 257)), (0, ENAMETOOLONG));
    let op = request(&net, "many", (0..4097).map(|n| Op::Write { offset: n, data: vec![1].into() }));
    assert_eq!(ask(&mut net, client, &op).expect("an answer").result, 0);
    let op = request(&net, "many", vec![Op::Stat; 65_535]);
    let reply = ask(&mut net, client, &op).expect("an answer");
    assert_eq!((reply.result, reply.ops.len()), (0, 65_535));
    // The input lacks the count of entries.
    let op = request(&net, "many", [Op::Malformed { code: onego_ceph::ops::code::OMAP_SET_VALS }]);
    assert_eq!(ask(&mut net, client, &op).expect("an answer").result, EINVAL);
    assert!(!net.is_closed(client));
}
