//! The table, with connections that do what the tests say.

use super::*;
use crate::admission::Bounds;
use onego_buf::{List, SegmentMut};
use onego_wire::{Action, ConnId, Landing, Time, Unfinished};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

const BOUNDS: Bounds =
    Bounds { connections: 4, slots: 100, slot_from: 50, unfinished: 1000, replies: 400, reply_max: 10 };

/// A connection whose state is its fields.
#[derive(Debug, Default)]
struct Fake {
    buffers: usize,
    unfinished: Option<Unfinished>,
    defers: bool,
    unsent: usize,
    deadline: Option<Time>,
    timeouts: usize,
    settled: usize,
    stopped: bool,
    closed: bool,
}

impl ServerConnection for Fake {
    fn landing(&mut self) -> Landing {
        let mut buffers = (0..self.buffers).map(|_| SegmentMut::zeroed(8));
        Landing { place: buffers.next(), further: buffers.collect(), ahead: 100, descriptors: 0 }
    }

    fn landed(&mut self, _: Time, _: SegmentMut, _: usize) {
        self.buffers -= 1;
    }

    fn unfinished(&self) -> Option<Unfinished> {
        self.unfinished
    }

    fn defers(&self) -> bool {
        self.defers
    }

    fn has_output(&self) -> bool {
        self.unsent > 0
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        let taken = self.unsent.min(limit);
        self.unsent -= taken;
        out.append(List::from(vec![0; taken]));
    }

    fn unsent(&self) -> usize {
        self.unsent
    }

    fn settle(&mut self) {
        self.settled += 1;
    }

    fn stopped(&mut self, _: Time, stopped: bool) {
        self.stopped = stopped;
    }

    fn closed(&mut self) {
        self.closed = true;
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn timeout(&mut self, _: Time) {
        self.timeouts += 1;
        self.deadline = None;
    }
}

fn at(seconds: u64) -> Time {
    Time::default() + Duration::from_secs(seconds)
}

fn table() -> Connections<Fake> {
    Connections::new(BOUNDS)
}

fn add(table: &mut Connections<Fake>, host: IpAddr) -> ConnId {
    table.add(at(0), host, false, Fake::default())
}

/// What the driver is to do.
fn actions(table: &mut Connections<Fake>) -> Vec<String> {
    std::iter::from_fn(|| table.next_action())
        .map(|action| match action {
            Action::Transmit { conn } => format!("transmit {}", conn.slot()),
            Action::Resume { conn } => format!("resume {}", conn.slot()),
            Action::Close { conn } => format!("close {}", conn.slot()),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Has `bytes` bytes of replies wait on a connection.
fn reply(table: &mut Connections<Fake>, conn: ConnId, bytes: usize) {
    table.get(conn).unwrap().unsent = bytes;
    table.count_replies(at(0), conn);
}

#[test]
fn a_connection_that_is_over_stays_until_its_buffers_are_back() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    table.get(conn).unwrap().buffers = 2;
    assert_eq!(table.landing(conn).places(), 2);
    table.close(at(0), conn);
    assert_eq!(actions(&mut table), ["close 0"]);
    assert!(table.get(conn).is_none() && table.len() == 1);
    assert_eq!(table.landing(conn).ahead, 0);
    assert_eq!(table.landed(at(0), conn, SegmentMut::zeroed(8), 3), None);
    assert_eq!(table.len(), 1, "one buffer is out");
    assert_eq!(table.landed(at(0), conn, SegmentMut::zeroed(8), 0), None);
    assert!(table.is_empty());
    // A connection without buffers is gone at once, and its end is told once.
    let conn = add(&mut table, HOST);
    table.end(at(0), conn);
    table.close(at(0), conn);
    assert!(table.is_empty() && table.is_idle());
}

#[test]
fn a_name_is_free_once_the_driver_has_closed_its_connection() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    table.close_after(at(0), conn, List::from(vec![7; 3]));
    // The driver says by itself that it is gone, before it is told to close it.
    table.end(at(0), conn);
    let meanwhile = add(&mut table, HOST);
    assert_ne!(meanwhile.slot(), conn.slot());
    assert!(matches!(table.next_action(), Some(Action::Close { conn: closed }) if closed == conn));
    let mut said = List::new();
    assert!(!table.transmit(at(0), conn, &mut said, usize::MAX));
    assert_eq!(said.len(), 3, "the driver asks for the last words");
    assert!(table.next_action().is_none());
    assert_eq!(table.len(), 1);
    assert_eq!(add(&mut table, HOST).slot(), conn.slot());
}

#[test]
fn bytes_count_once_all_buffers_of_a_receive_are_back() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    table.get(conn).unwrap().buffers = 2;
    let _ = table.landing(conn);
    assert_eq!(table.landed(at(0), conn, SegmentMut::zeroed(8), 8), None);
    assert_eq!(table.landed(at(0), conn, SegmentMut::zeroed(8), 3), Some(11));
}

#[test]
fn the_driver_is_told_once_of_what_is_to_be_sent() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    table.announce(conn);
    assert!(table.is_idle(), "there is nothing to send");
    reply(&mut table, conn, 30);
    table.announce(conn);
    table.announce(conn);
    assert_eq!(actions(&mut table), ["transmit 0"]);
    let mut out = List::new();
    assert!(table.transmit(at(0), conn, &mut out, 20));
    table.announce(conn);
    assert!(out.len() == 20 && table.is_idle(), "the driver asks for the rest of itself");
    assert!(table.transmit(at(0), conn, &mut List::new(), 20));
    assert!(table.is_idle(), "all is sent");
    // Messages that wait for what is to be sent lead to a question for it, too.
    table.get(conn).unwrap().defers = true;
    table.announce(conn);
    assert_eq!(actions(&mut table), ["transmit 0"]);
    table.end(at(0), conn);
    assert!(!table.transmit(at(0), conn, &mut List::new(), 20));
}

#[test]
fn nothing_is_read_while_a_connection_is_stopped_or_defers_or_all_are_stalled() {
    let mut table = table();
    let (conn, other) = (add(&mut table, HOST), add(&mut table, HOST));
    let reads = |table: &mut Connections<Fake>| table.landing(conn).ahead > 0;
    assert!(reads(&mut table));
    table.stop(at(0), conn);
    table.stop(at(0), conn);
    assert!(!reads(&mut table) && table.is_stopped(conn) && !table.is_stopped(other));
    assert!(table.get(conn).unwrap().stopped && table.get(conn).unwrap().settled == 1);
    table.read_again(conn);
    assert!(table.is_idle());
    assert!(!table.resume(at(0), conn, |_, _| false));
    assert!(table.resume(at(0), conn, |_, _| true) && !table.resume(at(0), conn, |_, _| true));
    table.read_again(conn);
    assert!(!table.get(conn).unwrap().stopped && !table.has_stopped());
    assert_eq!(actions(&mut table), ["resume 0"]);
    table.get(conn).unwrap().defers = true;
    table.read_again(conn);
    assert!(!reads(&mut table) && table.is_idle());
    table.get(conn).unwrap().defers = false;
    table.stall(true);
    assert!(!reads(&mut table) && table.is_idle());
    table.stall(false);
    table.stall(false);
    assert!(reads(&mut table));
    assert_eq!(actions(&mut table), ["resume 0", "resume 1"]);
}

#[test]
fn all_that_are_stopped_go_on_when_there_is_room_for_replies_again() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, OTHER), add(&mut table, HOST)];
    reply(&mut table, conns[0], 300);
    let had_room = table.has_room_for_replies();
    assert!(!had_room);
    let (_, allowance) = table.get_with_allowance(conns[0]).unwrap();
    assert!(!allowance.may_answer() && allowance.waiting() == 300);
    conns.iter().for_each(|conn| table.stop(at(0), *conn));
    table.end(at(0), conns[2]);
    assert_eq!(table.all_to_resume(conns[1], had_room), [conns[1]]);
    reply(&mut table, conns[0], 100);
    assert_eq!(table.all_to_resume(conns[1], had_room), conns[..2]);
    assert_eq!(table.all_to_resume(conns[2], true), []);
    assert_eq!(table.all_stopped(), conns[..2]);
}

#[test]
fn what_the_driver_holds_counts_until_it_asks_again() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    reply(&mut table, conn, 300);
    table.transmit(at(0), conn, &mut List::new(), usize::MAX);
    table.count_replies(at(0), conn);
    assert!(!table.has_room_for_replies());
    table.transmit(at(0), conn, &mut List::new(), usize::MAX);
    table.count_replies(at(0), conn);
    assert!(table.has_room_for_replies());
}

#[test]
fn a_connection_that_is_finished_stays_until_its_client_has_taken_all_replies() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    reply(&mut table, conn, 30);
    table.finish(at(0), conn);
    table.finish(at(0), conn);
    assert_eq!(table.landing(conn).ahead, 0, "nothing is read");
    assert_eq!(actions(&mut table), ["transmit 0"]);
    let take = |table: &mut Connections<Fake>, seconds| {
        let mut out = List::new();
        assert!(table.transmit(at(seconds), conn, &mut out, 10));
        table.count_replies(at(seconds), conn);
        out.len()
    };
    // Each time, the driver has sent what it took before.
    assert_eq!([take(&mut table, 20), take(&mut table, 40), take(&mut table, 60)], [10, 10, 10]);
    assert!(table.is_idle() && table.get(conn).is_some(), "the last bytes are the driver's");
    assert!(table.review(at(61)).unwrap().give_up.is_empty());
    assert_eq!(take(&mut table, 80), 0);
    assert_eq!(actions(&mut table), ["close 0"]);
    assert!(table.is_empty());
    // With nothing to send it is closed at once, and after a stop it is not resumed.
    let conn = add(&mut table, HOST);
    table.stop(at(80), conn);
    table.finish(at(80), conn);
    assert!(!table.has_stopped());
    assert_eq!(actions(&mut table), ["close 0"]);
}

#[test]
fn a_client_that_sends_no_more_and_takes_nothing_is_given_up() {
    let mut table = table();
    let conn = add(&mut table, HOST);
    reply(&mut table, conn, 30);
    table.finish(at(0), conn);
    for seconds in 1..300 {
        let review = table.review(at(seconds)).unwrap();
        assert!(review.give_up.is_empty());
        table.end_review(at(seconds), review);
    }
    assert_eq!(table.review(at(300)).unwrap().give_up, [(conn, GiveUp::Left)]);
}

#[test]
fn deadlines_are_kept_and_told_once() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, HOST)];
    for (conn, deadline) in conns.iter().zip([at(5), at(3)]) {
        table.get(*conn).unwrap().deadline = Some(deadline);
        table.wake(*conn);
    }
    assert_eq!(table.deadline(), Some(at(3)));
    assert_eq!(table.timeout(at(2)), []);
    assert_eq!(table.timeout(at(3)), [conns[1]]);
    assert_eq!((table.get(conns[1]).unwrap().timeouts, table.deadline()), (1, Some(at(5))));
    table.end(at(4), conns[0]);
    assert_eq!(table.timeout(at(5)), []);
    assert_eq!(table.deadline(), None);
}

/// Has a message of `announced` bytes begin on a connection.
fn begin(table: &mut Connections<Fake>, now: Time, conn: ConnId, announced: usize) -> Option<ConnId> {
    table.get(conn).unwrap().unfinished = Some(Unfinished { announced, held: 1 });
    table.progress(now, conn, 1, false)
}

/// Looks at all connections, closes those that are given up, and returns them.
fn review(table: &mut Connections<Fake>, now: Time) -> Vec<(ConnId, GiveUp)> {
    let Some(review) = table.review(now) else { return Vec::new() };
    let give_up = review.give_up.clone();
    give_up.iter().for_each(|(conn, _)| table.close(now, *conn));
    for conn in table.end_review(now, review) {
        table.resume(now, conn, |_, _| false);
    }
    give_up
}

#[test]
fn a_message_that_stops_is_given_up_unless_the_server_does_not_read_it() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, HOST), add(&mut table, HOST)];
    for conn in conns {
        begin(&mut table, at(0), conn, 10);
    }
    table.get(conns[1]).unwrap().defers = true;
    table.stop(at(0), conns[2]);
    let mut given_up = Vec::new();
    for second in 1..=100 {
        given_up.extend(review(&mut table, at(second)).into_iter().map(|found| (second, found)));
    }
    assert_eq!(given_up, [(30, (conns[0], GiveUp::Slow))]);
    assert!(table.get(conns[1]).unwrap().settled > 50, "it lets go of memory while nothing is read");
}

#[test]
fn as_many_give_up_replies_that_are_not_taken_as_others_need() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, HOST), add(&mut table, OTHER)];
    for (conn, bytes) in conns.iter().zip([120, 130, 100]) {
        reply(&mut table, *conn, bytes);
        table.stop(at(0), *conn);
    }
    let given_up: Vec<_> = (1..=20).flat_map(|second| review(&mut table, at(second))).collect();
    // 350 bytes wait, and 200 may.
    assert_eq!(given_up, [(conns[1], GiveUp::Stalled), (conns[0], GiveUp::Stalled)]);
    assert!(table.is_stopped(conns[2]));
}

#[test]
fn large_messages_take_turns() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, OTHER)];
    begin(&mut table, at(0), conns[0], 80);
    let (_, allowance) = table.get_with_allowance(conns[1]).unwrap();
    assert!(!allowance.has_slot_for(60));
    begin(&mut table, at(0), conns[1], 60);
    let reads = |table: &mut Connections<Fake>| conns.map(|conn| table.landing(conn).ahead > 0);
    assert_eq!(reads(&mut table), [true, false]);
    assert_eq!(review(&mut table, at(1)), []);
    assert_eq!(actions(&mut table), ["resume 1"]);
    assert_eq!(reads(&mut table), [false, true]);
    // The end of a message lets the next one in.
    table.get(conns[1]).unwrap().unfinished = None;
    table.progress(at(1), conns[1], 59, true);
    assert_eq!(actions(&mut table), ["resume 0"]);
    assert_eq!(reads(&mut table), [true, true]);
}

#[test]
fn the_connection_with_the_most_unfinished_is_named_when_it_is_too_much() {
    let mut table = table();
    let conns = [add(&mut table, HOST), add(&mut table, HOST)];
    for (conn, held) in conns.iter().zip([200, 400]) {
        table.get(*conn).unwrap().unfinished = Some(Unfinished { announced: 49, held });
    }
    assert_eq!(table.progress(at(0), conns[0], 1, false), None);
    assert_eq!(table.progress(at(0), conns[1], 1, false), Some(conns[1]));
}

#[test]
fn a_full_table_names_the_connection_that_gives_way() {
    let mut table = table();
    let conns: Vec<ConnId> = (0..4).map(|_| add(&mut table, HOST)).collect();
    assert!(table.is_full());
    table.get(conns[0]).unwrap().timeouts = 7;
    let may = |connection: &Fake| connection.timeouts == 7;
    assert_eq!(table.pick(at(1), OTHER, may), Some(conns[0]));
    table.close(at(1), conns[0]);
    assert!(!table.is_full() && table.pick(at(1), OTHER, may).is_none());
}

#[test]
fn an_address_that_has_many_connections_takes_none_from_one_that_has_fewer() {
    let mut table = table();
    let honest = add(&mut table, OTHER);
    let attackers: Vec<ConnId> = (0..3).map(|_| add(&mut table, HOST)).collect();
    assert!(table.is_full());
    let any = |_: &Fake| true;
    // The honest connection is the idlest by far.
    for conn in &attackers {
        table.progress(at(100), *conn, 1, true);
    }
    assert_eq!(table.pick(at(100), HOST, any), None, "their own are in use");
    assert_eq!(table.pick(at(102), HOST, any), Some(attackers[0]), "one of their own is idle");
    assert_ne!(table.pick(at(102), OTHER, any), Some(honest));
}
