//! The exclusive lock.

use super::script::{Harness, US, WATCH, Wanted, facts};
use crate::error::Error;
use crate::notify::{ClientId, Notification, Operation, Response};
use onego_ceph::client::{self, Notified, WatchId};
use onego_ceph::cls::lock::{
    BreakLock, GetInfo, Lock, LockInfo, LockerId, LockerInfo, SetCookie, Unlock, kind,
};
use onego_ceph::messages::CommandReply;
use onego_ceph::outputs::{Watcher, Watchers};
use onego_ceph::rbd::Features;
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::{Decode as _, Encode as _};
use std::collections::BTreeMap;

const HEADER: &str = "rbd_header.abc";
const THEM: u64 = 4200;
const THEIR_WATCH: u64 = 99;

fn locked() -> Features {
    Features::LAYERING.with(Features::EXCLUSIVE_LOCK)
}

fn their_addr() -> EntityAddr {
    EntityAddr::msgr2("10.0.0.9:0".parse().unwrap(), 1234)
}

fn their_lock(cookie: &str, tag: &str) -> Vec<u8> {
    lock_of(THEM, cookie, tag)
}

fn lock_of(client: u64, cookie: &str, tag: &str) -> Vec<u8> {
    let id = LockerId { locker: EntityName::client(client), cookie: cookie.to_owned() };
    let holder = LockerInfo { expiration: Utime::default(), addr: their_addr(), description: String::new() };
    let lockers = BTreeMap::from([(id, holder)]);
    LockInfo { lockers, kind: kind::EXCLUSIVE, tag: tag.to_owned() }.to_bytes()
}

fn is_busy(harness: &mut Harness, is_alive: bool) {
    harness.call::<Lock>(HEADER, -16, Vec::new());
    let watcher =
        Watcher { name: EntityName::client(THEM), cookie: THEIR_WATCH, timeout: 30, addr: their_addr() };
    let watchers = Watchers(if is_alive { vec![watcher] } else { Vec::new() }).to_bytes();
    let (_, ticket) = harness.request(HEADER);
    harness.reply(ticket, 0, vec![their_lock(&format!("auto {THEIR_WATCH}"), "internal"), watchers]);
}

fn them() -> ClientId {
    ClientId { gid: THEM, handle: THEIR_WATCH }
}

fn ask(harness: &mut Harness) -> Response {
    harness.told(&Notification::RequestLock { client: them(), force: false }, 5);
    Response::from_bytes(&harness.script.acknowledged.remove(0).1.to_vec()).expect("the owner answers")
}

fn us() -> ClientId {
    ClientId { gid: US, handle: WATCH }
}

#[test]
fn the_first_write_acquires_the_lock_and_later_ones_go_out_at_once() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    let taken = harness.call::<Lock>(HEADER, 0, Vec::new());
    assert_eq!(
        (taken.name.as_str(), taken.cookie.as_str(), taken.tag.as_str()),
        ("rbd_lock", "auto 7", "internal")
    );
    assert!(!harness.image.view().is_lock_owner());
    harness.refresh();
    assert_eq!(harness.notify().0, Notification::AcquiredLock { client: us() });
    assert!(harness.image.view().is_lock_owner());
    harness.data(0, 0);
    harness.is_done(1);
    harness.write(1, 2);
    harness.data(1, 0);
    harness.is_done(2);
    assert!(harness.is_quiet());
}

#[test]
fn reads_need_no_lock() {
    let mut harness = Harness::open(facts(locked()));
    harness.submit(crate::request::Io::Read { offset: 0, length: 10 }, 1);
    harness.data(0, -2);
    harness.is_done(1);
}

#[test]
fn a_live_owner_is_asked_to_release_the_lock() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    is_busy(&mut harness, true);
    let (asked, ticket) = harness.notify();
    assert_eq!(asked, Notification::RequestLock { client: us(), force: false });
    let answer = (THEM, THEIR_WATCH, Response { result: 0 }.to_bytes());
    let notified = Notified { answers: vec![answer], missed: Vec::new() };
    harness.complete(ticket, Ok(client::Outcome::Notified(notified)));
    assert!(harness.is_quiet() && harness.script.wake_at.is_some());
    harness.told(&Notification::ReleasedLock { client: them() }, 5);
    harness.take_lock();
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
}

#[test]
fn a_silent_owner_is_asked_again() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    is_busy(&mut harness, true);
    let (_, ticket) = harness.notify();
    harness.complete(ticket, Ok(client::Outcome::Notified(Notified::default())));
    harness.now = harness.script.wake_at.expect("a time to try again");
    harness.image.due(harness.now, &mut harness.script);
    is_busy(&mut harness, true);
    assert!(matches!(harness.notify().0, Notification::RequestLock { .. }));
}

#[test]
fn an_owner_that_keeps_the_lock_fails_waiting_writes() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    is_busy(&mut harness, true);
    let (_, ticket) = harness.notify();
    let answer = (THEM, THEIR_WATCH, Response { result: -30 }.to_bytes());
    let notified = Notified { answers: vec![answer], missed: Vec::new() };
    harness.complete(ticket, Ok(client::Outcome::Notified(notified)));
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(Error::LockRefused { .. }))]));
    assert!(harness.is_quiet());
}

#[test]
fn a_dead_owner_is_blocklisted_before_its_lock_is_broken() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    is_busy(&mut harness, false);
    let Some(Wanted::Command(json, ticket)) = harness.script.asked.pop_front() else { panic!("no command") };
    assert!(json.contains("osd blocklist") && json.contains("10.0.0.9:0/1234"), "{json}");
    harness.complete(ticket, Ok(client::Outcome::Command(CommandReply::default())));
    let Some(Wanted::NewestMap(ticket)) = harness.script.asked.pop_front() else {
        panic!("no query of the newest map")
    };
    harness.complete(ticket, Ok(client::Outcome::Version(50)));
    let Some(Wanted::Map(50, ticket)) = harness.script.asked.pop_front() else {
        panic!("the map is not awaited")
    };
    assert!(harness.is_quiet());
    harness.script.epoch = 50;
    harness.complete(ticket, Ok(client::Outcome::Version(50)));
    let broken = harness.call::<BreakLock>(HEADER, 0, Vec::new());
    assert_eq!((broken.locker, broken.cookie.as_str()), (EntityName::client(THEM), "auto 99"));
    harness.take_lock();
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
}

#[test]
fn another_handle_of_this_client_has_time_to_renew_its_watch() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    let mut found = 0;
    loop {
        harness.call::<Lock>(HEADER, -16, Vec::new());
        let (_, ticket) = harness.request(HEADER);
        let watchers = Watchers::default().to_bytes();
        harness.reply(ticket, 0, vec![lock_of(US, &format!("auto {THEIR_WATCH}"), "internal"), watchers]);
        found += 1;
        if !harness.is_quiet() {
            break;
        }
        harness.now = harness.script.wake_at.expect("a time to try again");
        harness.image.due(harness.now, &mut harness.script);
    }
    // At 2 seconds each, longer than the 30 after which a watch expires.
    assert_eq!(found, 16);
    let broken = harness.call::<BreakLock>(HEADER, 0, Vec::new());
    assert_eq!((broken.locker, broken.cookie.as_str()), (EntityName::client(US), "auto 99"));
    harness.take_lock();
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
}

#[test]
fn a_manual_lock_is_not_broken() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    harness.call::<Lock>(HEADER, -16, Vec::new());
    let (request, ticket) = harness.request(HEADER);
    assert!(super::script::method_of::<GetInfo>(&request).is_some());
    harness.reply(ticket, 0, vec![their_lock("mine", ""), Watchers::default().to_bytes()]);
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(Error::LockedByHand { .. }))]));
    assert!(harness.is_quiet());
}

/// Returns an image whose lock is held, with nothing in flight.
fn owner() -> Harness {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    harness.take_lock();
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
    harness
}

#[test]
fn the_lock_is_released_once_nothing_is_in_flight() {
    let mut harness = owner();
    harness.write(1, 2);
    harness.told(&Notification::RequestLock { client: them(), force: false }, 5);
    let (id, answer) = harness.script.acknowledged.remove(0);
    assert_eq!((id, Response::from_bytes(&answer.to_vec())), (5, Ok(Response { result: 0 })));
    harness.write(2, 3);
    harness.data(1, 0);
    harness.is_done(2);
    let unlocked = harness.call::<Unlock>(HEADER, 0, Vec::new());
    assert_eq!(unlocked.cookie, "auto 7");
    assert_eq!(harness.notify().0, Notification::ReleasedLock { client: us() });
    assert!(harness.is_quiet(), "the other client comes first");
    harness.told(&Notification::AcquiredLock { client: them() }, 6);
    assert!(matches!(harness.notify().0, Notification::RequestLock { .. }));
    harness.told(&Notification::ReleasedLock { client: them() }, 7);
    harness.take_lock();
    harness.notify();
    harness.data(2, 0);
    harness.is_done(3);
}

#[test]
fn waiting_writes_go_out_before_a_requested_release() {
    let mut harness = Harness::open(facts(locked()));
    harness.write(0, 1);
    harness.call::<Lock>(HEADER, 0, Vec::new());
    harness.told(&Notification::RequestLock { client: them(), force: false }, 5);
    harness.refresh();
    harness.notify();
    harness.write(1, 2);
    harness.data(0, 0);
    harness.is_done(1);
    harness.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn no_op_changes_end_with_the_image() {
    let mut harness = Harness::open(facts(locked()));
    for token in 1..100 {
        harness.submit(crate::request::Io::Zero { offset: 0, length: 0 }, token);
    }
    harness.image.close(harness.now, &mut harness.script, Some(100));
    harness.take_lock();
    harness.notify();
    assert_eq!(harness.script.finished.len(), 99);
    harness.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn an_explicit_lock_is_refused_to_others_until_it_is_released() {
    let mut harness = owner();
    harness.image.lock(harness.now, &mut harness.script, 2);
    assert_eq!(ask(&mut harness), Response { result: -30 });
    harness.image.unlock(harness.now, &mut harness.script, 3);
    harness.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(!harness.image.view().is_lock_owner());
}

#[test]
fn a_lock_that_is_held_for_an_operation_is_released_at_its_end() {
    let mut harness = owner();
    harness.image.hold_lock(harness.now, &mut harness.script, 2);
    harness.is_done(2);
    assert_eq!(ask(&mut harness), Response { result: 0 });
    assert!(harness.is_quiet() && harness.image.view().is_lock_owner());
    harness.image.release_hold(harness.now, &mut harness.script);
    harness.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(!harness.image.view().is_lock_owner());
}

#[test]
fn the_end_of_an_operation_leaves_a_kept_lock() {
    let mut harness = owner();
    harness.image.lock(harness.now, &mut harness.script, 2);
    harness.image.hold_lock(harness.now, &mut harness.script, 3);
    harness.image.release_hold(harness.now, &mut harness.script);
    assert_eq!(ask(&mut harness), Response { result: -30 });
    assert!(harness.image.view().is_lock_owner());
}

#[test]
fn acquiring_a_held_lock_succeeds_at_once() {
    let mut harness = owner();
    harness.image.lock(harness.now, &mut harness.script, 2);
    harness.is_done(2);
}

#[test]
fn only_an_owner_that_does_not_serve_others_refuses_an_operation() {
    let operation = Notification::Operation(Operation::Flatten { id: Default::default() });
    let mut harness = owner();
    harness.told(&operation, 5);
    let answer = Response::from_bytes(&harness.script.acknowledged.remove(0).1.to_vec());
    assert_eq!(answer, Ok(Response { result: -95 }));
    let mut harness = Harness::open(facts(locked()));
    harness.told(&operation, 5);
    assert!(harness.script.acknowledged.remove(0).1.is_empty());
}

#[test]
fn a_new_watch_updates_the_locks_cookie() {
    let mut harness = owner();
    let lost = client::Error::WatchLost { errno: -107 };
    harness.image.watch_lost(harness.now, &mut harness.script, WatchId::from_cookie(WATCH), &lost);
    assert!(matches!(harness.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
    harness.watch(8);
    harness.refresh();
    let renamed = harness.call::<SetCookie>(HEADER, 0, Vec::new());
    assert_eq!((renamed.cookie.as_str(), renamed.new_cookie.as_str()), ("auto 7", "auto 8"));
    assert!(harness.image.view().is_lock_owner());
    harness.write(1, 2);
    harness.data(1, 0);
    harness.is_done(2);
}

#[test]
fn a_broken_lock_is_acquired_again() {
    let mut harness = owner();
    let lost = client::Error::WatchLost { errno: -107 };
    harness.image.watch_lost(harness.now, &mut harness.script, WatchId::from_cookie(WATCH), &lost);
    harness.script.asked.clear();
    harness.script.asked.push_back(Wanted::Watch(crate::host::Ticket(crate::host::Purpose::Watch)));
    harness.watch(8);
    harness.refresh();
    harness.call::<SetCookie>(HEADER, -16, Vec::new());
    assert!(!harness.image.view().is_lock_owner());
    harness.write(1, 2);
    assert_eq!(harness.call::<Lock>(HEADER, 0, Vec::new()).cookie, "auto 8");
}

#[test]
fn the_lock_is_released_before_the_image_is_closed() {
    let mut harness = owner();
    harness.image.close(harness.now, &mut harness.script, Some(2));
    harness.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(matches!(harness.notify().0, Notification::ReleasedLock { .. }));
    assert!(matches!(harness.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
}

#[test]
fn a_watching_owner_that_never_answers_fails_waiting_writes_after_a_minute() {
    let mut harness = Harness::open(facts(Features::EXCLUSIVE_LOCK));
    harness.write(0, 1);
    let begun = harness.now;
    for _ in 0..9 {
        is_busy(&mut harness, true);
        assert!(harness.script.finished.is_empty(), "it may yet answer");
        let wait = harness.image.lock_wait().expect("it waits");
        assert_eq!((wait.owner.num, wait.since), (THEM as i64, begun));
        let (_, ticket) = harness.notify();
        let notified = Notified { answers: Vec::new(), missed: vec![(THEM, THEIR_WATCH)] };
        harness.complete(ticket, Ok(client::Outcome::Notified(notified)));
        harness.now = harness.image.deadline().unwrap_or(harness.now);
        harness.image.due(harness.now, &mut harness.script);
    }
    let [(1, Err(error @ Error::LockUnanswered { .. }))] = harness.script.finished.as_slice() else {
        panic!("{:?}", harness.script.finished);
    };
    assert!(error.to_string().contains(&format!("client.{THEM}")), "{error}");
    assert_eq!(harness.image.lock_wait(), None);
}
