//! Operations for other clients, and pauses.

use super::script::{Harness, US, WATCH, Wanted, facts, method_of};
use crate::PauseKind;
use crate::notify::{AsyncRequestId, ClientId, Notification, Operation, Response, SnapshotName};
use onego_ceph::client::{self, Notified};
use onego_ceph::cls::lock::{Lock, Unlock};
use onego_ceph::cls::rbd::{ObjectMap, ObjectMapLoad};
use onego_ceph::rbd::Features;
use onego_msgr::encoding::{Decode as _, Encode as _};

const HEADER: &str = "rbd_header.abc";
const MAP: &str = "rbd_object_map.abc";

fn id(request: u64) -> AsyncRequestId {
    AsyncRequestId { client: ClientId { gid: 4200, handle: 99 }, request }
}

fn flatten(request: u64) -> Notification {
    Notification::Operation(Operation::Flatten { id: id(request) })
}

/// Returns an image that holds the lock and serves operations of other clients.
fn serving(features: Features) -> Harness {
    let mut harness = Harness::open(facts(features));
    harness.image.serve_others();
    harness.write(9, 1);
    harness.call::<Lock>(HEADER, 0, Vec::new());
    harness.refresh();
    if features.contains(Features::OBJECT_MAP) {
        load_map(&mut harness);
    }
    harness.notify();
    if features.contains(Features::OBJECT_MAP) {
        let (_, ticket) = harness.request(MAP);
        harness.reply(ticket, 0, vec![Vec::new(), Vec::new()]);
    }
    harness.data(9, 0);
    harness.is_done(1);
    harness
}

fn load_map(harness: &mut Harness) {
    harness.call::<Lock>(MAP, 0, Vec::new());
    harness.call::<ObjectMapLoad>(MAP, 0, ObjectMap::new(10).to_bytes());
}

fn locked() -> Features {
    Features::LAYERING.with(Features::EXCLUSIVE_LOCK)
}

fn answer(harness: &mut Harness) -> Option<i32> {
    let (_, answer) = harness.script.acknowledged.remove(0);
    (!answer.is_empty()).then(|| Response::from_bytes(&answer.to_vec()).expect("an answer").result)
}

fn end(harness: &mut Harness, number: u32, result: i32) {
    harness.image.operation_ended(harness.now, &mut harness.script, number, result);
}

fn told(harness: &mut Harness, ticket: crate::host::Ticket) {
    harness.complete(ticket, Ok(client::Outcome::Notified(Notified::default())));
}

#[test]
fn an_operation_is_answered_at_once_and_its_end_is_notified() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    assert_eq!(answer(&mut harness), Some(0));
    assert_eq!(harness.script.operations, [(1, Operation::Flatten { id: id(1) })]);
    end(&mut harness, 1, -22);
    let (end, ticket) = harness.notify();
    assert_eq!(end, Notification::AsyncComplete { id: id(1), result: -22 });
    told(&mut harness, ticket);
    assert!(harness.is_quiet());
}

#[test]
fn a_missed_notification_of_an_end_is_repeated_a_few_times() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    end(&mut harness, 1, 0);
    for _ in 0..3 {
        let (end, ticket) = harness.notify();
        assert_eq!(end, Notification::AsyncComplete { id: id(1), result: 0 });
        let missed = Notified { answers: Vec::new(), missed: vec![(4200, 99)] };
        harness.complete(ticket, Ok(client::Outcome::Notified(missed)));
    }
    assert!(harness.is_quiet());
}

#[test]
fn an_operation_without_an_id_is_answered_at_its_end() {
    let mut harness = serving(locked());
    let snapshot = SnapshotName { name: "s".into(), ..SnapshotName::default() };
    harness.told(&Notification::Operation(Operation::SnapRemove { snapshot, id: Default::default() }), 5);
    assert!(harness.script.acknowledged.is_empty());
    harness.image.operation_progress(&mut harness.script, 1, 1, 2);
    end(&mut harness, 1, -16);
    assert_eq!(answer(&mut harness), Some(-16));
    assert!(harness.is_quiet());
}

#[test]
fn a_repeated_request_does_not_repeat_the_operation() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    harness.told(&flatten(1), 6);
    assert_eq!((answer(&mut harness), answer(&mut harness)), (Some(0), Some(0)));
    assert_eq!(harness.script.operations.len(), 1);
    end(&mut harness, 1, 0);
    harness.notify();
    harness.told(&flatten(1), 7);
    assert_eq!(answer(&mut harness), Some(0));
    assert_eq!(harness.notify().0, Notification::AsyncComplete { id: id(1), result: 0 });
    assert_eq!(harness.script.operations.len(), 1);
}

#[test]
fn operations_in_progress_are_limited() {
    let mut harness = serving(locked());
    for request in 1..=9 {
        harness.told(&flatten(request), request);
        assert_eq!(answer(&mut harness), Some(if request <= 8 { 0 } else { -95 }));
    }
    assert_eq!(harness.script.operations.len(), 8);
}

#[test]
fn only_one_progress_notification_is_in_flight() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    for done in 1..=3 {
        harness.image.operation_progress(&mut harness.script, 1, done, 10);
    }
    let (first, ticket) = harness.notify();
    assert_eq!(first, Notification::AsyncProgress { id: id(1), offset: 1, total: 10 });
    assert!(harness.is_quiet());
    told(&mut harness, ticket);
    assert_eq!(harness.notify().0, Notification::AsyncProgress { id: id(1), offset: 3, total: 10 });
}

#[test]
fn a_client_that_does_not_own_the_lock_is_silent() {
    let mut harness = Harness::open(facts(locked()));
    harness.image.serve_others();
    harness.told(&flatten(1), 5);
    assert_eq!(answer(&mut harness), None);
    assert!(harness.script.operations.is_empty());
}

#[test]
fn a_lock_request_aborts_a_long_operation() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    let them = ClientId { gid: 4200, handle: 99 };
    harness.told(&Notification::RequestLock { client: them, force: false }, 6);
    assert_eq!(harness.script.broken_off, [1]);
    assert_eq!(harness.notify().0, Notification::AsyncComplete { id: id(1), result: -85 });
    harness.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn a_lock_request_waits_for_an_operation_that_has_paused_the_image() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 2);
    harness.is_done(2);
    harness.told(&Notification::RequestLock { client: ClientId { gid: 4200, handle: 99 }, force: false }, 6);
    assert!(harness.is_quiet() && harness.script.broken_off.is_empty());
    harness.image.resume(harness.now, &mut harness.script, 3);
    harness.refresh();
    harness.is_done(3);
    assert!(harness.is_quiet(), "the operation would be repeated");
    end(&mut harness, 1, 0);
    assert_eq!(harness.notify().0, Notification::AsyncComplete { id: id(1), result: 0 });
    harness.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn a_pause_waits_for_changes_in_flight_and_holds_later_ones_back() {
    let mut harness = serving(locked());
    harness.write(0, 2);
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 3);
    harness.write(1, 4);
    harness.data(0, 0);
    let finished: Vec<u32> = harness.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [2, 3]);
    assert!(harness.is_quiet(), "the second write went out");
    harness.image.resume(harness.now, &mut harness.script, 5);
    assert!(harness.image.view().is_lock_owner());
    harness.refresh();
    harness.is_done(5);
    harness.data(1, 0);
    harness.is_done(4);
}

#[test]
fn a_pause_for_the_header_ignores_changes_in_flight_and_holds_later_ones_back() {
    let mut harness = serving(locked().with(Features::OBJECT_MAP));
    harness.write(0, 2);
    let (_, update) = harness.request(MAP);
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 6);
    harness.image.pause(harness.now, &mut harness.script, 2, PauseKind::Header, 3);
    harness.is_done(3);
    harness.write(1, 4);
    assert!(harness.is_quiet(), "the second write went out");
    harness.image.resume(harness.now, &mut harness.script, 5);
    harness.refresh();
    // The object map is unchanged, including the requests that wait for its updates.
    assert_eq!(harness.script.finished.drain(..).map(|(token, _)| token).collect::<Vec<u32>>(), [5]);
    harness.reply(update, 0, vec![Vec::new(); 2]);
    harness.data(0, 0);
    let finished: Vec<u32> = harness.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [2, 6], "the other pause waited for the first write");
    assert!(harness.is_quiet());
}

#[test]
fn the_object_map_is_read_again_after_a_pause() {
    let mut harness = serving(locked().with(Features::OBJECT_MAP));
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 2);
    harness.is_done(2);
    harness.image.resume(harness.now, &mut harness.script, 3);
    harness.refresh();
    load_map(&mut harness);
    harness.is_done(3);
    assert!(harness.is_quiet(), "the lock's owner is announced only once");
    harness.write(0, 4);
    let (request, _) = harness.request(MAP);
    assert!(method_of::<onego_ceph::cls::rbd::ObjectMapUpdate>(&request).is_some());
}

#[test]
fn pauses_are_sequential() {
    let mut harness = serving(locked());
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 2);
    harness.is_done(2);
    harness.image.pause(harness.now, &mut harness.script, 1, PauseKind::Exclusive, 3);
    assert!(harness.script.finished.is_empty());
    harness.image.resume(harness.now, &mut harness.script, 4);
    harness.refresh();
    let finished: Vec<u32> = harness.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [4, 3]);
}

#[test]
fn closing_an_image_aborts_its_operations() {
    let mut harness = serving(locked());
    harness.told(&flatten(1), 5);
    harness.image.close(harness.now, &mut harness.script, Some(2));
    assert_eq!(harness.script.broken_off, [1]);
    assert_eq!(harness.notify().0, Notification::AsyncComplete { id: id(1), result: -85 });
    harness.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(
        matches!(harness.script.asked.pop_front(), Some(Wanted::Notify(Notification::ReleasedLock { client }, _))
        if client == ClientId { gid: US, handle: WATCH })
    );
}
