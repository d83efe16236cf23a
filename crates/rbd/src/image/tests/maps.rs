//! The object map.

use super::script::{Harness, OBJECT, facts, method_of};
use crate::request::Io;
use onego_ceph::cls::lock::{AssertLocked, Lock, Unlock};
use onego_ceph::cls::rbd::{
    ObjectMap, ObjectMapLoad, ObjectMapResize, ObjectMapUpdate, SetFlags, SetSize, image_flag, state,
};
use onego_ceph::ops::Op;
use onego_ceph::rbd::Features;
use onego_msgr::encoding::Encode as _;

const HEADER: &str = "rbd_header.abc";
const MAP: &str = "rbd_object_map.abc";

/// Returns an image that holds the lock and a map, with a write to object 0, which exists.
fn owner() -> Harness {
    let mut harness = Harness::open(facts(Features::DEFAULT));
    harness.write(0, 1);
    harness.take_lock();
    harness.call::<Lock>(MAP, 0, Vec::new());
    let mut map = ObjectMap::new(10);
    map.set(0, state::EXISTS);
    map.set(1, state::EXISTS_CLEAN);
    harness.call::<ObjectMapLoad>(MAP, 0, map.to_bytes());
    harness.notify();
    harness.data(0, 0);
    harness.is_done(1);
    harness
}

fn update(harness: &mut Harness, result: i32) -> (u64, u8, Option<u8>) {
    let (request, ticket) = harness.request(MAP);
    assert!(method_of::<AssertLocked>(&request).is_some());
    let update = method_of::<ObjectMapUpdate>(&request).expect("a change of the map");
    harness.reply(ticket, result, Vec::new());
    assert_eq!(update.end, update.start + 1);
    (update.start, update.state, update.current)
}

#[test]
fn an_object_exists_in_the_map_before_it_exists() {
    let mut harness = owner();
    harness.write(5, 2);
    harness.write(5, 3);
    assert_eq!(update(&mut harness, 0), (5, state::EXISTS, None));
    harness.data(5, 0);
    harness.data(5, 0);
    harness.write(5, 4);
    harness.data(5, 0);
    assert!(harness.is_quiet());
}

#[test]
fn a_written_object_is_no_longer_clean() {
    let mut harness = owner();
    harness.write(1, 2);
    assert_eq!(update(&mut harness, 0), (1, state::EXISTS, None));
    harness.data(1, 0);
    harness.is_done(2);
}

#[test]
fn a_removed_object_is_pending_until_it_is_gone() {
    let mut harness = owner();
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 2);
    assert_eq!(update(&mut harness, 0), (0, state::PENDING, None));
    assert_eq!(harness.data(0, 0), [Op::Delete]);
    harness.is_done(2);
    assert_eq!(update(&mut harness, 0), (0, state::NONEXISTENT, Some(state::PENDING)));
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 3);
    harness.is_done(3);
    assert!(harness.is_quiet(), "an object that does not exist need not be removed");
}

#[test]
fn an_object_written_during_its_removal_exists() {
    let mut harness = owner();
    harness.submit(Io::Zero { offset: 0, length: OBJECT }, 2);
    update(&mut harness, 0);
    let (_, removed) = harness.request("rbd_data.abc.0000000000000000");
    harness.write(0, 3);
    assert_eq!(update(&mut harness, 0), (0, state::EXISTS, None));
    harness.reply(removed, 0, Vec::new());
    harness.data(0, 0);
    assert!(harness.is_quiet());
}

#[test]
fn a_lost_map_is_invalidated_before_the_write_goes_out() {
    let mut harness = owner();
    harness.write(5, 2);
    update(&mut harness, -5);
    harness.write(6, 3);
    let flags = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
    let marked = harness.call::<SetFlags>(HEADER, 0, Vec::new());
    assert_eq!((marked.flags, marked.mask), (flags, flags));
    harness.data(5, 0);
    harness.is_done(2);
    harness.data(6, 0);
    harness.is_done(3);
}

#[test]
fn a_damaged_map_is_invalidated_and_not_used() {
    for bytes in [vec![1, 2, 3], ObjectMap::new(9).to_bytes()] {
        let mut harness = Harness::open(facts(Features::DEFAULT));
        harness.write(0, 1);
        harness.take_lock();
        harness.call::<Lock>(MAP, 0, Vec::new());
        harness.call::<ObjectMapLoad>(MAP, 0, bytes);
        harness.call::<SetFlags>(HEADER, 0, Vec::new());
        harness.notify();
        harness.data(0, 0);
        harness.is_done(1);
    }
}

#[test]
fn the_map_is_unlocked_before_the_image() {
    let mut harness = owner();
    harness.image.unlock(harness.now, &mut harness.script, 2);
    assert_eq!(harness.call::<Unlock>(MAP, 0, Vec::new()).cookie, "");
    assert_eq!(harness.call::<Unlock>(HEADER, 0, Vec::new()).cookie, "auto 7");
    harness.notify();
    harness.is_done(2);
}

#[test]
fn the_map_is_never_smaller_than_the_image() {
    let mut harness = owner();
    harness.resize(20 * OBJECT, 2);
    let (request, ticket) = harness.request(MAP);
    assert_eq!(method_of::<ObjectMapResize>(&request).map(|resize| resize.objects), Some(20));
    harness.reply(ticket, 0, Vec::new());
    assert_eq!(harness.call::<SetSize>(HEADER, 0, Vec::new()).size, 20 * OBJECT);
    harness.state.size = 20 * OBJECT;
    harness.refresh();
    harness.is_done(2);
    harness.resize(5 * OBJECT, 3);
    harness.call::<SetSize>(HEADER, 0, Vec::new());
    let (request, ticket) = harness.request(MAP);
    assert_eq!(method_of::<ObjectMapResize>(&request).map(|resize| resize.objects), Some(5));
    harness.state.size = 5 * OBJECT;
    harness.reply(ticket, 0, Vec::new());
    harness.refresh();
    harness.is_done(3);
}
