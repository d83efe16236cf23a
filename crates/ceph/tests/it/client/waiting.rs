//! Reported waits of a client, with their causes.

use crate::client::fake::{Fake, Health, Node, POOL, SECOND, osd_addr, pool, write};
use onego_ceph::client::{Awaited, Error, Waiting};
use onego_ceph::messages::{BackoffOp, ObjectName};
use onego_ceph::osdmap::{Pool as OsdPool, flag as map_flag, pool_flag, state};
use onego_ceph::types::HObject;
use std::io;

const REFUSED: Error = Error::Io(io::ErrorKind::ConnectionRefused);

fn waiting(fake: &Fake) -> Waiting {
    fake.client.waiting(fake.now).expect("the client waits for something")
}

#[test]
fn a_wait_for_monitors_reports_addresses_and_cause() {
    let mut fake = Fake::new(1, 1);
    fake.set_health(Node::Mon(0), Health::Dead);
    fake.advance(3 * SECOND);
    let waiting = waiting(&fake);
    assert!(matches!(&waiting.target, Awaited::Monitor(addrs) if addrs.len() == 1), "{waiting:?}");
    assert_eq!(waiting.cause.as_deref(), Some(&REFUSED));
    assert_eq!(waiting.elapsed, 3 * SECOND);
    fake.set_health(Node::Mon(0), Health::Up);
    fake.advance(30 * SECOND);
    assert_eq!(fake.client.waiting(fake.now), None);
}

#[test]
fn a_silent_monitor_is_a_cause_too() {
    let mut fake = Fake::new(1, 1);
    fake.set_health(Node::Mon(0), Health::Silent);
    fake.advance(4 * SECOND);
    let waiting = waiting(&fake);
    assert!(matches!(waiting.cause.as_deref(), Some(Error::Timeout { .. })), "{waiting:?}");
}

#[test]
fn a_wait_for_an_unreachable_osd_reports_it() {
    let mut fake = Fake::ready(1, 1);
    fake.set_health(Node::Osd(0), Health::Dead);
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.advance(3 * SECOND);
    let expected = Awaited::Osd { osd: 0, addr: Some(osd_addr(0, 1)) };
    let Waiting { target, elapsed, cause, .. } = waiting(&fake);
    assert_eq!((target, elapsed, cause.as_deref()), (expected, 3 * SECOND, Some(&REFUSED)));
    fake.set_health(Node::Osd(0), Health::Up);
    fake.advance(16 * SECOND);
    fake.expect_ok(ticket);
    assert_eq!(fake.client.waiting(fake.now), None);
}

#[test]
fn a_wait_for_a_reply_differs_from_one_for_a_backoff() {
    let mut fake = Fake::ready(1, 1);
    fake.osds[0].hold = true;
    let object = ObjectName::from("a");
    let first = fake.client.submit(fake.now, write(&object, b"x"), 99).unwrap();
    fake.advance(3 * SECOND);
    let replying = Awaited::Reply { osd: 0, addr: Some(osd_addr(0, 1)) };
    assert_eq!((waiting(&fake).target, waiting(&fake).cause), (replying, None));
    let held = fake.osds[0].held.remove(0);
    fake.backoff(&held, BackoffOp::Block, 7, HObject::min(), HObject::max());
    fake.run_until_idle();
    let second = fake.submit(write(&object, b"y"));
    fake.client.cancel(first);
    fake.run_until_idle();
    let target = waiting(&fake).target;
    assert!(matches!(target, Awaited::Backoff { osd: 0, .. }), "{target:?}");
    fake.backoff(&held, BackoffOp::Unblock, 7, HObject::min(), HObject::max());
    fake.release(0);
    fake.run_until_idle();
    fake.expect_ok(second);
}

#[test]
fn full_pools_pauses_and_down_osds_are_distinguished() {
    let mut fake = Fake::ready(1, 1);
    fake.publish(|change| change.new_pools.insert(POOL, OsdPool { flags: pool_flag::FULL, ..pool(8) }));
    fake.want_map();
    let ticket = fake.submit(write(&ObjectName::from("a"), b"x"));
    fake.run_until_idle();
    assert_eq!(waiting(&fake).target, Awaited::Room { pool: "rbd".into(), quota: false });
    let flags = fake.map.flags;
    fake.publish(|change| {
        change.new_flags = Some(flags | map_flag::PAUSEWR);
        change.new_pools.insert(POOL, pool(8))
    });
    fake.run_until_idle();
    assert_eq!(waiting(&fake).target, Awaited::Unpause);
    fake.publish(|change| {
        change.new_flags = Some(flags);
        change.new_state.insert(0, state::UP)
    });
    fake.run_until_idle();
    assert!(matches!(waiting(&fake).target, Awaited::Primary(_)), "{:?}", waiting(&fake));
    fake.set_health(Node::Mon(0), Health::Dead);
    fake.advance(SECOND);
    assert!(matches!(waiting(&fake).target, Awaited::Monitor(_)), "only a monitor sends another map");
    assert!(fake.take_done(ticket).is_none());
}
