//! Decisions about a connecting peer, and their effect on a session.

use crate::auth::{Entropy, Login};
use crate::claim::{ConnectRequest, Ident, Reconnect, Refusal, SessionPeer};
use crate::config::Config;
use crate::connection::Connection;
use crate::decision::{AcceptDecision, LocalState};
use crate::error::Error;
use crate::event::Event;
use crate::message::{Message, NoPlacer};
use crate::peer::{Target, Visitor};
use crate::policy::Policy;
use crate::session::{Accepted, Session};
use crate::state::SessionState;
use crate::types::EntityName;
use crate::types::addr::AddrVec;
use onego_buf::{List, Pool, Segment};
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

const START: Time = Time::from_nanos(1_700_000_000_000_000_000);
const LOW: &str = "v2:10.0.0.1:6800/1";
const HIGH: &str = "v2:10.0.0.2:6800/1";

fn addrs(text: &str) -> AddrVec {
    text.parse().unwrap()
}

fn new(from: &str, cookie: u64, global_seq: u64) -> ConnectRequest {
    let ident = Ident {
        addrs: addrs(from),
        target: None,
        num: 1,
        global_seq,
        supported: 0,
        required: 0,
        flags: 0,
        cookie,
    };
    ConnectRequest::New(ident)
}

fn resume(from: &str, client_cookie: u64, global_seq: u64, connect_seq: u64) -> ConnectRequest {
    let addrs = addrs(from);
    ConnectRequest::Resume(Reconnect {
        addrs,
        client_cookie,
        server_cookie: 20,
        global_seq,
        connect_seq,
        msg_seq: 0,
    })
}

fn old(policy: Policy) -> SessionState {
    let mut state = SessionState::without(policy, 1);
    (state.client_cookie, state.server_cookie) = (10, 20);
    (state.connect_seq, state.peer_global_seq) = (5, 100);
    state
}

const TAKE: AcceptDecision = AcceptDecision::Take { reset: false };

#[test]
fn a_new_session_is_granted_unless_this_side_is_about_to_request_one() {
    let peer = |own: &str, local, from: &str| {
        SessionState::without(Policy::LOSSLESS_PEER, 1).decide(local, &addrs(own), &new(from, 11, 1))
    };
    assert_eq!(peer(HIGH, LocalState::Idle, LOW), TAKE);
    assert_eq!(peer(LOW, LocalState::Idle, HIGH), TAKE);
    // Both connect: the connection of the lower address is used.
    assert_eq!(peer(HIGH, LocalState::Connecting, LOW), TAKE);
    assert_eq!(peer(LOW, LocalState::Connecting, HIGH), AcceptDecision::Refuse(Refusal::Wait));
    let server = SessionState::without(Policy::STATEFUL_SERVER, 1);
    assert_eq!(server.decide(LocalState::Connecting, &addrs(LOW), &new(HIGH, 11, 1)), TAKE);
}

#[test]
fn a_new_instance_of_the_peer_replaces_an_older_one_but_not_a_newer_one() {
    for (policy, reset) in
        [(Policy::STATEFUL_SERVER, true), (Policy::LOSSLESS_PEER_REUSE, true), (Policy::LOSSLESS_PEER, false)]
    {
        let decide = |request| old(policy).decide(LocalState::Connecting, &addrs(LOW), &request);
        assert_eq!(decide(new(HIGH, 11, 101)), AcceptDecision::Take { reset });
        assert_eq!(decide(new(HIGH, 10, 101)), TAKE, "SERVER_IDENT was lost");
        assert_eq!(decide(new(HIGH, 11, 99)), AcceptDecision::Drop);
    }
}

#[test]
fn resuming_a_session_reports_the_reason_for_a_refusal() {
    let decide = |request| old(Policy::LOSSLESS_PEER).decide(LocalState::Connecting, &addrs(LOW), &request);
    assert_eq!(decide(resume(HIGH, 10, 101, 6)), TAKE);
    assert_eq!(
        decide(resume(HIGH, 10, 99, 6)),
        AcceptDecision::Refuse(Refusal::RetryGlobal { global_seq: 100 })
    );
    assert_eq!(decide(resume(HIGH, 10, 101, 4)), AcceptDecision::Refuse(Refusal::Retry { connect_seq: 5 }));
    // Both resume at the same time.
    assert_eq!(decide(resume(HIGH, 10, 101, 5)), AcceptDecision::Refuse(Refusal::Wait));
    let low =
        old(Policy::LOSSLESS_PEER).decide(LocalState::Connecting, &addrs(HIGH), &resume(LOW, 10, 101, 5));
    assert_eq!(low, TAKE);
    let server =
        old(Policy::STATEFUL_SERVER).decide(LocalState::Idle, &addrs(LOW), &resume(HIGH, 10, 101, 5));
    assert_eq!(server, TAKE);
}

#[test]
fn an_unknown_session_is_reset() {
    let reset = |full| AcceptDecision::Refuse(Refusal::Reset { full });
    for policy in [Policy::LOSSLESS_PEER, Policy::STATEFUL_SERVER] {
        let none = SessionState::without(policy, 1);
        let decide = |state: &SessionState, request| state.decide(LocalState::Idle, &addrs(LOW), &request);
        assert_eq!(decide(&none, resume(HIGH, 10, 1, 1)), reset(true));
        // This side requested a session and never learned that the peer granted it.
        let mut asked = SessionState::without(policy, 1);
        asked.client_cookie = 10;
        assert_eq!(decide(&asked, resume(HIGH, 10, 1, 1)), reset(false));
    }
}

fn session(policy: Policy, own: &str) -> Session {
    instance(1, policy, own)
}

/// Session of instance `number` of a process: each instance generates its own cookies.
fn instance(number: u8, policy: Policy, own: &str) -> Session {
    let config = Config { policy, ..Config::server(EntityName::osd(1), addrs(own), Pool::new(1 << 20)) };
    Session::new(Arc::new(config), Entropy::new([number; 32]))
}

fn carry(now: Time, from: &mut Connection, to: &mut Connection) {
    let mut out = List::new();
    from.transmit(&mut out, 1 << 20);
    to.received(now, Segment::from(out.to_vec()), &mut NoPlacer);
}

/// Connects `low` to `high` and exchanges all output of both.
fn meet(now: Time, low: &mut Session, high: &mut Session) -> Vec<Event> {
    let target = Target {
        kind: EntityName::OSD,
        addr: addrs(HIGH).0[0],
        login: Login::unproved("admin", false, 4123),
    };
    low.connect(now, target);
    low.connection().unwrap().opened(now, "10.0.0.1:50000".parse().unwrap());
    let visitor = Visitor { addr: "10.0.0.1:50000".parse().unwrap(), fresh_global_id: 1 };
    let local = "10.0.0.2:6800".parse().unwrap();
    let mut accepted = Some(Connection::accept(now, high.config(), visitor, local));
    loop {
        if accepted.as_ref().is_some_and(|it| it.claimed_by().is_some()) {
            match high.accept(accepted.take().unwrap()) {
                Accepted::Carries(_) => {}
                Accepted::Refused(it) => accepted = Some(it),
                Accepted::Stale(_) => panic!("stale"),
            }
        }
        let there = low.connection().unwrap();
        let here = match &mut accepted {
            Some(it) => it,
            None => high.connection().unwrap(),
        };
        if !there.has_output() && !here.has_output() {
            break;
        }
        carry(now, there, here);
        carry(now, here, there);
    }
    std::iter::from_fn(|| low.connection().unwrap().poll()).collect()
}

fn pair(policy: Policy) -> (Session, Session) {
    let (mut low, mut high) = (session(policy, LOW), session(policy, HIGH));
    assert!(matches!(&meet(START, &mut low, &mut high)[..], [Event::Ready(_)]));
    (low, high)
}

fn break_both(now: Time, low: &mut Session, high: &mut Session) {
    assert!(low.lost(now).is_some() && high.lost(now).is_some());
}

fn message(tid: u64) -> Message {
    Message::new(42, 1, 1, vec![tid as u8; 10]).with_tid(tid)
}

fn received(session: &mut Session) -> Vec<u64> {
    let events = std::iter::from_fn(|| session.connection().unwrap().poll());
    let tids = events.filter_map(|event| match event {
        Event::Message(message) => Some(message.header.tid),
        _ => None,
    });
    tids.collect()
}

#[test]
fn a_client_retries_with_the_numbers_from_the_peer() {
    let (mut low, mut high) = pair(Policy::LOSSLESS_PEER);
    break_both(START, &mut low, &mut high);
    high.kept_mut().connect_seq = 70;
    high.kept_mut().peer_global_seq = u64::MAX / 2;
    low.send(message(1)).unwrap();
    assert!(matches!(&meet(START, &mut low, &mut high)[..], [Event::Ready(_)]));
    assert_eq!((low.state().connect_seq, low.state().global_seq), (71, u64::MAX / 2 + 1));
    assert_eq!((received(&mut high), low.unacknowledged(), low.resets()), (vec![1], 0, 0));
}

#[test]
fn every_connection_attempt_has_a_higher_number() {
    for version in ["v2", "v1"] {
        let mut low = session(Policy::LOSSLESS_PEER, &LOW.replace("v2", version));
        let addr = addrs(&HIGH.replace("v2", version)).0[0];
        let mut last = 0;
        for _ in 0..3 {
            let login = Login::unproved("admin", false, 4123);
            low.connect(START, Target { kind: EntityName::OSD, addr, login });
            assert!(low.state().global_seq > last, "{version}");
            last = low.state().global_seq;
            low.lost(START);
        }
    }
}

#[test]
fn a_session_that_was_never_granted_restarts_without_loss() {
    let (mut low, mut high) = pair(Policy::LOSSLESS_PEER);
    break_both(START, &mut low, &mut high);
    // As if it had requested the session itself and missed the answer.
    high.kept_mut().server_cookie = 0;
    low.send(message(1)).unwrap();
    assert!(matches!(&meet(START, &mut low, &mut high)[..], [Event::Ready(_)]));
    assert_eq!((received(&mut high), low.resets(), low.unacknowledged()), (vec![1], 0, 0));
}

#[test]
fn messages_for_an_earlier_instance_reach_a_later_one_only_if_the_policy_allows() {
    for policy in [Policy::LOSSLESS_PEER, Policy::LOSSLESS_PEER_REUSE] {
        // The session's server was restarted: it knows no session, and all messages queued for it are dropped.
        let (mut low, mut high) = pair(policy);
        low.send(message(1)).unwrap();
        break_both(START, &mut low, &mut high);
        let mut high = instance(2, policy, HIGH);
        meet(START, &mut low, &mut high);
        assert_eq!((received(&mut high), low.resets(), low.unacknowledged()), (vec![], 1, 0));
    }
    for (policy, expected) in [(Policy::LOSSLESS_PEER, vec![1]), (Policy::LOSSLESS_PEER_REUSE, vec![])] {
        // The session's client was restarted.
        let (mut low, mut high) = pair(policy);
        high.send(message(1)).unwrap();
        break_both(START, &mut low, &mut high);
        let mut low = instance(2, policy, LOW);
        let later = START + Duration::from_secs(1);
        let events = meet(later, &mut low, &mut high);
        let tids: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Message(message) => Some(message.header.tid),
                _ => None,
            })
            .collect();
        assert_eq!((tids, high.unacknowledged()), (expected, 0));
    }
}

#[test]
fn an_acknowledged_message_is_released_and_a_duplicate_is_ignored() {
    let (mut low, mut high) = pair(Policy::LOSSLESS_PEER);
    low.send(message(1)).unwrap();
    assert_eq!(low.unacknowledged(), 1);
    let mut out = List::new();
    low.connection().unwrap().transmit(&mut out, 1 << 20);
    for _ in 0..2 {
        high.connection().unwrap().received(START, Segment::from(out.to_vec()), &mut NoPlacer);
    }
    assert_eq!(received(&mut high), [1]);
    let mut ack = List::new();
    high.connection().unwrap().transmit(&mut ack, 1 << 20);
    assert_eq!(ack.len(), 32 + 8 + 4, "one ACK for both");
    assert!(!high.connection().unwrap().has_output());
    low.connection().unwrap().received(START, Segment::from(ack.to_vec()), &mut NoPlacer);
    assert_eq!(low.unacknowledged(), 0);
    // Likewise for the acknowledgement in its own frame: this side has sent only one message.
    let forged = crate::v2::control_frame(crate::tag::Tag::Ack, &2u64.to_le_bytes());
    low.connection().unwrap().received(START, Segment::from(forged), &mut NoPlacer);
    let fault = std::iter::from_fn(|| low.connection().unwrap().poll()).last();
    assert!(matches!(fault, Some(Event::Fault(Error::NeverSent { seq: 2, last: 1 }))), "{fault:?}");
}

#[test]
fn a_session_queues_no_more_than_its_limit() {
    let mut low = session(Policy::LOSSLESS_PEER, LOW);
    let mut taken = 0;
    while low.send(message(taken)).is_ok() {
        taken += 1;
    }
    assert_eq!((taken, low.has_room(), low.unacknowledged()), (4096, false, 4096));
    let mut low = session(Policy::LOSSLESS_PEER, LOW);
    while low.send(message(0).with_data(vec![0; 16 << 20])).is_ok() {}
    assert_eq!(low.unacknowledged(), 4);
}

#[test]
fn the_policy_determines_who_reconnects_and_when() {
    let later = |millis| START + Duration::from_millis(millis);
    let mut client = session(Policy::LOSSLESS_CLIENT, LOW);
    assert!(client.wants_connection(START), "a client connects at once");
    let mut peer = session(Policy::LOSSLESS_PEER, LOW);
    assert!(!peer.wants_connection(START), "a peer has nothing to send");
    peer.send(message(1)).unwrap();
    assert!(peer.wants_connection(START));
    let mut server = session(Policy::STATEFUL_SERVER, LOW);
    server.send(message(1)).unwrap();
    assert!(!server.wants_connection(START) && server.deadline().is_none());

    // Failed attempts back off.
    let target = || Target {
        kind: EntityName::OSD,
        addr: addrs(HIGH).0[0],
        login: Login::unproved("admin", false, 4123),
    };
    let mut at = 0;
    for pause in [200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000] {
        client.connect(later(at), target());
        client.lost(later(at));
        assert_eq!(client.deadline(), Some(later(at + pause)));
        assert!(
            !client.wants_connection(later(at + pause - 1)) && client.wants_connection(later(at + pause))
        );
        at += pause;
    }
}

/// Version 1's decision about a peer at `connect_seq` `theirs`, on a side at `own`.
fn legacy(
    policy: Policy,
    known: bool,
    local: LocalState,
    own: u64,
    theirs: u64,
    from: &str,
) -> AcceptDecision {
    let mut state = SessionState::without(policy, 1);
    (state.connect_seq, state.peer_global_seq) = (own, 100);
    state.peer = known.then_some(SessionPeer { ident: None, kind: EntityName::OSD, auth_name: None });
    let request = ConnectRequest::Legacy { addrs: addrs(from), global_seq: 101, connect_seq: theirs };
    state.decide(local, &addrs("v1:10.0.0.2:6800/1"), &request)
}

#[test]
fn version_1_distinguishes_instances_and_attempts_by_connect_seq() {
    const FROM_LOW: &str = "v1:10.0.0.1:6800/1";
    const FROM_HIGH: &str = "v1:10.0.0.3:6800/1";
    let (peer, server) = (Policy::LOSSLESS_PEER, Policy::STATEFUL_SERVER);
    let (idle, busy) = (LocalState::Idle, LocalState::Connecting);
    let retry = |connect_seq| AcceptDecision::Refuse(Refusal::Retry { connect_seq });
    let reset = AcceptDecision::Refuse(Refusal::Reset { full: true });
    assert_eq!(legacy(peer, false, idle, 0, 0, FROM_LOW), TAKE, "a new session");
    assert_eq!(legacy(peer, false, idle, 0, 2, FROM_LOW), reset, "an unknown session");
    assert_eq!(legacy(server, true, idle, 0, 2, FROM_LOW), reset, "a session that this side has lost");
    assert_eq!(legacy(peer, true, idle, 3, 4, FROM_LOW), TAKE, "it is resumed");
    assert_eq!(legacy(peer, true, idle, 3, 2, FROM_LOW), retry(4), "an earlier attempt");
    assert_eq!(legacy(peer, true, idle, 3, 3, FROM_LOW), retry(4), "no race: this side is not connecting");
    assert_eq!(legacy(peer, true, busy, 3, 3, FROM_LOW), TAKE, "a race that the lower address wins");
    assert_eq!(legacy(peer, true, busy, 3, 3, FROM_HIGH), AcceptDecision::Refuse(Refusal::Wait));
    assert_eq!(legacy(server, true, busy, 3, 3, FROM_HIGH), TAKE, "a server does not connect");
    assert_eq!(
        legacy(server, true, idle, 3, 0, FROM_LOW),
        AcceptDecision::Take { reset: true },
        "a restarted peer"
    );
    assert_eq!(legacy(peer, true, idle, 3, 0, FROM_LOW), TAKE, "a restarted peer");
    assert_eq!(
        legacy(server, false, idle, 1, 0, FROM_LOW),
        TAKE,
        "it missed the answer to its first attempt"
    );
    let mut state = SessionState::without(peer, 1);
    state.peer_global_seq = 102;
    let request = ConnectRequest::Legacy { addrs: addrs(FROM_LOW), global_seq: 101, connect_seq: 0 };
    let stale = state.decide(idle, &addrs(FROM_HIGH), &request);
    assert_eq!(stale, AcceptDecision::Refuse(Refusal::RetryGlobal { global_seq: 102 }));
}
