//! Watches and notifications, on virtual time.

use super::*;
use onego_ceph::messages::{WatchEvent, WatchNotify};
use onego_ceph::ops::WatchOp;
use onego_ceph::outputs::Watchers;
use onego_msgr::encoding::Decode;
use onego_wire::Reader;

const COOKIE: u64 = 77;

impl Bench {
    fn watch(&mut self, session: SessionId, op: WatchOp) -> i32 {
        let op = Op::Watch { cookie: COOKIE, op, generation: 0, timeout: 0 };
        self.ask_as(session, "o", vec![op]).result
    }

    /// Notifies all who watch and returns the notification's number.
    fn notify(&mut self, timeout: u32) -> u64 {
        let op = Op::Notify { cookie: 5, timeout, payload: list(b"news") };
        let reply = self.ask_as(OTHER, "o", vec![op]);
        assert_eq!(reply.result, 0);
        Reader::new(&reply.ops[0].output.to_vec()).u64("id").unwrap()
    }

    fn acknowledge(&mut self, session: SessionId, notify_id: u64) {
        let op = Op::NotifyAck { notify_id, cookie: COOKIE, reply: list(b"seen") };
        assert_eq!(self.ask_as(session, "o", vec![op]).result, 0);
    }

    fn event(&mut self) -> (SessionId, WatchNotify) {
        self.osd.poll_event(|_| true).expect("something happened")
    }

    fn no_event(&mut self) {
        assert_eq!(self.osd.poll_event(|_| true), None);
    }

    fn watchers(&mut self) -> Watchers {
        Watchers::from_bytes(&self.get(Op::ListWatchers)).unwrap()
    }
}

type Answers = (Vec<((u64, u64), Vec<u8>)>, Vec<(u64, u64)>);

/// The watchers with their answers, and those without one.
fn answers(event: &WatchNotify) -> Answers {
    assert_eq!(event.event, WatchEvent::NotifyComplete);
    let mut r = Reader::new(&event.payload);
    (Vec::decode(&mut r).unwrap(), Vec::decode(&mut r).unwrap())
}

fn watched() -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.watch(CLIENT, WatchOp::Watch), failed(Errno::NOENT));
    bench.run(write(0, b"x"));
    assert_eq!(bench.watch(CLIENT, WatchOp::Watch), 0);
    bench
}

#[test]
fn a_notification_goes_to_who_watches_and_the_answers_come_back() {
    let mut bench = watched();
    let id = bench.notify(0);
    let (session, event) = bench.event();
    assert_eq!((session, event.event, event.cookie), (CLIENT, WatchEvent::Notify, COOKIE));
    assert_eq!((event.notify_id, event.notifier, &event.payload[..]), (id, 200, &b"news"[..]));
    bench.no_event();
    bench.acknowledge(CLIENT, id);
    let (session, event) = bench.event();
    assert_eq!((session, event.cookie, event.notify_id, event.result), (OTHER, 5, id, 0));
    assert_eq!(answers(&event), (vec![((100, COOKIE), b"seen".to_vec())], vec![]));
    bench.acknowledge(CLIENT, id);
    bench.no_event();
}

#[test]
fn a_notification_that_nobody_hears_is_complete_at_once() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    bench.notify(0);
    assert_eq!(answers(&bench.event().1), (vec![], vec![]));
    assert_eq!(bench.osd.deadline(), None);
}

#[test]
fn who_does_not_answer_in_time_is_named() {
    let mut bench = watched();
    let id = bench.notify(10);
    bench.event();
    bench.pass(9);
    bench.watch(CLIENT, WatchOp::Ping);
    bench.no_event();
    bench.pass(1);
    let (_, event) = bench.event();
    assert_eq!((event.notify_id, event.result), (id, failed(Errno::TIMEDOUT)));
    assert_eq!(answers(&event), (vec![], vec![(100, COOKIE)]));
    bench.acknowledge(CLIENT, id);
    bench.no_event();
}

#[test]
fn a_watch_lives_as_long_as_there_are_pings() {
    let mut bench = watched();
    for _ in 0..5 {
        bench.pass(29);
        assert_eq!(bench.watch(CLIENT, WatchOp::Ping), 0);
    }
    bench.pass(30);
    let (session, event) = bench.event();
    assert_eq!((session, event.event, event.cookie), (CLIENT, WatchEvent::Disconnect, COOKIE));
    assert_eq!(bench.watch(CLIENT, WatchOp::Ping), failed(Errno::NOTCONN));
    assert_eq!(bench.watch(CLIENT, WatchOp::Reconnect), failed(Errno::NOTCONN));
    assert_eq!(bench.watchers().0, []);
}

#[test]
fn a_watch_outlives_its_connection_and_hears_what_it_missed() {
    let mut bench = watched();
    bench.osd.session_closed(bench.now, CLIENT);
    let id = bench.notify(60);
    bench.no_event();
    bench.pass(20);
    let back = SessionId(10);
    bench.osd.session_opened(back, EntityName::client(100), UserId(100), address(1), Rights::everything());
    assert_eq!(bench.watch(back, WatchOp::Ping), failed(Errno::TIMEDOUT));
    assert_eq!(bench.watch(back, WatchOp::Reconnect), 0);
    let (session, event) = bench.event();
    assert_eq!((session, event.notify_id), (back, id));
    bench.acknowledge(back, id);
    assert_eq!(bench.event().1.result, 0);
}

#[test]
fn a_watch_whose_client_never_comes_back_is_lost() {
    let mut bench = watched();
    bench.osd.session_closed(bench.now, CLIENT);
    bench.notify(60);
    bench.pass(30);
    let (session, event) = bench.event();
    assert_eq!((session, event.result), (OTHER, 0));
    assert_eq!(answers(&event), (vec![], vec![]));
    assert_eq!(bench.osd.deadline(), None);
}

#[test]
fn an_old_watch_lives_as_long_as_its_connection() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    assert_eq!(bench.watch(CLIENT, WatchOp::LegacyWatch), 0);
    bench.pass(1000);
    assert_eq!(bench.watchers().0.len(), 1);
    bench.osd.session_closed(bench.now, CLIENT);
    bench.pass(29);
    bench.osd.session_opened(CLIENT, EntityName::client(100), UserId(100), address(1), Rights::everything());
    assert_eq!(bench.watchers().0.len(), 1);
    bench.pass(1);
    assert_eq!(bench.watchers().0.len(), 0);
}

#[test]
fn watchers_are_listed_until_they_leave() {
    let mut bench = watched();
    let watchers = bench.watchers().0;
    assert_eq!(watchers.len(), 1);
    assert_eq!((watchers[0].name, watchers[0].cookie), (EntityName::client(100), COOKIE));
    assert_eq!((watchers[0].timeout, watchers[0].addr), (30, address(1)));
    assert_eq!(bench.watch(CLIENT, WatchOp::Unwatch), 0);
    assert_eq!(bench.watch(CLIENT, WatchOp::Unwatch), 0);
    assert_eq!(bench.watchers().0, []);
    bench.no_event();
    assert_eq!(bench.osd.deadline(), None);
}

#[test]
fn who_watches_an_object_that_is_deleted_is_told() {
    let mut bench = watched();
    let id = bench.notify(0);
    bench.event();
    assert_eq!(bench.run(Op::Delete), 0);
    assert_eq!(bench.event().1.event, WatchEvent::Disconnect);
    let (_, event) = bench.event();
    assert_eq!((event.notify_id, event.result), (id, 0));
    assert_eq!(bench.osd.deadline(), None);
}

#[test]
fn a_request_that_fails_neither_watches_nor_notifies() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    let watch = Op::Watch { cookie: COOKIE, op: WatchOp::Watch, generation: 0, timeout: 0 };
    assert!(bench.ask("o", vec![watch, Op::Create { exclusive: true }]).result < 0);
    assert_eq!(bench.watchers().0, []);
    let notify = Op::Notify { cookie: 5, timeout: 0, payload: List::new() };
    assert!(bench.ask("o", vec![notify, Op::GetXattr { name: "none".into() }]).result < 0);
    bench.no_event();
}

#[test]
fn a_client_that_is_shut_out_watches_no_more() {
    let mut bench = watched();
    bench.map.blocklist.insert(address(1), Utime { sec: 99, nsec: 0 });
    bench.osd.map_changed(&bench.map);
    assert_eq!(bench.event().1.event, WatchEvent::Disconnect);
}

#[test]
fn a_watch_goes_with_its_object_to_another_osd() {
    let mut bench = watched();
    let notify_id = bench.notify(0);
    let (mut other, pool) = (Bench::new(), bench.map.pools[&POOL].clone());
    other.run(write(0, b"x"));
    let hash = bench.request("o", Vec::new()).hash;
    let pg = pool.pg(PgId { pool: POOL, seed: hash });
    let elsewhere = PgId { seed: pg.seed ^ 1, ..pg };
    other.osd.adopt_watches(other.now, &mut bench.osd, elsewhere, &pool);
    assert_eq!(bench.watchers().0.len(), 1, "the object is in another group");
    other.osd.adopt_watches(other.now, &mut bench.osd, pg, &pool);
    assert!(bench.watchers().0.is_empty());
    assert_eq!(bench.osd.deadline(), None, "the notification {notify_id:x} is the other OSD's business now");
    assert_eq!(other.watchers().0.len(), 1);
    assert_eq!(other.watch(CLIENT, WatchOp::Reconnect), 0);
    other.notify(0);
    assert_eq!(other.event().0, CLIENT);
}

/// A user who holds all that it may, and another who comes next.
#[test]
fn one_user_cannot_take_all_watches_or_notifications() {
    let mut bench = watched();
    let mut watch = |session, cookie| {
        bench
            .ask_as(
                session,
                "o",
                vec![Op::Watch { cookie, op: WatchOp::Watch, generation: 0, timeout: u32::MAX }],
            )
            .result
    };
    let taken = (0..).take_while(|cookie| watch(OTHER, *cookie) == 0).count();
    assert_eq!(taken, 65_535, "with the one of the other user half of all");
    assert_eq!(watch(OTHER, u64::MAX), failed(Errno::NOSPC));
    assert_eq!(watch(OTHER, 1), 0, "a watch that is there can be renewed");
    assert_eq!(watch(CLIENT, 1), 0);

    // Notifications of many watchers are dear, whatever they say.
    let notify =
        |payload: usize| Op::Notify { cookie: 1, timeout: u32::MAX, payload: vec![0; payload].into() };
    let mut ask = |session, payload| bench.ask_as(session, "o", vec![notify(payload)]).result;
    assert_eq!(ask(OTHER, (1 << 20) + 1), failed(Errno::MSGSIZE));
    let taken = (0..).take_while(|_| ask(OTHER, 1 << 20) == 0).count();
    assert!((1..4).contains(&taken), "{taken}");
    assert_eq!(ask(OTHER, 0), failed(Errno::BUSY));
    assert_eq!(bench.ask_as(CLIENT, "p", vec![write(0, b"x"), notify(1 << 20)]).result, 0);
    // They end in time, whatever their owner has asked for, and so do the watches.
    bench.now = bench.now + Duration::from_secs(301);
    bench.osd.timeout(bench.now);
    while bench.osd.poll_event(|_| true).is_some() {}
    assert_eq!(bench.ask_as(OTHER, "o", vec![notify(1 << 20)]).result, 0);
    bench.now = bench.now + Duration::from_secs(3601);
    bench.osd.timeout(bench.now);
    while bench.osd.poll_event(|_| true).is_some() {}
    assert_eq!(bench.watchers().0.len(), 0);
}

#[test]
fn notifications_wait_for_a_connection_that_takes_none_and_delay_no_other() {
    let mut bench = watched();
    let other = Op::Watch { cookie: COOKIE, op: WatchOp::Watch, generation: 0, timeout: 0 };
    assert_eq!(bench.ask_as(OTHER, "o", vec![other]).result, 0);
    let first = bench.notify(0);
    let second = bench.notify(0);
    let not_client = |session| session != CLIENT;
    let ids: Vec<_> = std::iter::from_fn(|| bench.osd.poll_event(not_client)).collect();
    assert_eq!(
        ids.iter().map(|(to, event)| (*to, event.notify_id)).collect::<Vec<_>>(),
        [(OTHER, first), (OTHER, second)]
    );
    assert!(
        bench.osd.poll_event(|_| true).is_none() && !bench.osd.has_event(),
        "it is not asked again and again"
    );
    // One that is over by then is not sent any more.
    bench.acknowledge(CLIENT, first);
    bench.osd.resume_events(CLIENT);
    let (session, event) = bench.event();
    assert_eq!((session, event.notify_id), (CLIENT, second));
    bench.no_event();
    assert!(bench.osd.has_no_events());
}
