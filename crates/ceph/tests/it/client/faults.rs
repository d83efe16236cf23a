//! Object requests during connection failures and silence of OSDs.

use crate::client::fake::{Fake, Health, Node, POOL, SECOND, append, read, write};
use onego_buf::SegmentMut;
use onego_ceph::client::{Error, Event, Outcome, Request};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::Op;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn a_broken_connection_loses_nothing_and_applies_nothing_twice() {
    let mut fake = Fake::ready(1, 1);
    let object = ObjectName::from("a");
    let before = fake.submit(append(&object, b"1"));
    // The request arrives, but its reply does not.
    fake.break_after(Node::Osd(0), 450);
    fake.run_until_idle();
    let after = fake.submit(append(&object, b"2"));
    fake.run_until_idle();
    fake.expect_ok(before);
    fake.expect_ok(after);
    assert_eq!(fake.store.objects[&(POOL, object)], b"12");
    assert_eq!(fake.osds[0].seen.iter().map(|seen| seen.1).collect::<Vec<_>>(), [0, 1, 0]);
    assert!(fake.events.iter().any(|event| matches!(event, Event::Fault { .. })));
}

#[test]
fn requests_are_resent_in_the_order_of_submission() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let objects: Vec<ObjectName> = fake.objects_on(0).take(3).collect();
    let tickets: Vec<u32> = (0..30).map(|n| fake.submit(append(&objects[n % 3], &[n as u8]))).collect();
    fake.run_until_idle();
    fake.osds[0].held.clear();
    fake.break_connections(Node::Osd(0));
    fake.run_until_idle();
    let tids: Vec<u64> = fake.osds[0].held.iter().map(|held| held.tid).collect();
    assert!(tids.len() == 30 && tids.is_sorted());
    fake.release(0);
    fake.run_until_idle();
    tickets.into_iter().for_each(|ticket| drop(fake.expect_ok(ticket)));
    for (n, object) in objects.into_iter().enumerate() {
        let expected: Vec<u8> = (0..30).filter(|i| i % 3 == n as u8).collect();
        assert_eq!(fake.store.objects[&(POOL, object)], expected);
    }
}

#[test]
fn the_callers_buffer_survives_a_cut_at_any_byte() {
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n / 7) as u8).collect();
    let object = ObjectName::from("a");
    for cut in [1, 100, 300, 400, 500, 600, 700, 5_000, 50_000, 100_300, 100_400, 100_500] {
        let mut fake = Fake::ready(1, 1);
        fake.store.objects.insert((POOL, object.clone()), bytes.clone());
        let buffer = SegmentMut::zeroed(120_000);
        let at = buffer.as_ptr();
        fake.break_after(Node::Osd(0), cut);
        let ticket = fake.submit(read(&object, 110_000).read_into(buffer));
        fake.advance(SECOND);
        let done = fake.take_done(ticket).unwrap();
        let buffer = done.buffer.as_ref().unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr()), (120_000, at), "cut after {cut}");
        assert!(buffer[..bytes.len()] == bytes[..], "cut after {cut}");
        assert_eq!(done.into_reply().unwrap().filled, bytes.len());
        assert_eq!(fake.opened[&Node::Osd(0)], 2, "cut after {cut}");
    }
}

#[test]
fn a_dead_osd_is_retried_with_growing_delays() {
    let mut fake = Fake::ready(1, 1);
    fake.set_health(Node::Osd(0), Health::Dead);
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(60 * SECOND);
    let tries = fake.opened[&Node::Osd(0)];
    assert!((10..20).contains(&tries), "{tries} connections in a minute");
    assert!(fake.mons[0].subscriptions.iter().any(|(start, _)| *start == 2), "a newer map is requested");
    fake.set_health(Node::Osd(0), Health::Up);
    fake.advance(16 * SECOND);
    fake.expect_ok(ticket);
}

#[test]
fn a_silent_osd_is_reconnected() {
    let mut fake = Fake::ready(1, 1);
    fake.set_health(Node::Osd(0), Health::Silent);
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(5 * SECOND);
    fake.set_health(Node::Osd(0), Health::Up);
    fake.advance(10 * SECOND);
    fake.expect_ok(ticket);
}

#[test]
fn a_request_fails_after_its_timeout() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let mut request = write(&ObjectName::from("a"), b"x");
    request.timeout = Some(2 * SECOND);
    let ticket = fake.submit(request);
    let patient = fake.submit(write(&ObjectName::from("a"), b"y"));
    fake.advance(SECOND);
    assert!(fake.done.is_empty());
    fake.advance(SECOND);
    let error = fake.expect_error(ticket);
    assert!(matches!(error, Error::Timeout { after, .. } if after == 2 * SECOND), "{error:?}");
    assert!(error.to_string().contains("a reply of osd.0 at 10.0.1.1:6800"), "{error}");
    // The late reply is dropped.
    fake.release(0);
    fake.run_until_idle();
    fake.expect_ok(patient);
    assert!(fake.done.is_empty());
    assert_eq!(fake.client.load(), (0, 0));
}

#[test]
fn requests_without_an_osd_time_out_too() {
    let mut fake = Fake::with(1, 1, |config| config.osd.request_timeout = Some(3 * SECOND));
    fake.set_health(Node::Mon(0), Health::Dead);
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(3 * SECOND);
    let error = fake.expect_error(ticket);
    assert!(matches!(error, Error::Timeout { after, .. } if after == 3 * SECOND), "{error:?}");
}

#[test]
fn a_cancelled_request_ends_once_and_its_reply_is_dropped() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let request = read(&ObjectName::from("a"), 8192).read_into(SegmentMut::zeroed(8192));
    let id = fake.client.submit(fake.now, request, 1).unwrap();
    fake.run_until_idle();
    fake.client.cancel(id);
    let done = fake.take_done(1).unwrap();
    assert_eq!((done.outcome, done.buffer.map(|buffer| buffer.len())), (Err(Error::Cancelled), Some(8192)));
    fake.client.cancel(id);
    fake.release(0);
    fake.run_until_idle();
    assert!(fake.done.is_empty());
}

/// Starts a read whose payload stalls after its first bytes have reached the buffer.
fn half_landed(fake: &mut Fake, timeout: Option<Duration>) -> onego_ceph::client::OpId {
    let object = ObjectName::from("a");
    fake.store.objects.insert((POOL, object.clone()), vec![7; 100_000]);
    fake.submit(read(&object, 1));
    fake.run_until_idle();
    fake.stall_after(Node::Osd(0), 50_000);
    let mut request = read(&object, 100_000).read_into(SegmentMut::zeroed(100_000));
    request.timeout = timeout;
    let id = fake.client.submit(fake.now, request, 77).unwrap();
    fake.run_until_idle();
    id
}

#[test]
fn a_cancelled_request_returns_its_buffer_after_the_payload() {
    let mut fake = Fake::ready(1, 1);
    let id = half_landed(&mut fake, None);
    fake.client.cancel(id);
    assert!(fake.take_done(77).is_none(), "the buffer is not free yet");
    fake.unstall();
    fake.run_until_idle();
    let done = fake.take_done(77).unwrap();
    assert_eq!(done.outcome, Err(Error::Cancelled));
    assert_eq!(done.buffer.unwrap().len(), 100_000);
    assert_eq!(fake.opened[&Node::Osd(0)], 1);
}

#[test]
fn a_request_with_a_stalled_payload_returns_its_buffer_at_the_timeout() {
    let mut fake = Fake::ready(1, 1);
    half_landed(&mut fake, Some(2 * SECOND));
    let other = fake.submit(read(&ObjectName::from("a"), 1));
    fake.advance(2 * SECOND);
    let done = fake.take_done(77).unwrap();
    assert!(matches!(done.outcome, Err(Error::Timeout { after, .. }) if after == 2 * SECOND));
    assert_eq!(done.buffer.unwrap().len(), 100_000);
    // The connection had to be closed; the other requests continue on the next one.
    fake.run_until_idle();
    fake.expect_ok(other);
}

#[test]
fn a_request_that_moves_during_its_payload_is_resent_after_it() {
    let mut fake = Fake::ready(1, 2);
    let object = fake.object_on(0);
    fake.store.objects.insert((POOL, object.clone()), vec![7; 100_000]);
    fake.submit(read(&object, 1));
    fake.run_until_idle();
    fake.stall_after(Node::Osd(0), 50_000);
    let ticket = fake.submit(read(&object, 100_000).read_into(SegmentMut::zeroed(100_000)));
    fake.want_map();
    let group = fake.group(&object);
    fake.publish(|change| change.new_pg_temp.insert(group, vec![1]));
    fake.run_until_idle();
    assert!(fake.osds[1].seen.is_empty());
    fake.unstall();
    fake.run_until_idle();
    assert_eq!(fake.osds[1].seen.len(), 1);
    let done = fake.take_done(ticket).unwrap();
    assert!(done.buffer.as_ref().unwrap().iter().all(|byte| *byte == 7));
    assert_eq!(done.into_reply().unwrap().filled, 100_000);
}

#[test]
fn idle_connections_are_closed() {
    let mut fake = Fake::ready(1, 1);
    fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(50 * SECOND);
    assert_eq!(fake.connections(Node::Osd(0)).len(), 1);
    fake.advance(20 * SECOND);
    assert_eq!(fake.connections(Node::Osd(0)).len(), 0);
    let ticket = fake.submit(read(&ObjectName::from("a"), 1));
    fake.run_until_idle();
    fake.expect_ok(ticket);
}

#[test]
fn an_osd_is_reached_at_its_new_address() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    fake.want_map();
    let addrs = onego_msgr::addr::AddrVec(vec![crate::client::fake::osd_addr(0, 2)]);
    fake.osds[0].hold = false;
    fake.publish(|change| change.new_up_client.insert(0, addrs));
    fake.run_until_idle();
    fake.expect_ok(ticket);
    assert_eq!(fake.opened[&Node::Osd(0)], 2);
}

#[test]
fn a_closed_client_fails_all_requests() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    fake.mons[0].mute = true;
    fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.submit(read(&ObjectName::from("a"), 5000).read_into(SegmentMut::zeroed(5000)));
    let ticket = fake.ticket();
    fake.client.statfs(fake.now, None, ticket);
    fake.run_until_idle();
    fake.client.close(fake.now);
    fake.run_until_idle();
    assert_eq!(fake.done.len(), 3);
    assert!(fake.done.iter().all(|done| done.outcome == Err(Error::Closed)));
    let rejected = fake.client.submit(fake.now, write(&ObjectName::from("a"), b"x"), 0).unwrap_err();
    assert_eq!(rejected.error, Error::Closed);
    fake.advance(100 * SECOND);
    assert!(fake.connections(Node::Osd(0)).is_empty() && fake.connections(Node::Mon(0)).is_empty());
}

/// Random appends and reads of a few objects while connections break, OSDs fall silent and groups move: each append is
/// applied once and in order, and each read is consistent.
#[test]
fn appends_are_applied_once_and_in_order_despite_faults() {
    for seed in 0..150 {
        run_randomly(seed);
    }
}

fn run_randomly(seed: u64) {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let mut fake = Fake::ready(2, 3);
    let objects: Vec<ObjectName> = (0..6).map(|n| ObjectName::from(format!("o{n}").as_str())).collect();
    let mut appended: BTreeMap<ObjectName, Vec<u8>> = BTreeMap::new();
    let mut submitted = 0;
    for step in 0..300u32 {
        let object = objects.choose(rng).unwrap();
        match rng.random_range(0..24) {
            0..10 => {
                let bytes = step.to_le_bytes();
                appended.entry(object.clone()).or_default().extend(bytes);
                fake.submit(append(object, &bytes));
                submitted += 1;
            }
            10..14 => {
                let request = read(object, 4096);
                fake.submit(if rng.random() { request.read_into(SegmentMut::zeroed(4096)) } else { request });
                submitted += 1;
            }
            14 | 15 => fake.break_connections(Node::Osd(rng.random_range(0..3))),
            16 => fake.break_after(Node::Osd(rng.random_range(0..3)), rng.random_range(0..3000)),
            17 => fake.osds[rng.random_range(0..3)].hold = true,
            18 | 19 => fake.release(rng.random_range(0..3)),
            20 => fake.break_connections(Node::Mon(rng.random_range(0..2))),
            21 => {
                let (group, osd) = (fake.group(object), rng.random_range(0..3));
                fake.publish(|change| change.new_pg_temp.insert(group, vec![osd]));
                fake.drop_misdirected();
            }
            _ => fake.advance(Duration::from_millis(rng.random_range(0..700))),
        }
        if rng.random() {
            fake.run_until_idle();
        }
    }
    for osd in 0..3 {
        fake.release(osd);
    }
    fake.advance(120 * SECOND);
    assert_eq!(fake.done.len(), submitted, "seed {seed}");
    for done in fake.done.drain(..) {
        let missing = matches!(&done.outcome, Ok(Outcome::Reply(reply)) if reply.result == -2);
        let (ticket, buffer) = (done.ticket, done.buffer.as_ref().map(|buffer| buffer.len()));
        assert!(missing || done.into_reply().is_ok(), "seed {seed}: request {ticket}");
        assert!(matches!(buffer, None | Some(4096)), "seed {seed}");
    }
    for (object, bytes) in appended {
        assert!(fake.store.objects[&(POOL, object.clone())] == bytes, "seed {seed}: {object}");
    }
}

#[test]
fn an_undecodable_reply_fails_only_its_request() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let stat = Request::one(POOL, ObjectName::from("a"), Op::Stat);
    let (bad, good) = (fake.submit(stat), fake.submit(write(&ObjectName::from("a"), b"x")));
    fake.run_until_idle();
    let held = fake.osds[0].held.remove(0);
    let garbage = onego_msgr::Message::new(43, 8, 2, vec![1, 2, 3]).with_tid(held.tid);
    fake.server(held.conn).unwrap().send(garbage);
    fake.release(0);
    fake.run_until_idle();
    assert!(matches!(fake.expect_error(bad), Error::BadReply(_)));
    fake.expect_ok(good);
}

#[test]
fn a_request_that_ends_its_connections_fails_without_affecting_others() {
    let mut fake = Fake::ready(1, 1);
    let poison = ObjectName::from("poison");
    fake.osds[0].poison = Some(poison.clone());
    let mut healthy: Vec<u32> =
        (0..20).map(|n| fake.submit(append(&format!("{n}").as_str().into(), b"x"))).collect();
    let poisoned = fake.submit(write(&poison, b"x"));
    healthy.extend((0..20).map(|n| fake.submit(append(&format!("{n}").as_str().into(), b"y"))));
    fake.advance(20 * SECOND);
    let error = fake.expect_error(poisoned);
    assert!(matches!(error, Error::Rejected { osd: 0, .. }), "{error:?}");
    assert!(error.to_string().contains("osd.0 has ended 8 connections"), "{error}");
    healthy.into_iter().for_each(|ticket| drop(fake.expect_ok(ticket)));
    for n in 0..20 {
        assert_eq!(fake.store.objects[&(POOL, format!("{n}").as_str().into())], b"xy");
    }
    let opened = fake.opened[&Node::Osd(0)];
    assert!((9..24).contains(&opened), "{opened} connections");
    let later = fake.submit(append(&ObjectName::from("0"), b"z"));
    fake.run_until_idle();
    fake.expect_ok(later);
}

#[test]
fn a_cancelled_request_ends_no_more_connections() {
    let mut fake = Fake::ready(1, 1);
    let poison = ObjectName::from("poison");
    fake.osds[0].poison = Some(poison.clone());
    let id = fake.client.submit(fake.now, write(&poison, b"x"), 77).unwrap();
    fake.run_until_idle();
    fake.client.cancel(id);
    let healthy = fake.submit(append(&ObjectName::from("0"), b"z"));
    fake.advance(SECOND);
    fake.expect_ok(healthy);
    assert_eq!(fake.expect_error(77), Error::Cancelled);
}

#[test]
fn requests_beyond_the_limits_of_osds_are_rejected() {
    let mut fake = Fake::ready(1, 1);
    let piece = onego_buf::Segment::copy_from(&vec![7; 1 << 20]);
    let data = |mib: usize| {
        let mut list = onego_buf::List::new();
        (0..mib).for_each(|_| list.push(piece.clone()));
        list
    };
    let object = ObjectName::from("a");
    let mut too_large = |op| {
        let rejected = fake.client.submit(fake.now, Request::one(POOL, object.clone(), op), 1).unwrap_err();
        assert!(matches!(rejected.error, Error::TooLarge { .. }), "{:?}", rejected.error);
        assert_eq!(rejected.error.errno(), -90);
        rejected.error.to_string()
    };
    for op in [
        Op::WriteFull { data: data(91) },
        Op::Write { offset: 0, data: data(91) },
        Op::Append { data: data(91) },
        Op::WriteSame { offset: 0, length: 91 << 20, data: data(91) },
    ] {
        assert!(too_large(op).contains("the most is 94371840"));
    }
    assert!(too_large(Op::Read { offset: 0, length: 1 << 31 }).contains("a read of 2147483648 bytes"));
    let largest = fake.submit(Request::one(POOL, object.clone(), Op::WriteFull { data: data(90) }));
    fake.run_until_idle();
    fake.expect_ok(largest);
    let large = fake.client.submit(fake.now, read(&object, 120 << 20), 99).unwrap();
    fake.client.cancel(large);
}
