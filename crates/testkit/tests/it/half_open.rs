//! Connections that begin and do not go on are given up after ten seconds, whatever they are connections of.

use onego_buf::{Pool, Segment};
use onego_ceph::types::Uuid;
use onego_cluster::{ClusterMachine, NewPool, OsdSettings, Settings};
use onego_nfs_server::{Export, Limits, Memory, Rdma, ServerMachine};
use onego_wire::{Action, ListenerId, Machine, Time};
use std::net::SocketAddr;
use std::time::Duration;

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// Seconds until a machine closes a connection on which these bytes come, one a second.
fn closes_after(machine: &mut dyn Machine, listener: u32, local: &str, bytes: &[u8]) -> Option<u32> {
    while let Some(action) = machine.next_action(NOW) {
        if let Action::Listen { listener, addr } = action {
            machine.listening(NOW, listener, Ok(addr));
        }
    }
    let (peer, local): (SocketAddr, SocketAddr) = ("10.0.0.1:700".parse().unwrap(), local.parse().unwrap());
    let conn = machine.accepted(NOW, ListenerId(listener), peer, local).expect("the connection is taken");
    (0..120).find(|second| {
        let now = NOW + Duration::from_secs((*second).into());
        if let Some(byte) = bytes.get(*second as usize) {
            assert!(machine.landing(conn).ahead > 0);
            machine.received(now, conn, Segment::from(vec![*byte]));
        }
        while machine.deadline().is_some_and(|deadline| deadline <= now) {
            machine.timeout(now);
        }
        std::iter::from_fn(|| machine.next_action(now))
            .any(|action| matches!(action, Action::Close { conn: closed } if closed == conn))
    })
}

fn nfs() -> ServerMachine {
    let pool = Pool::new(1 << 20);
    let fs = Memory::new(Limits { bytes: 1 << 20, files: 10 }, 7, pool.clone(), NOW);
    let rdma = Rdma::new("10.0.0.2:20049".parse().unwrap());
    let addrs = vec!["10.0.0.2:2049".parse().unwrap()];
    ServerMachine::new(addrs, Some(&rdma), Export::default(), Box::new(fs), pool)
}

fn cluster() -> ClusterMachine {
    ClusterMachine::new(Settings {
        registrable: 0,
        fsid: Uuid([7; 16]),
        mon: "[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0]".parse().unwrap(),
        mgr: "v2:10.0.0.2:6900/0".parse().unwrap(),
        osds: vec![OsdSettings { uuid: Uuid([8; 16]), addrs: "v2:10.0.0.2:6800/1000".parse().unwrap() }],
        memory_limit: 64 << 20,
        null_writes: false,
        pools: vec![NewPool::for_images("rbd")],
        cephx: None,
        compression: None,
    })
}

#[test]
fn what_begins_and_does_not_go_on_is_given_up_after_ten_seconds() {
    // A record's mark and the beginning of a call; the handshake of iWARP; the banners of both versions of the messenger.
    let call = [&[0x80, 0, 0, 100][..], &[0; 90]].concat();
    let mpa = [&b"MPA ID Req Frame"[..], &[0x10, 2, 0, 200], &[0; 90]].concat();
    let msgr2 = b"ceph v2\n\x10\0\x01";
    let msgr1 = [&b"ceph v027"[..], &[0; 90]].concat();
    for said in [0, 1, 90] {
        let said = |bytes: &[u8]| bytes[..said.min(bytes.len())].to_vec();
        let half_open = [
            closes_after(&mut nfs(), 0, "10.0.0.2:2049", &said(&call)),
            closes_after(&mut nfs(), 1, "10.0.0.2:20049", &said(&mpa)),
            closes_after(&mut cluster(), 0, "10.0.0.2:3300", &said(msgr2)),
            closes_after(&mut cluster(), 1, "10.0.0.2:6789", &said(&msgr1)),
        ];
        for seconds in half_open {
            assert!(seconds.is_some_and(|seconds| (9..=12).contains(&seconds)), "{half_open:?}");
        }
    }
}
