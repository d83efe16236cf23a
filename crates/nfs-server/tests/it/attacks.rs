//! Clients that take more of the server of NFS than their share: what they hold is bounded, and others are served.

use crate::support::{Net, Who, results};
use onego_buf::List;
use onego_nfs::v3::{
    self, CreateArgs, CreateHow, Getattr, Handle, Place, ReadArgs, SetAttributes, WriteArgs,
};
use onego_nfs_server::{Export, Limits};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Connections that a server has at a time.
const CONNECTIONS: usize = 4096;

/// The address of an attacker, and that of an honest client.
const ATTACKER: &str = "10.9.9.9:700";
const HONEST: &str = "10.0.0.1:700";

fn net() -> Net {
    Net::with(Export::default(), Limits { bytes: 1 << 30, files: 1000 })
}

fn file(net: &mut Net, who: Who) -> (Handle, Handle) {
    let root = net.mount(who, "/export").unwrap();
    let place = Place { dir: root, name: "file".into() };
    let how = CreateHow::Unchecked(SetAttributes { mode: Some(0o666), ..SetAttributes::default() });
    let made = net.call::<v3::Create>(who, CreateArgs { place, how }).unwrap();
    (root, made.file.unwrap())
}

fn megabyte(file: Handle) -> WriteArgs {
    WriteArgs { file, offset: 0, stable: v3::Stability::Unstable, data: List::from(vec![7; 1 << 20]) }
}

/// Lets seconds go by, one after the other, until something is so, and says how many.
fn seconds_until(net: &mut Net, most: u64, mut is_so: impl FnMut(&mut Net) -> bool) -> Option<u64> {
    (0..=most).find(|n| {
        if *n > 0 {
            net.pass(SECOND);
        }
        is_so(net)
    })
}

#[test]
fn connections_that_do_nothing_give_way_to_others() {
    let mut net = net();
    let first = net.connect(HONEST);
    let (root, _) = file(&mut net, first);
    let idle: Vec<Who> = (1..CONNECTIONS).map(|_| net.connect(ATTACKER)).collect();
    for who in &idle {
        net.call::<v3::Null>(*who, ());
    }
    for n in 0..200 {
        let other = net.connect(&format!("10.0.1.{n}:700"));
        net.call::<Getattr>(other, root).unwrap();
        assert_eq!(idle.iter().filter(|who| net.is_closed(**who)).count(), n + 1);
    }
    // A client with few connections keeps them, however long they are idle.
    net.call::<Getattr>(first, root).unwrap();
    // The hosts of one network count as one client.
    let six = net.connect("[2001:db8::1]:700");
    net.call::<Getattr>(six, root).unwrap();
}

#[test]
fn one_host_may_have_all_connections_and_those_in_use_stay() {
    let mut net = net();
    let first = net.connect(HONEST);
    let (root, _) = file(&mut net, first);
    let mut clients: Vec<Who> = (1..CONNECTIONS).map(|_| net.connect(HONEST)).collect();
    clients.push(first);
    for who in &clients {
        net.call::<Getattr>(*who, root).unwrap();
    }
    // All have just been used: none of them gives way to another one of the same host.
    assert_eq!(net.try_connect(HONEST), None);
    for n in 0..10 {
        net.pass(SECOND);
        for who in clients.iter().skip(n + 1) {
            net.call::<Getattr>(*who, root).unwrap();
        }
        let more = net.connect(HONEST);
        net.call::<Getattr>(more, root).unwrap();
        clients.push(more);
    }
    assert!(clients[..10].iter().all(|who| net.is_closed(*who)));
    assert!(clients[10..].iter().all(|who| !net.is_closed(*who)));
}

#[test]
fn a_table_full_of_unfinished_calls_lets_others_in() {
    let mut net = net();
    let first = net.connect(HONEST);
    let (root, _) = file(&mut net, first);
    for _ in 1..CONNECTIONS {
        let who = net.connect(ATTACKER);
        net.send_bytes(who, &[0x80, 0, 0]);
    }
    net.turn();
    let other = net.connect("10.0.0.2:700");
    net.call::<Getattr>(other, root).unwrap();
}

#[test]
fn a_call_that_is_not_finished_is_given_up() {
    let mut net = net();
    let first = net.connect(HONEST);
    let (root, file) = file(&mut net, first);
    let write = net.message::<v3::Write>(&megabyte(file));
    // Half of a WRITE, of a record that is all front, of a short call, and of a mark.
    let long = [&(0x8000_0000_u32 | 1 << 20).to_be_bytes()[..], &[7; 1 << 19]].concat();
    let halves: Vec<(Who, u8)> = (0..4).map(|kind| (net.connect(ATTACKER), kind)).collect();
    for trickle in [false, true] {
        let halves: Vec<(Who, u8)> = halves.iter().map(|(_, kind)| (net.connect(ATTACKER), *kind)).collect();
        for (who, kind) in &halves {
            net.call::<v3::Null>(*who, ());
            match kind {
                0 => net.send_part(*who, 5, &write, 1 << 19),
                1 => net.send_bytes(*who, &long),
                2 => net.send_part(*who, 5, &write, 40),
                _ => net.send_bytes(*who, &[0x80]),
            }
        }
        net.turn();
        for second in 0..70 {
            if trickle && second % 20 == 0 {
                halves.iter().filter(|(_, kind)| *kind < 2).for_each(|(who, _)| net.send_bytes(*who, &[7]));
            }
            net.call::<Getattr>(first, root).unwrap();
            net.pass(SECOND);
        }
        for (who, kind) in &halves {
            assert!(net.is_closed(*who), "kind {kind}, trickle: {trickle}");
        }
    }
    assert!(!net.is_closed(first));
}

#[test]
fn a_slow_link_is_slow_and_that_is_all() {
    let mut net = net();
    let who = net.connect(HONEST);
    let (_, file) = file(&mut net, who);
    let write = net.message::<v3::Write>(&megabyte(file));
    // 8 KiB a second, with a pause of 20 seconds in the middle.
    let len = 8 << 10;
    net.send_part(who, 5, &write, len);
    for n in 1..128 {
        net.pass(if n == 60 { 20 * SECOND } else { SECOND });
        net.send_range(who, 5, &write, n * len..(n + 1) * len);
    }
    net.turn();
    net.send_rest(who, 5, &write, 128 * len);
    assert_eq!(results::<v3::Write>(net.answer(who, 5)).unwrap().count, 1 << 20);
}

#[test]
fn slow_writes_do_not_hold_up_those_of_others() {
    let mut net = net();
    let who = net.connect(HONEST);
    let (_, file) = file(&mut net, who);
    let write = net.message::<v3::Write>(&megabyte(file));
    let slow: Vec<Who> = (0..256).map(|_| net.connect(ATTACKER)).collect();
    for who in &slow {
        net.send_part(*who, 5, &write, 1000);
    }
    net.turn();
    for round in 0..5 {
        let xid = 10 + round;
        net.send_message(who, xid, &write);
        let waited = seconds_until(&mut net, 3, |net| net.is_answered(who, xid));
        assert!(waited.is_some(), "round {round}");
        slow.iter().for_each(|who| net.send_bytes(*who, &[7]));
    }
    assert!(slow.iter().all(|who| !net.is_closed(*who)), "time in which it is not read does not count");
    // Of those that have stopped altogether nothing is left in the end.
    seconds_until(&mut net, 400, |net| slow.iter().all(|who| net.is_closed(*who))).unwrap();
    net.send_message(who, 99, &write);
    assert!(net.is_answered(who, 99));
}

#[test]
fn payloads_of_a_host_that_has_many_wait_for_those_of_one_that_has_few() {
    let mut net = net();
    let who = net.connect(HONEST);
    let (_, file) = file(&mut net, who);
    let write = net.message::<v3::Write>(&megabyte(file));
    let many: Vec<Who> = (0..1000).map(|_| net.connect(ATTACKER)).collect();
    for who in &many {
        net.send_part(*who, 5, &write, 1000);
    }
    net.turn();
    net.send_message(who, 7, &write);
    assert!(!net.is_answered(who, 7), "as much comes in as may");
    // Hosts take turns: of the first two that are done, one gives its place to the other host, though 936 have waited for
    // longer.
    for done in &many[..2] {
        net.send_rest(*done, 5, &write, 1000);
        assert!(net.is_answered(*done, 5));
    }
    assert!(net.is_answered(who, 7));
}

#[test]
fn replies_that_are_not_taken_are_bounded_and_give_way() {
    for jobs in [false, true] {
        let mut net = if jobs { Net::with_jobs() } else { net() };
        net.takes = true;
        let who = net.connect(HONEST);
        let (_, file) = file(&mut net, who);
        net.call::<v3::Write>(who, megabyte(file)).unwrap();
        let read = net.message::<v3::Read>(&ReadArgs { file, offset: 0, count: 1 << 20 });
        let attackers: Vec<Who> = (0..600).map(|_| net.connect(ATTACKER)).collect();
        for who in &attackers {
            net.set_reading(*who, false);
            for xid in 1..20 {
                net.send_message(*who, xid, &read);
            }
        }
        let before = net.calls();
        net.turn();
        // What the driver took, and what it did not: each call that was carried out has a reply, which nobody took.
        let held = net.calls() - before;
        assert!((120..=256).contains(&held), "{held} MiB, jobs: {jobs}");
        // A host that reads is served: at once if it has an address of its own, and else when it is its turn among those that
        // are stopped, of which some are given up each ten seconds.
        net.send_message(who, 90, &read);
        assert!(net.is_answered(who, 90), "jobs: {jobs}");
        let beside = net.connect(ATTACKER);
        net.send_message(beside, 91, &read);
        let waited = seconds_until(&mut net, 150, |net| net.is_answered(beside, 91));
        assert!(waited.is_some(), "jobs: {jobs}");
        assert!(!net.is_closed(who));
    }
}

#[test]
fn payloads_that_stop_for_replies_give_their_slots_to_others() {
    for jobs in [false, true] {
        let mut net = if jobs { Net::with_jobs() } else { net() };
        net.takes = true;
        let who = net.connect(HONEST);
        let (_, file) = file(&mut net, who);
        let write = net.message::<v3::Write>(&megabyte(file));
        net.send_message(who, 5, &write);
        assert!(net.is_answered(who, 5));
        // As many payloads as may come in, and some that wait.
        let slow: Vec<Who> = (0..100).map(|_| net.connect(ATTACKER)).collect();
        slow.iter().for_each(|who| net.send_part(*who, 5, &write, 1000));
        net.turn();
        let read = net.message::<v3::Read>(&ReadArgs { file, offset: 0, count: 1 << 20 });
        for who in (0..600).map(|_| net.connect(ATTACKER)).collect::<Vec<_>>() {
            net.set_reading(who, false);
            net.send_message(who, 5, &read);
        }
        net.turn();
        // There is no room for the replies to them, so that they are not read any more.
        slow.iter().for_each(|who| net.send_bytes(*who, &[7]));
        net.turn();
        net.send_message(who, 6, &write);
        let waited = seconds_until(&mut net, 2, |net| net.is_answered(who, 6));
        assert!(waited.is_some(), "jobs: {jobs}");
    }
}
