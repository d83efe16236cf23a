//! Images that are destinations of migrations, and object copies without a change.

use super::script::{Harness, OBJECT, facts, method_of};
use crate::data::{Ancestor, AncestorData, DataObjects, ExternalBytes, ExternalRead};
use crate::error::Error;
use crate::facts::{Copied, Migration};
use crate::request::{Io, Outcome};
use onego_ceph::cls::lock::Lock;
use onego_ceph::cls::rbd::{AssertSnapcSeq, CopyUp, ObjectMap, ObjectMapLoad, ObjectMapUpdate, state};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Features, Layout};
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_msgr::encoding::Encode as _;
use std::ops::Range;
use std::sync::Arc;

const MAP: &str = "rbd_object_map.abc";
const SOURCE_0: &str = "rbd_data.src.0000000000000000";

/// Returns an image of ten objects with a migration source. `snaps`: the snapshots that came with it.
fn moved(features: Features, snaps: &[u64]) -> Harness {
    let mut facts = facts(features.with(Features::MIGRATING));
    let data = DataObjects {
        pool: 2,
        namespace: String::new(),
        flags: 0,
        names: DataNames::new("rbd_data.src"),
        layout: Layout::plain(12).unwrap(),
        snap: NOSNAP,
        encryption: None,
    };
    facts.parent =
        Some(Arc::new(Ancestor { data: AncestorData::Objects(data), overlap: 10 * OBJECT, parent: None }));
    let seq = snaps.first().copied().unwrap_or(0);
    facts.state.snap_context = SnapContext { seq, snaps: snaps.to_vec() };
    Harness::open_as(facts, |image| image.moves_here(Migration { newest_snap: seq, parent: None }))
}

#[derive(Debug)]
struct Scripted;

impl ExternalBytes for Scripted {
    fn read(&self, _range: Range<u64>) -> ExternalRead {
        unreachable!("the script reads nothing")
    }
}

#[test]
fn external_bytes_show_where_the_image_has_no_object() {
    let mut facts = facts(Features::LAYERING.with(Features::MIGRATING));
    let data = AncestorData::External(Arc::new(Scripted));
    facts.parent = Some(Arc::new(Ancestor { data, overlap: 2 * OBJECT - 10, parent: None }));
    let mut harness =
        Harness::open_as(facts, |image| image.moves_here(Migration { newest_snap: 0, parent: None }));
    harness.submit(Io::Read { offset: OBJECT - 10, length: OBJECT + 20 }, 1);
    for object in 0..3 {
        harness.data(object, -2);
    }
    let asked: Vec<_> = harness.script.external.drain(..).collect();
    let ranges: Vec<_> = asked.iter().map(|(range, _)| range.clone()).collect();
    assert_eq!(ranges, [OBJECT - 10..OBJECT, OBJECT..2 * OBJECT - 10]);
    for (range, ticket) in asked {
        let bytes = vec![range.start as u8 | 1; (range.end - range.start) as usize];
        harness.image.external_read(harness.now, &mut harness.script, ticket, Ok(bytes.into()));
    }
    let Some((1, Ok(Outcome::Data(bytes)))) = harness.script.finished.pop() else { panic!("no bytes") };
    let expected = [vec![247; 10], vec![1; OBJECT as usize - 10], vec![0; 20]].concat();
    assert_eq!(bytes.to_vec(), expected);
    harness.submit(Io::Read { offset: 0, length: 10 }, 2);
    harness.data(0, -2);
    let (_, ticket) = harness.script.external.pop_front().unwrap();
    harness.image.external_read(harness.now, &mut harness.script, ticket, Err(Error::Closed));
    assert!(matches!(harness.script.finished.as_slice(), [(2, Err(Error::Closed))]));
}

fn copied(harness: &mut Harness, object: u64, result: Result<Copied, Error>) {
    harness.image.object_copied(harness.now, &mut harness.script, object, result);
}

const CHANGED: Result<Copied, Error> = Ok(Copied { is_clean: false });

#[test]
fn an_object_is_copied_before_its_first_change() {
    let mut harness = moved(Features::LAYERING, &[]);
    harness.write(3, 1);
    assert!(matches!(harness.data(3, -2).as_slice(), [Op::Stat, Op::Write { .. }]));
    assert_eq!(harness.script.copies, [(3, true, vec![])]);
    copied(&mut harness, 3, CHANGED);
    assert!(matches!(harness.data(3, 0).as_slice(), [Op::Write { .. }]));
    harness.is_done(1);
}

#[test]
fn an_object_is_complete_once_it_is_as_new_as_the_newest_snapshot() {
    let mut harness = moved(Features::LAYERING, &[7, 5]);
    harness.write(3, 1);
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000003");
    let guard = method_of::<AssertSnapcSeq>(&request).expect("a guard");
    assert_eq!((guard.seq, guard.state), (7, 1));
    assert!(matches!(request.ops[1].0, Op::Write { .. }));
    harness.reply(ticket, -34, Vec::new());
    assert_eq!(harness.script.copies, [(3, true, vec![7, 5])]);
    copied(&mut harness, 3, CHANGED);
    assert!(matches!(harness.data(3, 0).as_slice(), [Op::Write { .. }]));
    harness.is_done(1);
}

#[test]
fn a_zeroed_object_is_copied_for_the_snapshots_first() {
    let mut harness = moved(Features::LAYERING, &[7]);
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 1);
    let ops = harness.data(0, -34);
    assert!(matches!(ops.as_slice(), [Op::Call { .. }, Op::Create { .. }, Op::Truncate { size: 0 }]));
    copied(&mut harness, 0, CHANGED);
    assert!(matches!(harness.data(0, 0).as_slice(), [Op::Create { .. }, Op::Truncate { size: 0 }]));
    harness.is_done(1);
}

#[test]
fn a_change_that_joins_a_copy_includes_the_ancestors_bytes() {
    let mut harness = moved(Features::LAYERING, &[]);
    harness.submit(Io::CopyUp { object: 3 }, 1);
    harness.data(3, -2);
    harness.write(3, 2);
    harness.data(3, -2);
    copied(&mut harness, 3, CHANGED);
    assert_eq!(harness.script.copies, [(3, false, vec![]), (3, true, vec![])]);
    copied(&mut harness, 3, CHANGED);
    assert!(matches!(harness.data(3, 0).as_slice(), [Op::Stat]));
    harness.is_done(1);
    harness.data(3, 0);
    harness.is_done(2);
}

#[test]
fn a_failed_copy_fails_the_change_without_a_write() {
    let mut harness = moved(Features::LAYERING, &[]);
    harness.write(3, 1);
    harness.data(3, -2);
    copied(&mut harness, 3, Err(Error::ReadOnly));
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(Error::ReadOnly))]));
    assert!(harness.is_quiet());
}

/// Acquires the lock for a waiting request, with a map of missing objects.
fn lock(harness: &mut Harness) {
    harness.take_lock();
    harness.call::<Lock>(MAP, 0, Vec::new());
    harness.call::<ObjectMapLoad>(MAP, 0, ObjectMap::new(10).to_bytes());
    harness.notify();
}

#[test]
fn the_object_map_records_a_copy_and_whether_it_is_clean() {
    for (is_clean, expected) in [(false, state::EXISTS), (true, state::EXISTS_CLEAN)] {
        let mut harness = moved(Features::DEFAULT, &[7]);
        harness.submit(Io::CopyUp { object: 3 }, 1);
        lock(&mut harness);
        harness.data(3, -34);
        copied(&mut harness, 3, Ok(Copied { is_clean }));
        harness.data(3, 0);
        let (request, ticket) = harness.request(MAP);
        let update = method_of::<ObjectMapUpdate>(&request).expect("an update");
        assert_eq!((update.start, update.end, update.state), (3, 4, expected));
        harness.reply(ticket, 0, vec![Vec::new(), Vec::new()]);
        harness.data(3, 0);
        harness.is_done(1);
    }
}

#[test]
fn an_object_missing_in_the_source_is_not_recorded() {
    let mut harness = moved(Features::DEFAULT, &[7]);
    harness.submit(Io::CopyUp { object: 3 }, 1);
    lock(&mut harness);
    harness.data(3, -34);
    copied(&mut harness, 3, CHANGED);
    harness.data(3, -2);
    harness.is_done(1);
    assert!(harness.is_quiet());
}

#[test]
fn an_image_is_independent_after_the_migration() {
    let mut harness = moved(Features::LAYERING, &[7]);
    harness.state.features = Features::LAYERING;
    harness.image.refresh(&mut harness.script, 1);
    harness.refresh();
    harness.is_done(1);
    harness.write(3, 2);
    assert!(matches!(harness.data(3, 0).as_slice(), [Op::Write { .. }]));
    harness.is_done(2);
}

#[test]
fn a_migrating_image_cannot_be_resized() {
    let mut harness = moved(Features::LAYERING, &[]);
    harness.resize(3 * OBJECT, 1);
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(_))]));
    assert!(harness.is_quiet());
}

/// Returns a clone whose objects are copied without a change.
fn clone(features: Features) -> Harness {
    let mut facts = facts(features);
    let data = DataObjects { names: DataNames::new("rbd_data.src"), pool: 2, ..facts.data.clone() };
    facts.parent =
        Some(Arc::new(Ancestor { data: AncestorData::Objects(data), overlap: 2 * OBJECT, parent: None }));
    facts.state.overlap = 2 * OBJECT;
    Harness::open(facts)
}

#[test]
fn a_copy_of_zeros_creates_no_object() {
    let mut harness = clone(Features::LAYERING);
    harness.submit(Io::CopyUp { object: 0 }, 1);
    harness.data(0, -2);
    let (_, ticket) = harness.request(SOURCE_0);
    harness.reply(ticket, 0, vec![vec![0; 4096]]);
    harness.is_done(1);
    assert!(harness.is_quiet());
}

#[test]
fn the_object_map_records_a_copy_before_it_exists() {
    let mut harness = clone(Features::DEFAULT);
    harness.submit(Io::CopyUp { object: 0 }, 1);
    lock(&mut harness);
    harness.data(0, -2);
    let (_, ticket) = harness.request(SOURCE_0);
    harness.reply(ticket, 0, vec![vec![9; 4096]]);
    let (request, ticket) = harness.request(MAP);
    assert_eq!(method_of::<ObjectMapUpdate>(&request).expect("an update").state, state::EXISTS);
    harness.reply(ticket, 0, vec![Vec::new(), Vec::new()]);
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000000");
    assert_eq!(method_of::<CopyUp>(&request).expect("a copy").data.0, [9; 4096]);
    harness.reply(ticket, 0, Vec::new());
    harness.is_done(1);
}

#[test]
fn an_object_is_copied_before_it_is_compared() {
    let mut harness = moved(Features::LAYERING, &[]);
    let (expected, data) = (vec![1; 512].into(), vec![2; 512].into());
    harness.submit(Io::CompareAndWrite { offset: 3 * OBJECT, expected, data }, 1);
    let ops = harness.data(3, -2);
    assert!(matches!(ops.as_slice(), [Op::Stat, Op::CmpExt { .. }, Op::Write { .. }]), "{ops:?}");
    assert_eq!(harness.script.copies, [(3, true, vec![])]);
    copied(&mut harness, 3, CHANGED);
    let ops = harness.data(3, -4095 - 7);
    assert!(matches!(ops.as_slice(), [Op::CmpExt { .. }, Op::Write { .. }]), "{ops:?}");
    let finished = harness.script.finished.as_slice();
    assert!(matches!(finished, [(1, Err(Error::Client(error)))] if error.errno() == -4102), "{finished:?}");
}

#[test]
fn the_parents_bytes_are_copied_before_they_are_compared() {
    let mut harness = clone(Features::LAYERING);
    let (expected, data) = (vec![9; 512].into(), vec![2; 512].into());
    harness.submit(Io::CompareAndWrite { offset: 0, expected, data }, 1);
    harness.data(0, -2);
    let (_, ticket) = harness.request(SOURCE_0);
    harness.reply(ticket, 0, vec![vec![9; 4096]]);
    // An OSD compares with the object's state before the request.
    assert_eq!(harness.data(0, 0).len(), 1, "the copy is a request of its own");
    let ops = harness.data(0, 0);
    assert!(matches!(ops.as_slice(), [Op::Stat, Op::CmpExt { .. }, Op::Write { .. }]), "{ops:?}");
    harness.is_done(1);
}
