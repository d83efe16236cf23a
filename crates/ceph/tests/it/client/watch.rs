//! Watches of objects, and notifications.

use crate::client::fake::{Fake, Health, Node, POOL, SECOND};
use onego_buf::List;
use onego_ceph::client::{Error, Event, Notified, Outcome, WatchId, WatchTarget};
use onego_ceph::messages::{ObjectName, OpResult, OsdOpReply, WatchEvent, WatchNotify};
use onego_ceph::ops::{Op, WatchOp};
use onego_msgr::Message;
use onego_wire::Writer;

fn target(object: &ObjectName) -> WatchTarget {
    WatchTarget { pool: POOL, object: object.clone(), namespace: Vec::new() }
}

fn watching(osds: usize) -> (Fake, ObjectName, WatchId, u64) {
    let mut fake = Fake::ready(1, osds);
    let object = fake.object_on(0);
    let ticket = fake.ticket();
    let id = fake.client.watch(fake.now, target(&object), ticket);
    fake.run_until_idle();
    assert_eq!(fake.take_done(ticket).unwrap().outcome, Ok(Outcome::Watching(id)));
    let (cookie, registered) = fake.osds[0].watches.iter().next().unwrap();
    assert_eq!(*registered, (WatchOp::Watch, 0));
    let cookie = *cookie;
    (fake, object, id, cookie)
}

fn notice(cookie: u64, event: WatchEvent) -> WatchNotify {
    WatchNotify {
        event,
        cookie,
        version: 1,
        notify_id: 55,
        payload: b"hello".to_vec(),
        result: 0,
        notifier: 99,
    }
}

#[test]
fn notifications_reach_the_watcher_and_are_acknowledged() {
    let (mut fake, _, id, cookie) = watching(1);
    let conn = fake.connections(Node::Osd(0))[0];
    fake.send(conn, 0, &notice(cookie, WatchEvent::Notify));
    fake.run_until_idle();
    let payload = List::from(b"hello".to_vec());
    let expected = Event::Notify { watch: id, notify_id: 55, notifier: 99, payload };
    assert!(fake.events.contains(&expected));
    fake.client.acknowledge(fake.now, id, 55, b"yes".to_vec().into());
    fake.run_until_idle();
    assert_eq!(fake.osds[0].notify_acks, [(55, cookie, b"yes".to_vec())]);
}

#[test]
fn a_watch_is_registered_again_after_a_break_and_kept_alive() {
    let (mut fake, _, _, cookie) = watching(1);
    fake.break_connections(Node::Osd(0));
    fake.run_until_idle();
    assert_eq!(fake.osds[0].watches[&cookie], (WatchOp::Reconnect, 1));
    fake.break_connections(Node::Osd(0));
    fake.run_until_idle();
    assert_eq!(fake.osds[0].watches[&cookie], (WatchOp::Reconnect, 2));
    fake.advance(21 * SECOND);
    assert!((3..6).contains(&fake.osds[0].pings), "{} pings", fake.osds[0].pings);
    assert!(fake.done.is_empty() && !fake.events.iter().any(|e| matches!(e, Event::WatchLost { .. })));
}

#[test]
fn a_watch_follows_its_object() {
    let (mut fake, object, _, cookie) = watching(2);
    fake.want_map();
    let group = fake.group(&object);
    fake.publish(|change| change.new_pg_temp.insert(group, vec![1]));
    fake.run_until_idle();
    assert_eq!(fake.osds[1].watches[&cookie], (WatchOp::Reconnect, 1));
}

#[test]
fn a_connection_with_a_watch_is_not_idle() {
    let (mut fake, ..) = watching(1);
    fake.advance(200 * SECOND);
    assert_eq!(fake.opened[&Node::Osd(0)], 1);
}

#[test]
fn a_forgotten_watch_is_reported_lost_once() {
    let (mut fake, _, id, cookie) = watching(1);
    fake.osds[0].answers = vec![OsdOpReply { result: -2, ..OsdOpReply::default() }];
    fake.break_connections(Node::Osd(0));
    fake.run_until_idle();
    let conn = fake.connections(Node::Osd(0))[0];
    fake.send(conn, 0, &notice(cookie, WatchEvent::Disconnect));
    fake.advance(20 * SECOND);
    let lost = Event::WatchLost { watch: id, error: Error::WatchLost { errno: -107 } };
    assert_eq!(fake.events.iter().filter(|event| **event == lost).count(), 1);
    assert_eq!(fake.osds[0].pings, 0);
}

#[test]
fn a_watch_of_a_missing_object_fails() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].answers = vec![OsdOpReply { result: -2, ..OsdOpReply::default() }];
    let ticket = fake.ticket();
    fake.client.watch(fake.now, target(&ObjectName::from("a")), ticket);
    fake.run_until_idle();
    assert_eq!(fake.take_done(ticket).unwrap().outcome, Err(Error::Refused { errno: -2 }));
}

#[test]
fn an_ended_watch_is_gone() {
    let (mut fake, _, id, cookie) = watching(1);
    let ticket = fake.ticket();
    fake.client.unwatch(fake.now, id, ticket);
    fake.run_until_idle();
    assert_eq!(fake.take_done(ticket).unwrap().outcome, Ok(Outcome::Unwatched));
    assert!(fake.osds[0].watches.is_empty());
    let conn = fake.connections(Node::Osd(0))[0];
    fake.events.clear();
    fake.send(conn, 0, &notice(cookie, WatchEvent::Notify));
    fake.run_until_idle();
    assert!(fake.events.is_empty());
    fake.client.unwatch(fake.now, id, ticket);
    assert!(matches!(fake.take_done(ticket).unwrap().outcome, Err(Error::Invalid(_))));
}

/// Sends the end of a notification like an OSD: the answers are the message's data.
fn complete(fake: &mut Fake, cookie: u64, notify_id: u64) {
    let mut data = Writer::new();
    data.count(1);
    data.u64(4242);
    data.u64(7);
    data.blob(b"answer");
    data.count(1);
    data.u64(4243);
    data.u64(8);
    let notice = WatchNotify {
        notify_id,
        payload: Vec::new(),
        result: -110,
        ..notice(cookie, WatchEvent::NotifyComplete)
    };
    let message = Message::of(0, &notice).with_data(data.into_vec());
    let conn = fake.connections(Node::Osd(0))[0];
    fake.server(conn).unwrap().send(message);
    fake.run_until_idle();
}

#[test]
fn a_notification_ends_with_the_watchers_answers() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let ticket = fake.ticket();
    let payload = List::from(b"hello".to_vec());
    fake.client.notify(fake.now, target(&ObjectName::from("a")), payload.clone(), Some(3), ticket);
    fake.run_until_idle();
    let held = fake.osds[0].held.remove(0);
    let Op::Notify { cookie, timeout: 3, payload: sent } = held.op.ops[0].0.clone() else {
        panic!("{held:?}")
    };
    assert_eq!(sent, payload);
    let id = OpResult { output: 55u64.to_le_bytes().to_vec().into(), ..OpResult::default() };
    let reply = OsdOpReply { ops: [id].into_iter().collect(), ..OsdOpReply::default() };
    fake.send(held.conn, held.tid, &reply);
    fake.run_until_idle();
    assert!(fake.done.is_empty());
    complete(&mut fake, cookie, 54);
    assert!(fake.done.is_empty(), "the end of another notification");
    complete(&mut fake, cookie, 55);
    let notified = Notified { answers: vec![(4242, 7, b"answer".to_vec())], missed: vec![(4243, 8)] };
    assert_eq!(fake.take_done(ticket).unwrap().outcome, Ok(Outcome::Notified(notified)));
    complete(&mut fake, cookie, 55);
    assert!(fake.done.is_empty());
}

#[test]
fn notifications_fail_without_an_object_and_time_out_without_an_end() {
    let mut fake = Fake::with(1, 1, |config| config.osd.request_timeout = Some(SECOND));
    fake.run_until_idle();
    fake.osds[0].answers = vec![OsdOpReply { result: -2, ..OsdOpReply::default() }];
    let (refused, endless) = (fake.ticket(), fake.ticket());
    fake.client.notify(fake.now, target(&ObjectName::from("a")), List::new(), None, refused);
    fake.run_until_idle();
    assert_eq!(fake.take_done(refused).unwrap().outcome, Err(Error::Refused { errno: -2 }));
    fake.client.notify(fake.now, target(&ObjectName::from("a")), List::new(), Some(2), endless);
    fake.set_health(Node::Osd(0), Health::Silent);
    fake.advance(10 * SECOND);
    assert!(matches!(fake.take_done(endless).unwrap().outcome, Err(Error::Timeout { .. })));
}
