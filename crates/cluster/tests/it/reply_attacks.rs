//! Clients that take none of their replies: what these hold is bounded, and others are served.

use crate::support::{MON, Net, OSD, Who, request, settings};
use onego_ceph::messages::{MapUpdate, OsdOpReply};
use onego_ceph::ops::Op;
use onego_cluster::{NewPool, Settings};
use onego_msgr::encoding::Encode as _;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Bound of the replies of a server.
const REPLIES: usize = 256 * MIB;

/// Longest wait of an honest client: connections that take nothing for 10 s are closed.
const PATIENCE: usize = 15;

const ATTACKERS: usize = 6;

const EOVERFLOW: i32 = 75;

fn ask(net: &mut Net, who: Who, name: &str, ops: Vec<Op>) -> Option<OsdOpReply> {
    let op = request(net, name, ops);
    let tid = net.tid();
    net.send(who, tid, &op);
    net.receive::<OsdOpReply>(who).map(|(_, reply)| reply)
}

/// A cluster with an object `map`, which has one key of 255 KiB, and an object `data` of 6 MiB.
fn net() -> (Net, Who) {
    let mut net = Net::new();
    let honest = net.client(OSD);
    let entries = [(b"key".to_vec(), vec![1; 255 << 10].into())].into();
    assert_eq!(ask(&mut net, honest, "map", vec![Op::OmapSetVals { entries }]).unwrap().result, 0);
    let data = vec![1; 6 * MIB].into();
    assert_eq!(ask(&mut net, honest, "data", vec![Op::WriteFull { data }]).unwrap().result, 0);
    (net, honest)
}

fn get_vals(count: usize) -> Vec<Op> {
    vec![Op::OmapGetVals { after: Vec::new(), max: 1, prefix: Vec::new() }; count]
}

/// Clients that read nothing and have sent these operations on the object `map`, in one message each.
fn attack(net: &mut Net, clients: usize, ops: &[Op]) -> Vec<Who> {
    let clients: Vec<Who> = (0..clients).map(|_| net.client(OSD)).collect();
    for who in &clients {
        net.set_reads(*who, false);
        let op = request(net, "map", ops.to_vec());
        net.send(*who, 1, &op);
    }
    net.run();
    clients
}

#[test]
fn large_replies_of_idle_connections_are_bounded_and_others_are_served() {
    let (mut net, honest) = net();
    let attackers = attack(&mut net, ATTACKERS, &get_vals(500));
    let held = net.reply_bytes();
    assert!((120 * MIB..REPLIES).contains(&held), "{} MiB", held / MIB);
    // Small requests are served at once, large ones when the attackers had their time.
    let write = || Op::WriteFull { data: vec![1; 1000].into() };
    assert_eq!(ask(&mut net, honest, "small", vec![write()]).unwrap().result, 0);
    let read = ask(&mut net, honest, "small", vec![Op::Read { offset: 0, length: 0 }]);
    assert_eq!(read.unwrap().ops[0].output.len(), 1000);
    let mut reply = ask(&mut net, honest, "data", vec![Op::Read { offset: 0, length: 0 }]);
    let other = net.client(OSD);
    for _ in 0..PATIENCE * ATTACKERS {
        net.pass(Duration::from_secs(1));
        assert!(net.reply_bytes() < REPLIES);
        assert_eq!(ask(&mut net, other, "small", vec![write()]).unwrap().result, 0);
        reply = reply.or_else(|| net.receive::<OsdOpReply>(honest).map(|(_, reply)| reply));
    }
    assert_eq!(reply.expect("it is answered").ops[0].output.len(), 6 * MIB);
    let closed = attackers.iter().filter(|who| net.is_closed(**who)).count();
    assert!(closed >= ATTACKERS - 1, "{closed} of {ATTACKERS} had their 10 s");
}

#[test]
fn requests_that_came_together_are_carried_out_while_their_replies_have_room() {
    let (mut net, honest) = net();
    let attacker = net.client(OSD);
    net.set_reads(attacker, false);
    let op = request(&net, "map", get_vals(64));
    for tid in 1..=64 {
        net.send(attacker, tid, &op);
    }
    net.run();
    let held = net.reply_bytes();
    assert!((60 * MIB..96 * MIB).contains(&held), "{} MiB", held / MIB);
    // Nothing is lost, and the order stays.
    net.set_reads(attacker, true);
    for tid in 1..=64 {
        let (answered, reply) = net.receive::<OsdOpReply>(attacker).expect("each is answered");
        assert_eq!((answered, reply.result), (tid, 0));
    }
    assert_eq!(ask(&mut net, honest, "map", get_vals(1)).unwrap().ops.len(), 1);
}

#[test]
fn a_reply_that_never_fits_is_an_error() {
    let (mut net, honest) = net();
    let reply = ask(&mut net, honest, "map", get_vals(1000)).unwrap();
    assert_eq!(reply.result, -EOVERFLOW);
    assert!(reply.ops.iter().all(|op| op.output.is_empty()));
}

#[test]
fn subscribers_that_read_nothing_hold_a_bounded_number_of_maps() {
    let pool = |n| NewPool { pg_num: 1, ..NewPool::for_images(format!("{n:0>250}")) };
    let mut net = Net::with(Settings { pools: (0..1000).map(pool).collect(), ..settings() });
    let len = net.machine.osdmap().unwrap().to_bytes().len();
    let deaf: Vec<Who> = (0..REPLIES / len + 20).map(|_| net.client(MON)).collect();
    for who in &deaf {
        net.set_reads(*who, false);
        assert!(net.subscribe(*who, 1, false).is_none());
    }
    let held = net.reply_bytes();
    assert!((180 * MIB..REPLIES).contains(&held), "{} MiB", held / MIB);
    let honest = net.client(MON);
    let mut update = net.subscribe(honest, 1, false);
    for _ in 0..PATIENCE {
        net.pass(Duration::from_secs(1));
        update = update.or_else(|| net.receive::<MapUpdate>(honest).map(|(_, update)| update));
    }
    assert!(update.expect("the map comes").full.values().next().unwrap().len() == len);
    // It gets what comes later, in order.
    for _ in 0..3 {
        let epoch = net.machine.osdmap().unwrap().epoch;
        let now = net.now;
        net.machine.touch_map(now);
        let (_, update) = net.receive::<MapUpdate>(honest).expect("the change comes");
        assert_eq!(update.incrementals.keys().copied().collect::<Vec<_>>(), [epoch + 1]);
    }
}
