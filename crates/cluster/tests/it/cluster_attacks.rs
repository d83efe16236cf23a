//! Clients that take more of the embedded cluster than their share: what they hold is bounded, and others are served.

use crate::support::{Net, OSD, Who, request};
use onego_buf::Segment;
use onego_ceph::messages::{OsdOp, OsdOpReply};
use onego_ceph::ops::Op;
use onego_cluster::Settings;
use onego_wire::{Action, Machine as _};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Connections that a cluster has at a time.
const CONNECTIONS: usize = 16_384;

fn write(net: &Net, name: &str, len: usize) -> OsdOp {
    request(net, name, [Op::WriteFull { data: vec![1; len].into() }])
}

fn ask(net: &mut Net, who: Who, op: &OsdOp) -> Option<i32> {
    let tid = net.tid();
    net.send(who, tid, op);
    net.receive::<OsdOpReply>(who).map(|(_, reply)| reply.result)
}

fn net() -> Net {
    Net::with(Settings { null_writes: true, memory_limit: u64::MAX, ..crate::support::settings() })
}

#[test]
fn connections_that_do_nothing_give_way_to_others() {
    let mut net = net();
    let first = net.client(OSD);
    let local: SocketAddr = "127.0.0.1:6800".parse().unwrap();
    let attacker: SocketAddr = "10.9.9.9:700".parse().unwrap();
    // Handshakes that have not ended count, too, and so do those that speak.
    for _ in 1..CONNECTIONS {
        let conn = net.machine.accepted(net.now, OSD, attacker, local).unwrap();
        net.machine.received(net.now, conn, Segment::from_static(b"ceph v2"));
    }
    for n in 0..100 {
        let other = SocketAddr::new([10, 0, 0, n].into(), 700);
        assert!(net.machine.accepted(net.now, OSD, other, local).is_some());
    }
    let closed = std::iter::from_fn(|| net.machine.next_action(net.now))
        .filter(|it| matches!(it, Action::Close { .. }));
    assert_eq!(closed.count(), 100);
    let op = write(&net, "thing", 100);
    assert_eq!(ask(&mut net, first, &op), Some(0));
}

#[test]
fn slow_payloads_do_not_hold_up_those_of_others() {
    let mut net = net();
    let client = net.client(OSD);
    let op = write(&net, "thing", 4 << 20);
    let slow: Vec<Who> = (0..48).map(|_| net.client(OSD)).collect();
    for who in &slow {
        net.send(*who, 1, &op);
        net.cut(*who, 4 << 20);
    }
    net.run();
    for round in 0..3 {
        net.send(client, 10 + round, &op);
        let waited = (0..15).find(|_| {
            slow.iter().for_each(|who| net.send_raw(*who, &[1]));
            net.pass(SECOND);
            net.receive::<OsdOpReply>(client).is_some()
        });
        assert!(waited.is_some(), "round {round}");
    }
    // They are given up in the end: each gets as long as one may be silent, while it is read from.
    let ended = (0..300).find(|_| {
        net.pass(SECOND);
        slow.iter().all(|who| net.is_closed(*who))
    });
    assert!(ended.is_some());
    assert!(!net.is_closed(client));
}

#[test]
fn a_message_that_is_not_finished_is_given_up() {
    let mut net = net();
    let client = net.client(OSD);
    for len in [100, 10_000, 300_000] {
        let op = write(&net, "thing", len);
        // The end is missing: of the payload, and of the head.
        let slow: Vec<Who> = [len / 2, len + 200]
            .map(|cut| {
                let who = net.client(OSD);
                net.send(who, 1, &op);
                net.cut(who, cut);
                who
            })
            .into();
        net.run();
        for second in 0..70 {
            if second % 20 == 0 {
                slow.iter().for_each(|who| net.send_raw(*who, &[1]));
            }
            net.pass(SECOND);
        }
        assert!(slow.iter().all(|who| net.is_closed(*who)), "{len} bytes");
    }
    assert!(!net.is_closed(client));
}
