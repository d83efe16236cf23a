//! Operations for other clients, and pauses.

use super::script::{Bed, US, WATCH, Wanted, facts, method_of};
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
fn serving(features: Features) -> Bed {
    let mut bed = Bed::open(facts(features));
    bed.image.serve_others();
    bed.write(9, 1);
    bed.call::<Lock>(HEADER, 0, Vec::new());
    bed.refresh();
    if features.contains(Features::OBJECT_MAP) {
        load_map(&mut bed);
    }
    bed.notify();
    if features.contains(Features::OBJECT_MAP) {
        let (_, ticket) = bed.request(MAP);
        bed.reply(ticket, 0, vec![Vec::new(), Vec::new()]);
    }
    bed.data(9, 0);
    bed.is_done(1);
    bed
}

fn load_map(bed: &mut Bed) {
    bed.call::<Lock>(MAP, 0, Vec::new());
    bed.call::<ObjectMapLoad>(MAP, 0, ObjectMap::new(10).to_bytes());
}

fn locked() -> Features {
    Features::LAYERING.with(Features::EXCLUSIVE_LOCK)
}

fn answer(bed: &mut Bed) -> Option<i32> {
    let (_, answer) = bed.script.acknowledged.remove(0);
    (!answer.is_empty()).then(|| Response::from_bytes(&answer.to_vec()).expect("an answer").result)
}

fn end(bed: &mut Bed, number: u32, result: i32) {
    bed.image.operation_ended(bed.now, &mut bed.script, number, result);
}

fn told(bed: &mut Bed, ticket: crate::host::Ticket) {
    bed.complete(ticket, Ok(client::Outcome::Notified(Notified::default())));
}

#[test]
fn an_operation_is_answered_at_once_and_its_end_is_notified() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    assert_eq!(answer(&mut bed), Some(0));
    assert_eq!(bed.script.operations, [(1, Operation::Flatten { id: id(1) })]);
    end(&mut bed, 1, -22);
    let (end, ticket) = bed.notify();
    assert_eq!(end, Notification::AsyncComplete { id: id(1), result: -22 });
    told(&mut bed, ticket);
    assert!(bed.is_quiet());
}

#[test]
fn a_missed_notification_of_an_end_is_repeated_a_few_times() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    end(&mut bed, 1, 0);
    for _ in 0..3 {
        let (end, ticket) = bed.notify();
        assert_eq!(end, Notification::AsyncComplete { id: id(1), result: 0 });
        let missed = Notified { answers: Vec::new(), missed: vec![(4200, 99)] };
        bed.complete(ticket, Ok(client::Outcome::Notified(missed)));
    }
    assert!(bed.is_quiet());
}

#[test]
fn an_operation_without_an_id_is_answered_at_its_end() {
    let mut bed = serving(locked());
    let snapshot = SnapshotName { name: "s".into(), ..SnapshotName::default() };
    bed.told(&Notification::Operation(Operation::SnapRemove { snapshot, id: Default::default() }), 5);
    assert!(bed.script.acknowledged.is_empty());
    bed.image.operation_progress(&mut bed.script, 1, 1, 2);
    end(&mut bed, 1, -16);
    assert_eq!(answer(&mut bed), Some(-16));
    assert!(bed.is_quiet());
}

#[test]
fn a_repeated_request_does_not_repeat_the_operation() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    bed.told(&flatten(1), 6);
    assert_eq!((answer(&mut bed), answer(&mut bed)), (Some(0), Some(0)));
    assert_eq!(bed.script.operations.len(), 1);
    end(&mut bed, 1, 0);
    bed.notify();
    bed.told(&flatten(1), 7);
    assert_eq!(answer(&mut bed), Some(0));
    assert_eq!(bed.notify().0, Notification::AsyncComplete { id: id(1), result: 0 });
    assert_eq!(bed.script.operations.len(), 1);
}

#[test]
fn operations_in_progress_are_limited() {
    let mut bed = serving(locked());
    for request in 1..=9 {
        bed.told(&flatten(request), request);
        assert_eq!(answer(&mut bed), Some(if request <= 8 { 0 } else { -95 }));
    }
    assert_eq!(bed.script.operations.len(), 8);
}

#[test]
fn only_one_progress_notification_is_in_flight() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    for done in 1..=3 {
        bed.image.operation_progress(&mut bed.script, 1, done, 10);
    }
    let (first, ticket) = bed.notify();
    assert_eq!(first, Notification::AsyncProgress { id: id(1), offset: 1, total: 10 });
    assert!(bed.is_quiet());
    told(&mut bed, ticket);
    assert_eq!(bed.notify().0, Notification::AsyncProgress { id: id(1), offset: 3, total: 10 });
}

#[test]
fn a_client_that_does_not_own_the_lock_is_silent() {
    let mut bed = Bed::open(facts(locked()));
    bed.image.serve_others();
    bed.told(&flatten(1), 5);
    assert_eq!(answer(&mut bed), None);
    assert!(bed.script.operations.is_empty());
}

#[test]
fn a_lock_request_aborts_a_long_operation() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    let them = ClientId { gid: 4200, handle: 99 };
    bed.told(&Notification::RequestLock { client: them, force: false }, 6);
    assert_eq!(bed.script.broken_off, [1]);
    assert_eq!(bed.notify().0, Notification::AsyncComplete { id: id(1), result: -85 });
    bed.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn a_lock_request_waits_for_an_operation_that_has_paused_the_image() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 2);
    bed.is_done(2);
    bed.told(&Notification::RequestLock { client: ClientId { gid: 4200, handle: 99 }, force: false }, 6);
    assert!(bed.is_quiet() && bed.script.broken_off.is_empty());
    bed.image.resume(bed.now, &mut bed.script, 3);
    bed.refresh();
    bed.is_done(3);
    assert!(bed.is_quiet(), "the operation would be repeated");
    end(&mut bed, 1, 0);
    assert_eq!(bed.notify().0, Notification::AsyncComplete { id: id(1), result: 0 });
    bed.call::<Unlock>(HEADER, 0, Vec::new());
}

#[test]
fn a_pause_waits_for_changes_in_flight_and_holds_later_ones_back() {
    let mut bed = serving(locked());
    bed.write(0, 2);
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 3);
    bed.write(1, 4);
    bed.data(0, 0);
    let finished: Vec<u32> = bed.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [2, 3]);
    assert!(bed.is_quiet(), "the second write went out");
    bed.image.resume(bed.now, &mut bed.script, 5);
    assert!(bed.image.view().is_lock_owner());
    bed.refresh();
    bed.is_done(5);
    bed.data(1, 0);
    bed.is_done(4);
}

#[test]
fn a_pause_for_the_header_ignores_changes_in_flight_and_holds_later_ones_back() {
    let mut bed = serving(locked().with(Features::OBJECT_MAP));
    bed.write(0, 2);
    let (_, update) = bed.request(MAP);
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 6);
    bed.image.pause(bed.now, &mut bed.script, 2, PauseKind::Header, 3);
    bed.is_done(3);
    bed.write(1, 4);
    assert!(bed.is_quiet(), "the second write went out");
    bed.image.resume(bed.now, &mut bed.script, 5);
    bed.refresh();
    // The object map is unchanged, including the requests that wait for its updates.
    assert_eq!(bed.script.finished.drain(..).map(|(token, _)| token).collect::<Vec<u32>>(), [5]);
    bed.reply(update, 0, vec![Vec::new(); 2]);
    bed.data(0, 0);
    let finished: Vec<u32> = bed.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [2, 6], "the other pause waited for the first write");
    assert!(bed.is_quiet());
}

#[test]
fn the_object_map_is_read_again_after_a_pause() {
    let mut bed = serving(locked().with(Features::OBJECT_MAP));
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 2);
    bed.is_done(2);
    bed.image.resume(bed.now, &mut bed.script, 3);
    bed.refresh();
    load_map(&mut bed);
    bed.is_done(3);
    assert!(bed.is_quiet(), "the lock's owner is announced only once");
    bed.write(0, 4);
    let (request, _) = bed.request(MAP);
    assert!(method_of::<onego_ceph::cls::rbd::ObjectMapUpdate>(&request).is_some());
}

#[test]
fn pauses_are_sequential() {
    let mut bed = serving(locked());
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 2);
    bed.is_done(2);
    bed.image.pause(bed.now, &mut bed.script, 1, PauseKind::Exclusive, 3);
    assert!(bed.script.finished.is_empty());
    bed.image.resume(bed.now, &mut bed.script, 4);
    bed.refresh();
    let finished: Vec<u32> = bed.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [4, 3]);
}

#[test]
fn closing_an_image_aborts_its_operations() {
    let mut bed = serving(locked());
    bed.told(&flatten(1), 5);
    bed.image.close(bed.now, &mut bed.script, Some(2));
    assert_eq!(bed.script.broken_off, [1]);
    assert_eq!(bed.notify().0, Notification::AsyncComplete { id: id(1), result: -85 });
    bed.call::<Unlock>(HEADER, 0, Vec::new());
    assert!(
        matches!(bed.script.asked.pop_front(), Some(Wanted::Notify(Notification::ReleasedLock { client }, _))
        if client == ClientId { gid: US, handle: WATCH })
    );
}
