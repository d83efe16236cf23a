//! Clones.

use super::script::{Bed, OBJECT, Wanted, facts, method_of};
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
fn ancestral(bed: &mut Bed, object: &str, result: i32, bytes: &[u8]) -> (u64, u64) {
    let (request, ticket) = bed.request(object);
    assert_eq!((request.snap, request.pool, &request.namespace[..]), (4, 2, &b"old"[..]));
    let Op::Read { offset, length } = request.ops[0].0 else { panic!("{request:?}") };
    bed.reply(ticket, result, if result == 0 { vec![bytes.to_vec()] } else { Vec::new() });
    (offset, length)
}

const PARENT_0: &str = "rbd_data.par.0000000000000000";
const PARENT_1: &str = "rbd_data.par.0000000000000001";
const OLD_0: &str = "rbd_data.old.0000000000000000";

fn read(bed: &mut Bed, token: u32) -> Vec<u8> {
    match bed.script.finished.remove(0) {
        (done, Ok(Outcome::Data(bytes))) if done == token => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_objects_are_read_from_the_ancestors() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Read { offset: 0, length: 100 }, 1);
    bed.data(0, -2);
    ancestral(&mut bed, PARENT_0, -2, &[]);
    assert_eq!(ancestral(&mut bed, OLD_0, 0, &[7; 60]), (0, 100));
    assert_eq!(read(&mut bed, 1), [[7; 60].as_slice(), &[0; 40]].concat());
}

#[test]
fn an_ancestor_shows_no_more_than_the_overlap() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Read { offset: OVERLAP - 10, length: 30 }, 1);
    bed.data(2, -2);
    assert_eq!(ancestral(&mut bed, PARENT_1, 0, &[7; 10]), (OBJECT / 2 - 10, 10));
    assert_eq!(read(&mut bed, 1), [[7; 10].as_slice(), &[0; 20]].concat());
    bed.submit(Io::Read { offset: OVERLAP, length: 5 }, 2);
    bed.data(2, -2);
    expect_no_read_of_an_ancestor(&mut bed);
    assert_eq!(read(&mut bed, 2), [0; 5]);
}

fn expect_no_read_of_an_ancestor(bed: &mut Bed) {
    assert!(bed.is_quiet(), "{:?}", bed.script.asked);
}

#[test]
fn the_first_write_to_an_object_includes_the_parents_bytes() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Write { offset: OBJECT + 100, data: vec![1; 10].into() }, 1);
    bed.submit(Io::Write { offset: OBJECT + 200, data: vec![2; 10].into() }, 2);
    assert!(matches!(bed.data(1, -2).as_slice(), [Op::Stat, Op::Write { offset: 100, .. }]));
    bed.data(1, -2);
    assert_eq!(ancestral(&mut bed, PARENT_0, 0, &[9; 4096]), (OBJECT, OBJECT));
    let (request, ticket) = bed.request("rbd_data.abc.0000000000000001");
    assert_eq!(method_of::<CopyUp>(&request).expect("a copy").data.0, [9; 4096]);
    assert!(matches!(request.ops[1].0, Op::Write { offset: 100, .. }));
    bed.reply(ticket, 0, Vec::new());
    bed.is_done(1);
    assert!(matches!(bed.data(1, 0).as_slice(), [Op::Stat, Op::Write { offset: 200, .. }]));
    bed.is_done(2);
}

#[test]
fn a_write_to_an_object_missing_in_the_map_reads_the_parent_at_once() {
    let mut facts = clone();
    facts.state.features = Features::DEFAULT;
    let mut bed = Bed::open(facts);
    bed.submit(Io::Write { offset: 100, data: vec![1; 10].into() }, 1);
    bed.take_lock();
    bed.call::<Lock>("rbd_object_map.abc", 0, Vec::new());
    bed.call::<ObjectMapLoad>("rbd_object_map.abc", 0, ObjectMap::new(10).to_bytes());
    bed.notify();
    assert_eq!(ancestral(&mut bed, PARENT_0, 0, &[9; 4096]), (0, OBJECT));
    let (request, ticket) = bed.request("rbd_object_map.abc");
    assert_eq!(method_of::<ObjectMapUpdate>(&request).expect("a change of the map").state, state::EXISTS);
    bed.reply(ticket, 0, Vec::new());
    let ops = bed.data(0, 0);
    assert!(matches!(ops.as_slice(), [Op::Call { .. }, Op::Write { offset: 100, .. }]), "{ops:?}");
    bed.is_done(1);
}

#[test]
fn a_write_that_covers_the_overlap_needs_no_copy() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Write { offset: 2 * OBJECT, data: vec![1; 2048].into() }, 1);
    assert!(matches!(bed.data(2, 0).as_slice(), [Op::Write { offset: 0, .. }]));
    bed.is_done(1);
}

#[test]
fn zeros_of_the_parent_are_not_copied() {
    let mut bed = Bed::open(clone());
    bed.write(2, 1);
    bed.data(2, -2);
    ancestral(&mut bed, PARENT_1, 0, &[0; 2048]);
    let ops = bed.data(2, 0);
    assert!(matches!(ops.as_slice(), [Op::Create { exclusive: false }, Op::Write { .. }]), "{ops:?}");
    bed.is_done(1);
}

#[test]
fn snapshots_keep_showing_the_parents_bytes() {
    let mut facts = clone();
    facts.state.snap_context = SnapContext { seq: 5, snaps: vec![5] };
    let mut bed = Bed::open(facts);
    bed.submit(Io::Write { offset: 0, data: vec![1; 4096].into() }, 1);
    assert!(matches!(bed.data(0, -2).as_slice(), [Op::Stat, Op::Write { .. }]));
    ancestral(&mut bed, PARENT_0, 0, &[9; 4096]);
    let (request, ticket) = bed.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.ops.len(), 1);
    assert_eq!(request.snap_context, SnapContext::default(), "it becomes the oldest version");
    bed.reply(ticket, 0, Vec::new());
    let (request, ticket) = bed.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context.snaps, [5]);
    assert!(matches!(request.ops[1].0, Op::Write { .. }));
    bed.reply(ticket, 0, Vec::new());
    bed.is_done(1);
}

#[test]
fn snapshot_object_maps_are_updated_before_a_copy_up() {
    let mut facts = clone();
    facts.state.features = Features::DEFAULT;
    facts.state.snap_context = SnapContext { seq: 6, snaps: vec![6, 5] };
    let mut bed = Bed::open(facts);
    bed.write(0, 1);
    bed.take_lock();
    bed.call::<Lock>("rbd_object_map.abc", 0, Vec::new());
    let mut map = ObjectMap::new(10);
    map.set(0, state::EXISTS);
    bed.call::<ObjectMapLoad>("rbd_object_map.abc", 0, map.to_bytes());
    bed.notify();
    bed.data(0, -2);
    ancestral(&mut bed, PARENT_0, 0, &[9; 4096]);
    let newer = bed.call::<ObjectMapUpdate>("rbd_object_map.abc.0000000000000006", 0, Vec::new());
    assert_eq!((newer.start, newer.state), (0, state::EXISTS_CLEAN));
    let older = bed.call::<ObjectMapUpdate>("rbd_object_map.abc.0000000000000005", -34, Vec::new());
    assert_eq!(older.state, state::EXISTS);
    assert_eq!(bed.data(0, 0).len(), 1);
    assert!(matches!(bed.data(0, 0).as_slice(), [Op::Stat, Op::Write { .. }]));
    bed.is_done(1);
}

#[test]
fn a_zeroed_object_hides_the_parents() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Zero { offset: 0, length: OBJECT }, 1);
    let ops = bed.data(0, 0);
    assert_eq!(ops, [Op::Create { exclusive: false }, Op::Truncate { size: 0 }]);
    bed.is_done(1);
    bed.submit(Io::Zero { offset: 5 * OBJECT, length: OBJECT }, 2);
    assert_eq!(bed.data(5, 0), [Op::Delete]);
}

#[test]
fn snapshots_keep_the_parents_bytes_of_a_zeroed_object() {
    let mut facts = clone();
    facts.state.snap_context = SnapContext { seq: 5, snaps: vec![5] };
    let mut bed = Bed::open(facts);
    let cut = [Op::Stat, Op::Truncate { size: 0 }];
    bed.submit(Io::Zero { offset: 0, length: OBJECT }, 1);
    assert_eq!(bed.data(0, -2), cut);
    ancestral(&mut bed, PARENT_0, 0, &[9; 4096]);
    let (request, ticket) = bed.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context, SnapContext::default(), "it becomes the oldest version");
    bed.reply(ticket, 0, Vec::new());
    assert_eq!(bed.data(0, 0), cut);
    bed.is_done(1);
}

#[test]
fn a_flatten_is_acknowledged_after_the_last_read_of_the_parent() {
    let mut bed = Bed::open(clone());
    bed.submit(Io::Read { offset: 0, length: 3 }, 1);
    bed.data(0, -2);
    let (_, of_parent) = bed.request(PARENT_0);
    bed.state.overlap = 0;
    bed.state.parent = Default::default();
    bed.told(&Notification::HeaderUpdate, 8);
    bed.refresh();
    assert_eq!(bed.script.acknowledged, [], "the parent's snapshot may be removed after the answer");
    bed.reply(of_parent, 0, vec![vec![7; 3]]);
    assert_eq!(bed.script.acknowledged.len(), 1);
    assert_eq!(read(&mut bed, 1), [7; 3]);
}

#[test]
fn a_flattened_image_has_no_parent() {
    let mut bed = Bed::open(clone());
    bed.state.overlap = 0;
    bed.state.parent = Default::default();
    bed.image.refresh(&mut bed.script, 1);
    bed.refresh();
    bed.is_done(1);
    bed.submit(Io::Read { offset: 0, length: 3 }, 2);
    bed.data(0, -2);
    assert_eq!(read(&mut bed, 2), [0; 3]);
}

#[test]
fn a_parent_that_cannot_be_read_fails_the_request_and_nothing_is_written() {
    let mut bed = Bed::open(clone());
    bed.write(0, 1);
    bed.data(0, -2);
    ancestral(&mut bed, PARENT_0, -5, &[]);
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(_))]));
    assert!(!bed.script.asked.iter().any(|asked| matches!(asked, Wanted::Request(..))));
}
