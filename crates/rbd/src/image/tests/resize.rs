//! Size changes next to writes.

use super::script::{Bed, OBJECT, WATCH, Wanted, facts};
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

fn begin(bed: &mut Bed, size: u64, token: u32) {
    bed.image.begin_resize(bed.now, &mut bed.script, size, RESIZE, token);
}

fn finish(bed: &mut Bed, token: u32) {
    bed.image.finish_resize(bed.now, &mut bed.script, RESIZE, token);
}

fn cancel(bed: &mut Bed) {
    bed.image.cancel_resize(bed.now, &mut bed.script, RESIZE);
}

fn is_out_of_bounds(bed: &mut Bed, token: u32) {
    let finished = std::mem::take(&mut bed.script.finished);
    assert!(
        matches!(finished.as_slice(), [(failed, Err(Error::OutOfBounds { .. }))] if *failed == token),
        "{finished:?}"
    );
}

#[test]
fn bounds_are_checked_again_when_a_request_is_executed() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.state.size = 5 * OBJECT;
    bed.image.refresh(&mut bed.script, 1);
    bed.refresh();
    bed.is_done(1);
    bed.write(7, 2);
    is_out_of_bounds(&mut bed, 2);
    bed.submit(Io::Read { offset: 5 * OBJECT - 1, length: 2 }, 3);
    is_out_of_bounds(&mut bed, 3);
    assert!(bed.is_quiet());
}

#[test]
fn a_shrink_waits_for_changes_in_flight_and_fails_later_ones_past_the_new_end() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.write(7, 1);
    begin(&mut bed, 5 * OBJECT, 2);
    bed.write(7, 3);
    assert!(bed.script.finished.is_empty(), "the first write is in flight");
    bed.data(7, 0);
    let finished = std::mem::take(&mut bed.script.finished);
    assert!(
        matches!(finished.as_slice(), [(1, Ok(_)), (2, Ok(_)), (3, Err(Error::OutOfBounds { .. }))]),
        "{finished:?}"
    );
    let view = bed.image.view();
    assert_eq!((view.size(), view.header_size()), (5 * OBJECT, 10 * OBJECT));
    bed.write(7, 4);
    is_out_of_bounds(&mut bed, 4);
    bed.write(4, 5);
    bed.data(4, 0);
    bed.is_done(5);
    bed.submit(Io::Trim { offset: 5 * OBJECT, length: 5 * OBJECT }, 6);
    for object in 5..10 {
        assert!(matches!(bed.data(object, 0).as_slice(), [Op::Delete]));
    }
    bed.is_done(6);
    finish(&mut bed, 7);
    assert_eq!(bed.call::<SetSize>(HEADER, 0, Vec::new()).size, 5 * OBJECT);
    bed.state.size = 5 * OBJECT;
    bed.refresh();
    bed.is_done(7);
    assert_eq!(bed.image.view().header_size(), 5 * OBJECT);
}

#[test]
fn a_cancelled_shrink_ends_after_its_trims() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    begin(&mut bed, 9 * OBJECT, 1);
    bed.is_done(1);
    bed.submit(Io::Trim { offset: 9 * OBJECT, length: OBJECT }, 2);
    cancel(&mut bed);
    bed.write(9, 3);
    assert!(matches!(bed.data(9, 0).as_slice(), [Op::Delete]), "the write must follow the trim");
    bed.is_done(2);
    assert!(matches!(bed.data(9, 0).as_slice(), [Op::Write { .. }]));
    bed.is_done(3);
    assert_eq!(bed.image.view().size(), 10 * OBJECT);
    finish(&mut bed, 4);
    assert!(matches!(bed.script.finished.as_slice(), [(4, Err(Error::LockLost))]));
}

#[test]
fn size_changes_are_sequential() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    begin(&mut bed, 5 * OBJECT, 1);
    bed.is_done(1);
    bed.image.begin_resize(bed.now, &mut bed.script, 20 * OBJECT, 78, 2);
    bed.image.begin_resize(bed.now, &mut bed.script, 30 * OBJECT, 79, 3);
    bed.image.cancel_resize(bed.now, &mut bed.script, 79);
    assert!(matches!(bed.script.finished.pop(), Some((3, Err(Error::Client(ClientError::Cancelled))))));
    assert!(bed.script.finished.is_empty(), "the second waits for the first");
    finish(&mut bed, 4);
    bed.call::<SetSize>(HEADER, 0, Vec::new());
    bed.state.size = 5 * OBJECT;
    bed.refresh();
    let finished: Vec<u32> = bed.script.finished.drain(..).map(|(token, _)| token).collect();
    assert_eq!(finished, [4, 2]);
    bed.image.finish_resize(bed.now, &mut bed.script, 78, 5);
    assert_eq!(bed.call::<SetSize>(HEADER, 0, Vec::new()).size, 20 * OBJECT);
    bed.state.size = 20 * OBJECT;
    bed.refresh();
    bed.is_done(5);
}

#[test]
fn a_shrink_that_lost_the_lock_does_not_set_the_size() {
    let mut bed = Bed::open(facts(Features::LAYERING.with(Features::EXCLUSIVE_LOCK)));
    bed.write(0, 1);
    bed.take_lock();
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
    begin(&mut bed, 5 * OBJECT, 2);
    bed.is_done(2);
    let lost = ClientError::WatchLost { errno: -107 };
    bed.image.watch_lost(bed.now, &mut bed.script, WatchId::from_cookie(WATCH), &lost);
    assert!(matches!(bed.script.asked.pop_front(), Some(Wanted::Unwatch(..))));
    bed.watch(8);
    bed.refresh();
    // Another client has broken the lock and may have written what was trimmed.
    bed.call::<SetCookie>(HEADER, -16, Vec::new());
    finish(&mut bed, 4);
    assert!(matches!(bed.script.finished.pop(), Some((4, Err(Error::LockLost)))));
    cancel(&mut bed);
    assert_eq!(bed.image.view().size(), 10 * OBJECT);
}

#[test]
fn trimmed_objects_are_not_copied_from_the_parent() {
    let mut facts = facts(Features::LAYERING);
    let data = DataObjects { names: DataNames::new("rbd_data.src"), pool: 2, ..facts.data.clone() };
    facts.parent =
        Some(Arc::new(Ancestor { data: AncestorData::Objects(data), overlap: 10 * OBJECT, parent: None }));
    facts.state.overlap = 10 * OBJECT;
    let mut bed = Bed::open(facts);
    begin(&mut bed, 5 * OBJECT, 1);
    bed.is_done(1);
    bed.submit(Io::CopyUp { object: 6 }, 2);
    bed.is_done(2);
    assert!(bed.is_quiet(), "it would be there after the image has grown again");
    bed.submit(Io::CopyUp { object: 4 }, 3);
    assert!(matches!(bed.data(4, 0).as_slice(), [Op::Stat]));
    bed.is_done(3);
}

#[test]
fn an_image_does_not_outgrow_its_object_map() {
    let mut bed = Bed::open(facts(Features::DEFAULT));
    begin(&mut bed, (MAX_OBJECTS + 1) * OBJECT, 1);
    let objects = MAX_OBJECTS + 1;
    assert!(
        matches!(bed.script.finished.pop(), Some((1, Err(Error::MapLimit { objects: refused }))) if refused == objects)
    );
    assert!(bed.is_quiet());
    let mut bed = Bed::open(facts(Features::LAYERING));
    begin(&mut bed, (MAX_OBJECTS + 1) * OBJECT, 1);
    bed.is_done(1);
}
