//! The exclusive lock.

use super::script::{Bed, US, WATCH, Wanted, facts};
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

fn is_busy(bed: &mut Bed, is_alive: bool) {
    bed.call::<Lock>(HEADER, -16, Vec::new());
    let watcher =
        Watcher { name: EntityName::client(THEM), cookie: THEIR_WATCH, timeout: 30, addr: their_addr() };
    let watchers = Watchers(if is_alive { vec![watcher] } else { Vec::new() }).to_bytes();
    let (_, ticket) = bed.request(HEADER);
    bed.reply(ticket, 0, vec![their_lock(&format!("auto {THEIR_WATCH}"), "internal"), watchers]);
}

fn them() -> ClientId {
    ClientId { gid: THEM, handle: THEIR_WATCH }
}

fn ask(bed: &mut Bed) -> Response {
    bed.told(&Notification::RequestLock { client: them(), force: false }, 5);
    Response::from_bytes(&bed.script.acknowledged.remove(0).1.to_vec()).expect("the owner answers")
}

fn us() -> ClientId {
    ClientId { gid: US, handle: WATCH }
}

#[test]
fn the_first_write_acquires_the_lock_and_later_ones_go_out_at_once() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    let taken = bed.call::<Lock>(HEADER, 0, Vec::new());
    assert_eq!(
        (taken.name.as_str(), taken.cookie.as_str(), taken.tag.as_str()),
        ("rbd_lock", "auto 7", "internal")
    );
    assert!(!bed.image.view().is_lock_owner());
    bed.refresh();
    assert_eq!(bed.notify().0, Notification::AcquiredLock { client: us() });
    assert!(bed.image.view().is_lock_owner());
    bed.data(0, 0);
    bed.is_done(1);
    bed.write(1, 2);
    bed.data(1, 0);
    bed.is_done(2);
    assert!(bed.is_quiet());
}

#[test]
fn reads_need_no_lock() {
    let mut bed = Bed::open(facts(locked()));
    bed.submit(crate::request::Io::Read { offset: 0, length: 10 }, 1);
    bed.data(0, -2);
    bed.is_done(1);
}

#[test]
fn a_live_owner_is_asked_to_release_the_lock() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    is_busy(&mut bed, true);
    let (asked, ticket) = bed.notify();
    assert_eq!(asked, Notification::RequestLock { client: us(), force: false });
    let answer = (THEM, THEIR_WATCH, Response { result: 0 }.to_bytes());
    let notified = Notified { answers: vec![answer], missed: Vec::new() };
    bed.complete(ticket, Ok(client::Outcome::Notified(notified)));
    assert!(bed.is_quiet() && bed.script.wake_at.is_some());
    bed.told(&Notification::ReleasedLock { client: them() }, 5);
    bed.take_lock();
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
}

#[test]
fn a_silent_owner_is_asked_again() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    is_busy(&mut bed, true);
    let (_, ticket) = bed.notify();
    bed.complete(ticket, Ok(client::Outcome::Notified(Notified::default())));
    bed.now = bed.script.wake_at.expect("a time to try again");
    bed.image.due(bed.now, &mut bed.script);
    is_busy(&mut bed, true);
    assert!(matches!(bed.notify().0, Notification::RequestLock { .. }));
}

#[test]
fn an_owner_that_keeps_the_lock_fails_waiting_writes() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    is_busy(&mut bed, true);
    let (_, ticket) = bed.notify();
    let answer = (THEM, THEIR_WATCH, Response { result: -30 }.to_bytes());
    let notified = Notified { answers: vec![answer], missed: Vec::new() };
    bed.complete(ticket, Ok(client::Outcome::Notified(notified)));
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(Error::LockRefused { .. }))]));
    assert!(bed.is_quiet());
}

#[test]
fn a_dead_owner_is_blocklisted_before_its_lock_is_broken() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    is_busy(&mut bed, false);
    let Some(Wanted::Command(json, ticket)) = bed.script.asked.pop_front() else { panic!("no command") };
    assert!(json.contains("osd blocklist") && json.contains("10.0.0.9:0/1234"), "{json}");
    bed.complete(ticket, Ok(client::Outcome::Command(CommandReply::default())));
    let Some(Wanted::NewestMap(ticket)) = bed.script.asked.pop_front() else {
        panic!("no query of the newest map")
    };
    bed.complete(ticket, Ok(client::Outcome::Version(50)));
    let Some(Wanted::Map(50, ticket)) = bed.script.asked.pop_front() else {
        panic!("the map is not awaited")
    };
    assert!(bed.is_quiet());
    bed.script.epoch = 50;
    bed.complete(ticket, Ok(client::Outcome::Version(50)));
    let broken = bed.call::<BreakLock>(HEADER, 0, Vec::new());
    assert_eq!((broken.locker, broken.cookie.as_str()), (EntityName::client(THEM), "auto 99"));
    bed.take_lock();
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
}

#[test]
fn another_handle_of_this_client_has_time_to_renew_its_watch() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    let mut found = 0;
    loop {
        bed.call::<Lock>(HEADER, -16, Vec::new());
        let (_, ticket) = bed.request(HEADER);
        let watchers = Watchers::default().to_bytes();
        bed.reply(ticket, 0, vec![lock_of(US, &format!("auto {THEIR_WATCH}"), "internal"), watchers]);
        found += 1;
        if !bed.is_quiet() {
            break;
        }
        bed.now = bed.script.wake_at.expect("a time to try again");
        bed.image.due(bed.now, &mut bed.script);
    }
    // Twice as many seconds: a watch expires after 30.
    assert_eq!(found, 16);
    let broken = bed.call::<BreakLock>(HEADER, 0, Vec::new());
    assert_eq!((broken.locker, broken.cookie.as_str()), (EntityName::client(US), "auto 99"));
    bed.take_lock();
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
}

#[test]
fn a_manual_lock_is_not_broken() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    bed.call::<Lock>(HEADER, -16, Vec::new());
    let (request, ticket) = bed.request(HEADER);
    assert!(super::script::method_of::<GetInfo>(&request).is_some());
    bed.reply(ticket, 0, vec![their_lock("mine", ""), Watchers::default().to_bytes()]);
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(Error::LockedByHand { .. }))]));
    assert!(bed.is_quiet());
}

/// Returns an image whose lock is held, with nothing in flight.
fn owner() -> Bed {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    bed.take_lock();
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
    bed
}

#[test]
fn the_lock_is_released_once_nothing_is_in_flight() {
    let mut bed = owner();
    bed.write(1, 2);
    bed.told(&Notification::RequestLock { client: them(), force: false }, 5);
    let (id, answer) = bed.script.acknowledged.remove(0);
    assert_eq!((id, Response::from_bytes(&answer.to_vec())), (5, Ok(Response { result: 0 })));
    bed.write(2, 3);
    bed.data(1, 0);
    bed.is_done(2);
    let unlocked = bed.call::<Unlock>(HEADER, 0, Vec::new());
    assert_eq!(unlocked.cookie, "auto 7");
    assert_eq!(bed.notify().0, Notification::ReleasedLock { client: us() });
    assert!(bed.is_quiet(), "the other client comes first");
    bed.told(&Notification::AcquiredLock { client: them() }, 6);
    assert!(matches!(bed.notify().0, Notification::RequestLock { .. }));
    bed.told(&Notification::ReleasedLock { client: them() }, 7);
    bed.take_lock();
    bed.notify();
    bed.data(2, 0);
    bed.is_done(3);
}

#[test]
fn waiting_writes_go_out_before_a_requested_release() {
    let mut bed = Bed::open(facts(locked()));
    bed.write(0, 1);
    bed.call::<Lock>(HEADER, 0, Vec::new());
    bed.told(&Notification::RequestLock { client: them(), force: false }, 5);
    bed.refresh();
    bed.notify();
    bed.write(1, 2);
    bed.data(0, 0);
    bed.is_done(1);
    bed.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn no_op_changes_end_with_the_image() {
    let mut bed = Bed::open(facts(locked()));
    for token in 1..100 {
        bed.submit(crate::request::Io::Zero { offset: 0, length: 0 }, token);
    }
    bed.image.close(bed.now, &mut bed.script, Some(100));
    bed.take_lock();
    bed.notify();
    assert_eq!(bed.script.finished.len(), 99);
    bed.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn an_explicit_lock_is_refused_to_others_until_it_is_released() {
    let mut bed = owner();
    bed.image.lock(bed.now, &mut bed.script, 2);
    assert_eq!(ask(&mut bed), Response { result: -30 });
    bed.image.unlock(bed.now, &mut bed.script, 3);
    bed.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(!bed.image.view().is_lock_owner());
}

#[test]
fn a_lock_that_is_held_for_an_operation_is_released_at_its_end() {
    let mut bed = owner();
    bed.image.hold_lock(bed.now, &mut bed.script, 2);
    bed.is_done(2);
    assert_eq!(ask(&mut bed), Response { result: 0 });
    assert!(bed.is_quiet() && bed.image.view().is_lock_owner());
    bed.image.release_hold(bed.now, &mut bed.script);
    bed.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(!bed.image.view().is_lock_owner());
}

#[test]
fn the_end_of_an_operation_leaves_a_kept_lock() {
    let mut bed = owner();
    bed.image.lock(bed.now, &mut bed.script, 2);
    bed.image.hold_lock(bed.now, &mut bed.script, 3);
    bed.image.release_hold(bed.now, &mut bed.script);
    assert_eq!(ask(&mut bed), Response { result: -30 });
    assert!(bed.image.view().is_lock_owner());
}

#[test]
fn acquiring_a_held_lock_succeeds_at_once() {
    let mut bed = owner();
    bed.image.lock(bed.now, &mut bed.script, 2);
    bed.is_done(2);
}

#[test]
fn only_an_owner_that_does_not_serve_others_refuses_an_operation() {
    let operation = Notification::Operation(Operation::Flatten { id: Default::default() });
    let mut bed = owner();
    bed.told(&operation, 5);
    let answer = Response::from_bytes(&bed.script.acknowledged.remove(0).1.to_vec());
    assert_eq!(answer, Ok(Response { result: -95 }));
    let mut bed = Bed::open(facts(locked()));
    bed.told(&operation, 5);
    assert!(bed.script.acknowledged.remove(0).1.is_empty());
}

#[test]
fn a_new_watch_updates_the_locks_cookie() {
    let mut bed = owner();
    let lost = client::Error::WatchLost { errno: -107 };
    bed.image.watch_lost(bed.now, &mut bed.script, WatchId::from_cookie(WATCH), &lost);
    assert!(matches!(bed.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
    bed.watch(8);
    bed.refresh();
    let renamed = bed.call::<SetCookie>(HEADER, 0, Vec::new());
    assert_eq!((renamed.cookie.as_str(), renamed.new_cookie.as_str()), ("auto 7", "auto 8"));
    assert!(bed.image.view().is_lock_owner());
    bed.write(1, 2);
    bed.data(1, 0);
    bed.is_done(2);
}

#[test]
fn a_broken_lock_is_acquired_again() {
    let mut bed = owner();
    let lost = client::Error::WatchLost { errno: -107 };
    bed.image.watch_lost(bed.now, &mut bed.script, WatchId::from_cookie(WATCH), &lost);
    bed.script.asked.clear();
    bed.script.asked.push_back(Wanted::Watch(crate::host::Ticket(crate::host::Purpose::Watch)));
    bed.watch(8);
    bed.refresh();
    bed.call::<SetCookie>(HEADER, -16, Vec::new());
    assert!(!bed.image.view().is_lock_owner());
    bed.write(1, 2);
    assert_eq!(bed.call::<Lock>(HEADER, 0, Vec::new()).cookie, "auto 8");
}

#[test]
fn the_lock_is_released_before_the_image_is_closed() {
    let mut bed = owner();
    bed.image.close(bed.now, &mut bed.script, Some(2));
    bed.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(matches!(bed.notify().0, Notification::ReleasedLock { .. }));
    assert!(matches!(bed.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
}

#[test]
fn a_watching_owner_that_never_answers_fails_waiting_writes_after_a_minute() {
    let mut bed = Bed::open(facts(Features::EXCLUSIVE_LOCK));
    bed.write(0, 1);
    let begun = bed.now;
    for _ in 0..9 {
        is_busy(&mut bed, true);
        assert!(bed.script.finished.is_empty(), "it may yet answer");
        let wait = bed.image.lock_wait().expect("it waits");
        assert_eq!((wait.owner.num, wait.since), (THEM as i64, begun));
        let (_, ticket) = bed.notify();
        let notified = Notified { answers: Vec::new(), missed: vec![(THEM, THEIR_WATCH)] };
        bed.complete(ticket, Ok(client::Outcome::Notified(notified)));
        bed.now = bed.image.deadline().unwrap_or(bed.now);
        bed.image.due(bed.now, &mut bed.script);
    }
    let [(1, Err(error @ Error::LockUnanswered { .. }))] = bed.script.finished.as_slice() else {
        panic!("{:?}", bed.script.finished);
    };
    assert!(error.to_string().contains(&format!("client.{THEM}")), "{error}");
    assert_eq!(bed.image.lock_wait(), None);
}
