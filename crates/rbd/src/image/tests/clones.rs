//! Clones.

use super::script::{Harness, OBJECT, Wanted, facts, method_of};
use crate::data::{Ancestor, AncestorData, DataObjects};
use crate::facts::ImageFacts;
use crate::notify::Notification;
use crate::request::{Io, Outcome};
use onego_ceph::cls::lock::Lock;
use onego_ceph::cls::rbd::{CopyUp, ObjectMap, ObjectMapLoad, ObjectMapUpdate, state};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Features, Layout};
use onego_ceph::types::SnapContext;
use onego_msgr::encoding::Encode as _;
use std::sync::Arc;

const OVERLAP: u64 = 2 * OBJECT + OBJECT / 2;

fn ancestor(prefix: &str, overlap: u64, parent: Option<Arc<Ancestor>>) -> Arc<Ancestor> {
    let data = DataObjects {
        pool: 2,
        namespace: "old".into(),
        flags: 0,
        names: DataNames::new(prefix),
        layout: Layout::plain(13).unwrap(),
        snap: 4,
        encryption: None,
    };
    Arc::new(Ancestor { data: AncestorData::Objects(data), overlap, parent })
}

/// Returns a clone of a clone. Objects of the ancestors are twice as large.
fn clone() -> ImageFacts {
    let grandparent = ancestor("rbd_data.old", OBJECT, None);
    let mut facts = facts(Features::LAYERING);
    facts.parent = Some(ancestor("rbd_data.par", OVERLAP, Some(grandparent)));
    facts.state.overlap = OVERLAP;
    facts.state.parent.pool = 2;
    facts
}

/// Expects a request to an ancestor's object, and answers it.
fn ancestral(harness: &mut Harness, object: &str, result: i32, bytes: &[u8]) -> (u64, u64) {
    let (request, ticket) = harness.request(object);
    assert_eq!((request.snap, request.pool, &request.namespace[..]), (4, 2, &b"old"[..]));
    let Op::Read { offset, length } = request.ops[0].0 else { panic!("{request:?}") };
    harness.reply(ticket, result, if result == 0 { vec![bytes.to_vec()] } else { Vec::new() });
    (offset, length)
}

const PARENT_0: &str = "rbd_data.par.0000000000000000";
const PARENT_1: &str = "rbd_data.par.0000000000000001";
const OLD_0: &str = "rbd_data.old.0000000000000000";

fn read(harness: &mut Harness, token: u32) -> Vec<u8> {
    match harness.script.finished.remove(0) {
        (done, Ok(Outcome::Data(bytes))) if done == token => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_objects_are_read_from_the_ancestors() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Read { offset: 0, length: 100 }, 1);
    harness.data(0, -2);
    ancestral(&mut harness, PARENT_0, -2, &[]);
    assert_eq!(ancestral(&mut harness, OLD_0, 0, &[7; 60]), (0, 100));
    assert_eq!(read(&mut harness, 1), [[7; 60].as_slice(), &[0; 40]].concat());
}

#[test]
fn an_ancestor_shows_no_more_than_the_overlap() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Read { offset: OVERLAP - 10, length: 30 }, 1);
    harness.data(2, -2);
    assert_eq!(ancestral(&mut harness, PARENT_1, 0, &[7; 10]), (OBJECT / 2 - 10, 10));
    assert_eq!(read(&mut harness, 1), [[7; 10].as_slice(), &[0; 20]].concat());
    harness.submit(Io::Read { offset: OVERLAP, length: 5 }, 2);
    harness.data(2, -2);
    expect_no_read_of_an_ancestor(&mut harness);
    assert_eq!(read(&mut harness, 2), [0; 5]);
}

fn expect_no_read_of_an_ancestor(harness: &mut Harness) {
    assert!(harness.is_quiet(), "{:?}", harness.script.asked);
}

#[test]
fn the_first_write_to_an_object_includes_the_parents_bytes() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Write { offset: OBJECT + 100, data: vec![1; 10].into() }, 1);
    harness.submit(Io::Write { offset: OBJECT + 200, data: vec![2; 10].into() }, 2);
    assert!(matches!(harness.data(1, -2).as_slice(), [Op::Stat, Op::Write { offset: 100, .. }]));
    harness.data(1, -2);
    assert_eq!(ancestral(&mut harness, PARENT_0, 0, &[9; 4096]), (OBJECT, OBJECT));
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000001");
    assert_eq!(method_of::<CopyUp>(&request).expect("a copy").data.0, [9; 4096]);
    assert!(matches!(request.ops[1].0, Op::Write { offset: 100, .. }));
    harness.reply(ticket, 0, Vec::new());
    harness.is_done(1);
    assert!(matches!(harness.data(1, 0).as_slice(), [Op::Stat, Op::Write { offset: 200, .. }]));
    harness.is_done(2);
}

#[test]
fn a_write_to_an_object_missing_in_the_map_reads_the_parent_at_once() {
    let mut facts = clone();
    facts.state.features = Features::DEFAULT;
    let mut harness = Harness::open(facts);
    harness.submit(Io::Write { offset: 100, data: vec![1; 10].into() }, 1);
    harness.take_lock();
    harness.call::<Lock>("rbd_object_map.abc", 0, Vec::new());
    harness.call::<ObjectMapLoad>("rbd_object_map.abc", 0, ObjectMap::new(10).to_bytes());
    harness.notify();
    assert_eq!(ancestral(&mut harness, PARENT_0, 0, &[9; 4096]), (0, OBJECT));
    let (request, ticket) = harness.request("rbd_object_map.abc");
    assert_eq!(method_of::<ObjectMapUpdate>(&request).expect("a change of the map").state, state::EXISTS);
    harness.reply(ticket, 0, Vec::new());
    let ops = harness.data(0, 0);
    assert!(matches!(ops.as_slice(), [Op::Call { .. }, Op::Write { offset: 100, .. }]), "{ops:?}");
    harness.is_done(1);
}

#[test]
fn a_write_that_covers_the_overlap_needs_no_copy() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Write { offset: 2 * OBJECT, data: vec![1; 2048].into() }, 1);
    assert!(matches!(harness.data(2, 0).as_slice(), [Op::Write { offset: 0, .. }]));
    harness.is_done(1);
}

#[test]
fn zeros_of_the_parent_are_not_copied() {
    let mut harness = Harness::open(clone());
    harness.write(2, 1);
    harness.data(2, -2);
    ancestral(&mut harness, PARENT_1, 0, &[0; 2048]);
    let ops = harness.data(2, 0);
    assert!(matches!(ops.as_slice(), [Op::Create { exclusive: false }, Op::Write { .. }]), "{ops:?}");
    harness.is_done(1);
}

#[test]
fn snapshots_keep_showing_the_parents_bytes() {
    let mut facts = clone();
    facts.state.snap_context = SnapContext { seq: 5, snaps: vec![5] };
    let mut harness = Harness::open(facts);
    harness.submit(Io::Write { offset: 0, data: vec![1; 4096].into() }, 1);
    assert!(matches!(harness.data(0, -2).as_slice(), [Op::Stat, Op::Write { .. }]));
    ancestral(&mut harness, PARENT_0, 0, &[9; 4096]);
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.ops.len(), 1);
    assert_eq!(request.snap_context, SnapContext::default(), "it becomes the oldest version");
    harness.reply(ticket, 0, Vec::new());
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context.snaps, [5]);
    assert!(matches!(request.ops[1].0, Op::Write { .. }));
    harness.reply(ticket, 0, Vec::new());
    harness.is_done(1);
}

#[test]
fn snapshot_object_maps_are_updated_before_a_copy_up() {
    let mut facts = clone();
    facts.state.features = Features::DEFAULT;
    facts.state.snap_context = SnapContext { seq: 6, snaps: vec![6, 5] };
    let mut harness = Harness::open(facts);
    harness.write(0, 1);
    harness.take_lock();
    harness.call::<Lock>("rbd_object_map.abc", 0, Vec::new());
    let mut map = ObjectMap::new(10);
    map.set(0, state::EXISTS);
    harness.call::<ObjectMapLoad>("rbd_object_map.abc", 0, map.to_bytes());
    harness.notify();
    harness.data(0, -2);
    ancestral(&mut harness, PARENT_0, 0, &[9; 4096]);
    let newer = harness.call::<ObjectMapUpdate>("rbd_object_map.abc.0000000000000006", 0, Vec::new());
    assert_eq!((newer.start, newer.state), (0, state::EXISTS_CLEAN));
    let older = harness.call::<ObjectMapUpdate>("rbd_object_map.abc.0000000000000005", -34, Vec::new());
    assert_eq!(older.state, state::EXISTS);
    assert_eq!(harness.data(0, 0).len(), 1);
    assert!(matches!(harness.data(0, 0).as_slice(), [Op::Stat, Op::Write { .. }]));
    harness.is_done(1);
}

#[test]
fn a_zeroed_object_hides_the_parents() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 1);
    let ops = harness.data(0, 0);
    assert_eq!(ops, [Op::Create { exclusive: false }, Op::Truncate { size: 0 }]);
    harness.is_done(1);
    harness.submit(Io::Zero { offset: 5 * OBJECT, length: OBJECT }, 2);
    assert_eq!(harness.data(5, 0), [Op::Delete]);
}

#[test]
fn snapshots_keep_the_parents_bytes_of_a_zeroed_object() {
    let mut facts = clone();
    facts.state.snap_context = SnapContext { seq: 5, snaps: vec![5] };
    let mut harness = Harness::open(facts);
    let cut = [Op::Stat, Op::Truncate { size: 0 }];
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 1);
    assert_eq!(harness.data(0, -2), cut);
    ancestral(&mut harness, PARENT_0, 0, &[9; 4096]);
    let (request, ticket) = harness.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context, SnapContext::default(), "it becomes the oldest version");
    harness.reply(ticket, 0, Vec::new());
    assert_eq!(harness.data(0, 0), cut);
    harness.is_done(1);
}

#[test]
fn a_flatten_is_acknowledged_after_the_last_read_of_the_parent() {
    let mut harness = Harness::open(clone());
    harness.submit(Io::Read { offset: 0, length: 3 }, 1);
    harness.data(0, -2);
    let (_, of_parent) = harness.request(PARENT_0);
    harness.state.overlap = 0;
    harness.state.parent = Default::default();
    harness.told(&Notification::HeaderUpdate, 8);
    harness.refresh();
    assert_eq!(harness.script.acknowledged, [], "the parent's snapshot may be removed after the answer");
    harness.reply(of_parent, 0, vec![vec![7; 3]]);
    assert_eq!(harness.script.acknowledged.len(), 1);
    assert_eq!(read(&mut harness, 1), [7; 3]);
}

#[test]
fn a_flattened_image_has_no_parent() {
    let mut harness = Harness::open(clone());
    harness.state.overlap = 0;
    harness.state.parent = Default::default();
    harness.image.refresh(&mut harness.script, 1);
    harness.refresh();
    harness.is_done(1);
    harness.submit(Io::Read { offset: 0, length: 3 }, 2);
    harness.data(0, -2);
    assert_eq!(read(&mut harness, 2), [0; 3]);
}

#[test]
fn a_parent_that_cannot_be_read_fails_the_request_and_nothing_is_written() {
    let mut harness = Harness::open(clone());
    harness.write(0, 1);
    harness.data(0, -2);
    ancestral(&mut harness, PARENT_0, -5, &[]);
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(_))]));
    assert!(!harness.script.asked.iter().any(|asked| matches!(asked, Wanted::Request(..))));
}
