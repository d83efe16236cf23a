//! Object requests, without failures and while the cluster changes.

use crate::client::fake::{Fake, Node, POOL, SECOND, append, pool, read, write};
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{Error, Outcome, Request};
use onego_ceph::messages::{BackoffOp, ObjectName, OsdOp, OsdOpReply};
use onego_ceph::ops::{Op, flag};
use onego_ceph::osdmap::{flag as map_flag, pool_flag};
use onego_ceph::types::{HObject, PgId};
use std::time::Duration;

#[test]
fn written_data_is_read_back() {
    let mut fake = Fake::ready(1, 3);
    for n in 0..20 {
        let object = ObjectName::from(format!("object{n}").as_str());
        fake.submit(write(&object, format!("bytes of {n}").as_bytes()));
    }
    fake.run_until_idle();
    assert_eq!(fake.done.len(), 20);
    assert_eq!(fake.client.load(), (0, 0));
    for n in 0..20 {
        let ticket = fake.submit(read(&ObjectName::from(format!("object{n}").as_str()), 100));
        fake.run_until_idle();
        assert_eq!(fake.expect_ok(ticket).ops[0].output.to_vec(), format!("bytes of {n}").as_bytes());
    }
    for osd in 0..3 {
        assert!(!fake.osds[osd].seen.is_empty(), "all OSDs have their share");
        assert_eq!(fake.opened[&Node::Osd(osd)], 1, "one connection serves all requests");
    }
}

#[test]
fn requests_wait_for_the_first_map() {
    let mut fake = Fake::new(1, 1);
    let ticket = fake.submit(write(&ObjectName::from("a"), b"b"));
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

#[test]
fn a_reply_reports_a_failure() {
    let mut fake = Fake::ready(1, 1);
    let ticket = fake.submit(read(&ObjectName::from("nothing"), 10));
    fake.run_until_idle();
    assert_eq!(fake.expect_error(ticket), Error::Refused { errno: -2 });
}

#[test]
fn invalid_requests_are_returned() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    let nonsense = [
        Request::new(POOL, object.clone()),
        read(&ObjectName::default(), 1),
        read(&object, 10).read_into(SegmentMut::zeroed(9)),
        read(&object, 10).and(Op::Stat).read_into(SegmentMut::zeroed(10)),
    ];
    for request in nonsense {
        let rejected = fake.client.submit(fake.now, request, 7).unwrap_err();
        assert!(matches!(rejected.error, Error::Invalid(_)), "{}", rejected.error);
        assert_eq!(rejected.ticket, 7);
    }
    let rejected = fake.client.submit(fake.now, read(&ObjectName::new(&[b'x'; 4000]), 1), 7).unwrap_err();
    assert_eq!(rejected.error, Error::NameTooLong { what: "the object", len: 4000, bound: 2048 });
    assert_eq!(rejected.error.errno(), -36);
    for (class, method) in [(256, 3), (3, 256)] {
        let call = Op::Call { class: "c".repeat(class), method: "m".repeat(method), input: List::new() };
        let request = Request::new(POOL, object.clone()).and(call);
        let rejected = fake.client.submit(fake.now, request, 7).unwrap_err();
        assert!(
            matches!(rejected.error, Error::NameTooLong { len: 256, bound: 255, .. }),
            "{}",
            rejected.error
        );
    }
}

#[test]
fn limits_on_requests_in_flight_apply() {
    let mut fake = Fake::with(1, 1, |config| {
        config.osd.max_ops = 3;
        config.osd.max_bytes = 100;
    });
    fake.run_until_idle();
    fake.osds[0].hold = true;
    let object = ObjectName::from("a");
    fake.submit(write(&object, &[1; 1000]));
    let rejected = fake.client.submit(fake.now, write(&object, &[1]), 9).unwrap_err();
    assert!(matches!(rejected.error, Error::Busy { bound: 100, .. }));
    assert!(!fake.client.has_room(1));
    fake.run_until_idle();
    fake.release(0);
    fake.run_until_idle();
    fake.osds[0].hold = true;
    for _ in 0..3 {
        fake.submit(write(&object, &[1]));
    }
    let rejected = fake.client.submit(fake.now, read(&object, 1), 9).unwrap_err();
    assert!(matches!(rejected.error, Error::Busy { bound: 3, .. }));
}

#[test]
fn a_read_fills_the_callers_buffer() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    fake.submit(write(&object, &bytes));
    for (length, room) in [(300_000, 300_000), (300_000, 400_000), (400_000, 400_000), (10, 4096)] {
        let buffer = SegmentMut::zeroed(room);
        let at = buffer.as_ptr();
        let ticket = fake.submit(read(&object, length).read_into(buffer));
        fake.run_until_idle();
        let done = fake.take_done(ticket).unwrap();
        let Ok(Outcome::Reply(reply)) = done.outcome else { panic!("{:?}", done.outcome) };
        let buffer = done.buffer.unwrap();
        let expected = bytes.len().min(length as usize);
        assert_eq!((reply.filled, buffer.len(), buffer.as_ptr()), (expected, room, at));
        assert!(buffer[..expected] == bytes[..expected]);
        assert!(reply.ops[0].output.is_empty());
    }
}

#[test]
fn a_failed_read_returns_its_buffer() {
    let mut fake = Fake::ready(1, 1);
    let ticket = fake.submit(read(&ObjectName::from("a"), 10).read_into(SegmentMut::zeroed(10)));
    fake.run_until_idle();
    let done = fake.take_done(ticket).unwrap();
    assert_eq!(done.buffer.as_ref().map(|buffer| buffer.len()), Some(10));
    assert_eq!(done.into_reply().unwrap_err(), Error::Refused { errno: -2 });
}

#[test]
fn requests_follow_their_group_to_its_new_primary_in_order() {
    let mut fake = Fake::ready(1, 2);
    let object = fake.object_on(0);
    let group = fake.group(&object);
    fake.osds[0].hold = true;
    let tickets: Vec<u32> = (0..5u8).map(|n| fake.submit(append(&object, &[n]))).collect();
    fake.run_until_idle();
    assert_eq!(fake.osds[0].held.len(), 5);
    fake.want_map();
    fake.publish(|change| change.new_pg_temp.insert(group, vec![1]));
    fake.run_until_idle();
    for ticket in tickets {
        fake.expect_ok(ticket);
    }
    assert_eq!(fake.store.objects[&(POOL, object)], [0, 1, 2, 3, 4]);
    assert!(fake.osds[1].seen.iter().all(|(_, attempt, _)| *attempt == 1));
    // Replies of the old primary no longer count.
    fake.release(0);
    fake.run_until_idle();
    assert!(fake.done.is_empty());
}

#[test]
fn requests_are_resent_to_a_group_that_moved_away_and_back_in_one_update() {
    let mut fake = Fake::ready(1, 2);
    let object = fake.object_on(0);
    let group = fake.group(&object);
    fake.osds[0].hold = true;
    let ticket = fake.submit(append(&object, b"x"));
    fake.run_until_idle();
    fake.publish_quietly(|change| change.new_pg_temp.insert(group, vec![1]));
    fake.publish_quietly(|change| change.new_pg_temp.insert(group, vec![]));
    fake.osds[0].held.clear();
    fake.osds[0].hold = false;
    fake.want_map();
    assert_eq!(fake.osds[0].seen.iter().map(|seen| seen.1).collect::<Vec<_>>(), [0, 1]);
    fake.expect_ok(ticket);
}

#[test]
fn requests_to_a_split_group_are_resent() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let objects: Vec<ObjectName> = fake.objects_on(0).take(20).collect();
    let tickets: Vec<u32> = objects.iter().map(|object| fake.submit(write(object, b"x"))).collect();
    fake.run_until_idle();
    fake.osds[0].held.clear();
    fake.want_map();
    fake.osds[0].hold = false;
    fake.publish(|change| change.new_pools.insert(POOL, pool(16)));
    fake.run_until_idle();
    for (ticket, object) in tickets.into_iter().zip(objects) {
        fake.expect_ok(ticket);
        let attempts = fake.osds[0].seen.iter().filter(|seen| seen.2 == object.to_string()).count();
        assert_eq!(attempts, 2, "{object}");
    }
}

#[test]
fn a_map_can_force_resends() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    fake.want_map();
    fake.osds[0].hold = false;
    fake.publish(|change| {
        let mut forced = pool(8);
        forced.last_force_op_resend = 2;
        change.new_pools.insert(POOL, forced);
    });
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

#[test]
fn requests_wait_while_the_map_pauses_them() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    let pauses = [map_flag::PAUSEWR, map_flag::PAUSERD, map_flag::FULL];
    for pause in pauses {
        fake.want_map();
        let flags = fake.map.flags;
        fake.publish(|change| change.new_flags = Some(flags | pause));
        fake.run_until_idle();
        let tickets = [fake.submit(write(&object, b"x")), fake.submit(read(&object, 1))];
        let urgent = fake.submit(write(&object, b"x").with_flags(flag::FULL_TRY));
        fake.advance(SECOND);
        let reads = pause == map_flag::PAUSERD;
        assert_eq!(fake.take_done(tickets[usize::from(reads)]).map(|done| done.ticket), None, "{pause:#x}");
        fake.take_done(tickets[usize::from(!reads)]).unwrap().into_reply().ok();
        assert_eq!(fake.take_done(urgent).is_some(), pause != map_flag::PAUSEWR);
        // The map is not requested again: the client has subscribed to all.
        fake.publish(|change| change.new_flags = Some(flags));
        fake.run_until_idle();
        fake.take_done(tickets[usize::from(reads)]).unwrap().into_reply().unwrap();
        fake.done.clear();
    }
}

#[test]
fn writes_to_a_full_pool_wait_and_are_resent() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    fake.osds[0].hold = true;
    let before = fake.submit(append(&object, b"1"));
    fake.want_map();
    fake.osds[0].held.clear(); // a full OSD drops writes
    fake.publish(|change| {
        change.new_pools.insert(POOL, onego_ceph::osdmap::Pool { flags: pool_flag::FULL, ..pool(8) });
    });
    fake.run_until_idle();
    let after = fake.submit(append(&object, b"2"));
    fake.run_until_idle();
    assert_eq!(fake.osds[0].seen.len(), 1);
    fake.osds[0].hold = false;
    fake.publish(|change| change.new_pools.insert(POOL, pool(8)));
    fake.run_until_idle();
    for ticket in [before, after] {
        fake.expect_ok(ticket);
    }
    assert_eq!(fake.store.objects[&(POOL, object)], b"12");
}

#[test]
fn requests_to_an_unknown_pool_fail_with_the_newest_map() {
    let mut fake = Fake::ready(1, 1);
    let ticket = fake.submit(Request::one(99, ObjectName::from("a"), Op::Stat));
    fake.run_until_idle();
    assert_eq!(fake.expect_error(ticket), Error::NoPool(99));
}

#[test]
fn a_new_pool_is_found_in_the_newest_map() {
    let mut fake = Fake::ready(1, 1);
    fake.publish_quietly(|change| change.new_pools.insert(5, pool(4)));
    let ticket = fake.submit(Request::one(5, ObjectName::from("a"), Op::Create { exclusive: false }));
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

#[test]
fn requests_to_a_deleted_pool_fail() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    fake.want_map();
    fake.publish(|change| change.old_pools.insert(POOL));
    fake.run_until_idle();
    assert_eq!(fake.expect_error(ticket), Error::NoPool(POOL));
}

#[test]
fn requests_to_a_group_without_a_primary_wait_for_one() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    fake.publish(|change| change.new_state.insert(0, 0));
    fake.run_until_idle();
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(SECOND);
    assert!(fake.take_done(ticket).is_none());
    let addrs = fake.map.client_addrs[0].clone();
    fake.publish(|change| change.new_up_client.insert(0, addrs));
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

fn object_of(op: &OsdOp) -> HObject {
    HObject {
        name: op.object.to_vec(),
        snap: onego_ceph::types::NOSNAP,
        hash: op.hash,
        pool: POOL,
        ..HObject::min()
    }
}

#[test]
fn a_backoff_holds_back_requests_until_it_ends() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    fake.osds[0].hold = true;
    let first = fake.submit(append(&object, b"1"));
    fake.run_until_idle();
    let held = fake.osds[0].held.remove(0);
    let this = object_of(&held.op);
    fake.backoff(&held, BackoffOp::Block, 1, this.clone(), this.clone());
    fake.backoff(&held, BackoffOp::Block, 2, HObject::min(), HObject::max());
    fake.run_until_idle();
    assert_eq!(fake.osds[0].acknowledged, [1, 2]);

    let second = fake.submit(append(&object, b"2"));
    let other = fake.objects_on(0).find(|other| fake.group(other) != held.op.pg.pg);
    let other = fake.submit(append(&other.unwrap(), b"3"));
    fake.run_until_idle();
    assert_eq!(fake.osds[0].held.len(), 1, "only requests to other groups are sent");
    fake.release(0);
    fake.run_until_idle();
    fake.expect_ok(other);

    fake.backoff(&held, BackoffOp::Unblock, 2, HObject::min(), HObject::max());
    fake.run_until_idle();
    assert!(fake.done.is_empty(), "the first backoff still holds");
    fake.backoff(&held, BackoffOp::Unblock, 1, this.clone(), this);
    fake.run_until_idle();
    for ticket in [first, second] {
        fake.expect_ok(ticket);
    }
    assert_eq!(fake.store.objects[&(POOL, object)], b"12");
}

#[test]
fn a_redirected_request_is_followed() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    fake.publish(|change| change.new_pools.insert(2, pool(4)));
    fake.run_until_idle();
    fake.osds[0].answers.push(Fake::redirection(2));
    let object = ObjectName::from("a");
    let ticket = fake.submit(write(&object, b"x"));
    fake.run_until_idle();
    fake.expect_ok(ticket);
    assert!(fake.store.objects.contains_key(&(2, object)));
}

#[test]
fn a_request_in_a_redirect_loop_fails() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    fake.publish(|change| change.new_pools.insert(2, pool(4)));
    fake.run_until_idle();
    // Answers are taken from the end: the maximum number of redirects, and one more.
    fake.osds[0].answers = vec![Fake::redirection(2); 8];
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    fake.expect_ok(ticket);
    fake.osds[0].answers = (0..100).map(|n| Fake::redirection(1 + n % 2)).collect();
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    let error = fake.expect_error(ticket);
    assert!(matches!(error, Error::Mismatch(_)), "{error}");
    assert_eq!(fake.osds[0].answers.len(), 91, "it was sent nine times");
    // The next request has all of its tries.
    fake.osds[0].answers = vec![Fake::redirection(2); 8];
    let ticket = fake.submit(write(&ObjectName::from("b"), b"x"));
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

#[test]
fn a_read_that_a_replica_cannot_serve_goes_to_the_primary() {
    let mut fake = Fake::ready(1, 2);
    fake.want_map();
    fake.publish(|change| {
        let copies = onego_ceph::osdmap::Pool { size: 2, ..pool(8) };
        change.new_pools.insert(POOL, copies);
    });
    fake.run_until_idle();
    let object = fake.object_on(0);
    fake.submit(write(&object, b"x"));
    fake.run_until_idle();
    for _ in 0..20 {
        fake.osds[1].answers = vec![OsdOpReply { result: -11, ..OsdOpReply::default() }];
        let ticket = fake.submit(read(&object, 1).with_flags(flag::BALANCE_READS));
        fake.run_until_idle();
        assert_eq!(fake.expect_ok(ticket).ops[0].output.to_vec(), b"x");
    }
    assert!(fake.osds[1].seen.len() > 3, "replicas serve reads too");
}

fn undecided() -> OsdOpReply {
    OsdOpReply { result: -11, ..OsdOpReply::default() }
}

#[test]
fn a_request_is_resubmitted_after_eagain_and_applied_once() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    fake.run_until_idle();
    let object = fake.object_on(0);
    fake.osds[0].answers = vec![undecided(), undecided(), undecided()];
    let ticket = fake.submit(append(&object, b"x"));
    fake.run_until_idle();
    let (first, second) = (fake.osds[0].seen[0].0, fake.osds[0].seen[1].0);
    assert!(first != second, "the OSD remembers its answer to the first");
    assert_eq!(fake.osds[0].seen.len(), 2, "the third does not follow at once");
    assert!(fake.take_done(ticket).is_none());
    fake.advance(Duration::from_secs(1));
    fake.expect_ok(ticket);
    assert_eq!(fake.osds[0].seen.len(), 4);
    assert_eq!(fake.store.objects[&(POOL, object)], b"x");
}

#[test]
fn repeated_resubmissions_are_delayed_and_can_be_cancelled() {
    let mut fake = Fake::ready(1, 1);
    fake.want_map();
    fake.run_until_idle();
    let object = fake.object_on(0);
    fake.osds[0].answers = vec![undecided(); 1000];
    let ticket = fake.ticket();
    let id = fake.client.submit(fake.now, append(&object, b"x"), ticket).expect("there is room");
    for _ in 0..600 {
        fake.advance(Duration::from_millis(100));
    }
    let seen = fake.osds[0].seen.len();
    assert!((30..80).contains(&seen), "{seen} times in a minute");
    fake.client.cancel(id);
    fake.run_until_idle();
    assert!(matches!(fake.expect_error(ticket), Error::Cancelled));
}

#[test]
fn a_mismatching_reply_fails_the_request() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let ticket = fake.submit(read(&ObjectName::from("a"), 1));
    fake.run_until_idle();
    let held = fake.osds[0].held.remove(0);
    fake.send(held.conn, held.tid, &OsdOpReply::default());
    fake.run_until_idle();
    assert!(matches!(fake.expect_error(ticket), Error::Mismatch(_)));
}

#[test]
fn requests_can_address_a_group() {
    let mut fake = Fake::ready(1, 1);
    let mut request =
        Request::one(POOL, ObjectName::default(), Op::PgNls { count: 10, epoch: 0, cursor: List::new() });
    request.group = Some(3);
    fake.osds[0].hold = true;
    fake.submit(request);
    fake.run_until_idle();
    assert_eq!(fake.osds[0].held[0].op.pg.pg, PgId { pool: POOL, seed: 3 });
    assert_eq!(fake.osds[0].held[0].op.hash, 3);
}
