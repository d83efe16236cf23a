//! Size changes next to writes.

use super::script::{Harness, OBJECT, WATCH, Wanted, facts};
use crate::data::{Ancestor, AncestorData, DataObjects};
use crate::error::Error;
use crate::request::Io;
use onego_ceph::client::{Error as ClientError, WatchId};
use onego_ceph::cls::lock::SetCookie;
use onego_ceph::cls::rbd::{MAX_OBJECTS, SetSize};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Features};
use std::sync::Arc;

const HEADER: &str = "rbd_header.abc";

const RESIZE: u64 = 77;

fn begin(harness: &mut Harness, size: u64, token: u32) {
    harness.image.begin_resize(harness.now, &mut harness.script, size, RESIZE, token);
}

fn finish(harness: &mut Harness, token: u32) {
    harness.image.finish_resize(harness.now, &mut harness.script, RESIZE, token);
}

fn cancel(harness: &mut Harness) {
    harness.image.cancel_resize(harness.now, &mut harness.script, RESIZE);
}

fn is_out_of_bounds(harness: &mut Harness, token: u32) {
    let finished = std::mem::take(&mut harness.script.finished);
    assert!(
        matches!(finished.as_slice(), [(failed, Err(Error::OutOfBounds { .. }))] if *failed == token),
        "{finished:?}"
    );
}

#[test]
fn bounds_are_checked_again_when_a_request_is_executed() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.state.size = 5 * OBJECT;
    harness.image.refresh(&mut harness.script, 1);
    harness.refresh();
    harness.is_done(1);
    harness.write(7, 2);
    is_out_of_bounds(&mut harness, 2);
    harness.submit(Io::Read { offset: 5 * OBJECT - 1, length: 2 }, 3);
    is_out_of_bounds(&mut harness, 3);
    assert!(harness.is_quiet());
}

#[test]
fn a_shrink_waits_for_changes_in_flight_and_fails_later_ones_past_the_new_end() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.write(7, 1);
    begin(&mut harness, 5 * OBJECT, 2);
    harness.write(7, 3);
    assert!(harness.script.finished.is_empty(), "the first write is in flight");
    harness.data(7, 0);
    let finished = std::mem::take(&mut harness.script.finished);
    assert!(
        matches!(finished.as_slice(), [(1, Ok(_)), (2, Ok(_)), (3, Err(Error::OutOfBounds { .. }))]),
        "{finished:?}"
    );
    let view = harness.image.view();
    assert_eq!((view.size(), view.header_size()), (5 * OBJECT, 10 * OBJECT));
    harness.write(7, 4);
    is_out_of_bounds(&mut harness, 4);
    harness.write(4, 5);
    harness.data(4, 0);
    harness.is_done(5);
    harness.submit(Io::Trim { offset: 5 * OBJECT, length: 5 * OBJECT }, 6);
    for object in 5..10 {
        assert!(matches!(harness.data(object, 0).as_slice(), [Op::Delete]));
    }
    harness.is_done(6);
    finish(&mut harness, 7);
    assert_eq!(harness.call::<SetSize>(HEADER, 0, Vec::new()).size, 5 * OBJECT);
    harness.state.size = 5 * OBJECT;
    harness.refresh();
    harness.is_done(7);
    assert_eq!(harness.image.view().header_size(), 5 * OBJECT);
}

#[test]
fn a_cancelled_shrink_ends_after_its_trims() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    begin(&mut harness, 9 * OBJECT, 1);
    harness.is_done(1);
    harness.submit(Io::Trim { offset: 9 * OBJECT, length: OBJECT }, 2);
    cancel(&mut harness);
    harness.write(9, 3);
    assert!(matches!(harness.data(9, 0).as_slice(), [Op::Delete]), "the write must follow the trim");
    harness.is_done(2);
    assert!(matches!(harness.data(9, 0).as_slice(), [Op::Write { .. }]));
    harness.is_done(3);
    assert_eq!(harness.image.view().size(), 10 * OBJECT);
    finish(&mut harness, 4);
    assert!(matches!(harness.script.finished.as_slice(), [(4, Err(Error::LockLost))]));
}

#[test]
fn size_changes_are_sequential() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    begin(&mut harness, 5 * OBJECT, 1);
    harness.is_done(1);
    harness.image.begin_resize(harness.now, &mut harness.script, 20 * OBJECT, 78, 2);
    harness.image.begin_resize(harness.now, &mut harness.script, 30 * OBJECT, 79, 3);
    harness.image.cancel_resize(harness.now, &mut harness.script, 79);
    assert!(matches!(harness.script.finished.pop(), Some((3, Err(Error::Client(ClientError::Cancelled))))));
    assert!(harness.script.finished.is_empty(), "the second waits for the first");
    finish(&mut harness, 4);
    harness.call::<SetSize>(HEADER, 0, Vec::new());
    harness.state.size = 5 * OBJECT;
    harness.refresh();
    let finished: Vec<u32> = harness.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [4, 2]);
    harness.image.finish_resize(harness.now, &mut harness.script, 78, 5);
    assert_eq!(harness.call::<SetSize>(HEADER, 0, Vec::new()).size, 20 * OBJECT);
    harness.state.size = 20 * OBJECT;
    harness.refresh();
    harness.is_done(5);
}

#[test]
fn a_shrink_that_lost_the_lock_does_not_set_the_size() {
    let mut harness = Harness::open(facts(Features::LAYERING.with(Features::EXCLUSIVE_LOCK)));
    harness.write(0, 1);
    harness.take_lock();
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
    begin(&mut harness, 5 * OBJECT, 2);
    harness.is_done(2);
    let lost = ClientError::WatchLost { errno: -107 };
    harness.image.watch_lost(harness.now, &mut harness.script, WatchId::from_cookie(WATCH), &lost);
    assert!(matches!(harness.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
    harness.watch(8);
    harness.refresh();
    // Another client has broken the lock and may have recreated trimmed objects.
    harness.call::<SetCookie>(HEADER, -16, Vec::new());
    finish(&mut harness, 4);
    assert!(matches!(harness.script.finished.pop(), Some((4, Err(Error::LockLost)))));
    cancel(&mut harness);
    assert_eq!(harness.image.view().size(), 10 * OBJECT);
}

#[test]
fn trimmed_objects_are_not_copied_from_the_parent() {
    let mut facts = facts(Features::LAYERING);
    let data = DataObjects { names: DataNames::new("rbd_data.src"), pool: 2, ..facts.data.clone() };
    facts.parent =
        Some(Arc::new(Ancestor { data: AncestorData::Objects(data), overlap: 10 * OBJECT, parent: None }));
    facts.state.overlap = 10 * OBJECT;
    let mut harness = Harness::open(facts);
    begin(&mut harness, 5 * OBJECT, 1);
    harness.is_done(1);
    harness.submit(Io::CopyUp { object: 6 }, 2);
    harness.is_done(2);
    assert!(harness.is_quiet(), "it would be there after the image has grown again");
    harness.submit(Io::CopyUp { object: 4 }, 3);
    assert!(matches!(harness.data(4, 0).as_slice(), [Op::Stat]));
    harness.is_done(3);
}

#[test]
fn an_image_does_not_outgrow_its_object_map() {
    let mut harness = Harness::open(facts(Features::DEFAULT));
    begin(&mut harness, (MAX_OBJECTS + 1) * OBJECT, 1);
    let objects = MAX_OBJECTS + 1;
    assert!(
        matches!(harness.script.finished.pop(), Some((1, Err(Error::MapLimit { objects: refused }))) if refused == objects)
    );
    assert!(harness.is_quiet());
    let mut harness = Harness::open(facts(Features::LAYERING));
    begin(&mut harness, (MAX_OBJECTS + 1) * OBJECT, 1);
    harness.is_done(1);
}
