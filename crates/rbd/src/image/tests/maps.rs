//! The object map.

use super::script::{Bed, OBJECT, facts, method_of};
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
fn owner() -> Bed {
    let mut bed = Bed::open(facts(Features::DEFAULT));
    bed.write(0, 1);
    bed.take_lock();
    bed.call::<Lock>(MAP, 0, Vec::new());
    let mut map = ObjectMap::new(10);
    map.set(0, state::EXISTS);
    map.set(1, state::EXISTS_CLEAN);
    bed.call::<ObjectMapLoad>(MAP, 0, map.to_bytes());
    bed.notify();
    bed.data(0, 0);
    bed.is_done(1);
    bed
}

fn update(bed: &mut Bed, result: i32) -> (u64, u8, Option<u8>) {
    let (request, ticket) = bed.request(MAP);
    assert!(method_of::<AssertLocked>(&request).is_some());
    let update = method_of::<ObjectMapUpdate>(&request).expect("a change of the map");
    bed.reply(ticket, result, Vec::new());
    assert_eq!(update.end, update.start + 1);
    (update.start, update.state, update.current)
}

#[test]
fn an_object_exists_in_the_map_before_it_exists() {
    let mut bed = owner();
    bed.write(5, 2);
    bed.write(5, 3);
    assert_eq!(update(&mut bed, 0), (5, state::EXISTS, None));
    bed.data(5, 0);
    bed.data(5, 0);
    bed.write(5, 4);
    bed.data(5, 0);
    assert!(bed.is_quiet());
}

#[test]
fn a_written_object_is_no_longer_clean() {
    let mut bed = owner();
    bed.write(1, 2);
    assert_eq!(update(&mut bed, 0), (1, state::EXISTS, None));
    bed.data(1, 0);
    bed.is_done(2);
}

#[test]
fn a_removed_object_is_pending_until_it_is_gone() {
    let mut bed = owner();
    bed.submit(Io::Zero { offset: 0, length: OBJECT }, 2);
    assert_eq!(update(&mut bed, 0), (0, state::PENDING, None));
    assert_eq!(bed.data(0, 0), [Op::Delete]);
    bed.is_done(2);
    assert_eq!(update(&mut bed, 0), (0, state::NONEXISTENT, Some(state::PENDING)));
    bed.submit(Io::Zero { offset: 0, length: OBJECT }, 3);
    bed.is_done(3);
    assert!(bed.is_quiet(), "an object that does not exist need not be removed");
}

#[test]
fn an_object_written_during_its_removal_exists() {
    let mut bed = owner();
    bed.submit(Io::Zero { offset: 0, length: OBJECT }, 2);
    update(&mut bed, 0);
    let (_, removed) = bed.request("rbd_data.abc.0000000000000000");
    bed.write(0, 3);
    assert_eq!(update(&mut bed, 0), (0, state::EXISTS, None));
    bed.reply(removed, 0, Vec::new());
    bed.data(0, 0);
    assert!(bed.is_quiet());
}

#[test]
fn a_lost_map_is_invalidated_before_the_write_goes_out() {
    let mut bed = owner();
    bed.write(5, 2);
    update(&mut bed, -5);
    bed.write(6, 3);
    let flags = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
    let marked = bed.call::<SetFlags>(HEADER, 0, Vec::new());
    assert_eq!((marked.flags, marked.mask), (flags, flags));
    bed.data(5, 0);
    bed.is_done(2);
    bed.data(6, 0);
    bed.is_done(3);
}

#[test]
fn a_damaged_map_is_invalidated_and_not_used() {
    for bytes in [vec![1, 2, 3], ObjectMap::new(9).to_bytes()] {
        let mut bed = Bed::open(facts(Features::DEFAULT));
        bed.write(0, 1);
        bed.take_lock();
        bed.call::<Lock>(MAP, 0, Vec::new());
        bed.call::<ObjectMapLoad>(MAP, 0, bytes);
        bed.call::<SetFlags>(HEADER, 0, Vec::new());
        bed.notify();
        bed.data(0, 0);
        bed.is_done(1);
    }
}

#[test]
fn the_map_is_unlocked_before_the_image() {
    let mut bed = owner();
    bed.image.unlock(bed.now, &mut bed.script, 2);
    assert_eq!(bed.call::<Unlock>(MAP, 0, Vec::new()).cookie, "");
    assert_eq!(bed.call::<Unlock>(HEADER, 0, Vec::new()).cookie, "auto 7");
    bed.notify();
    bed.is_done(2);
}

#[test]
fn the_map_is_never_smaller_than_the_image() {
    let mut bed = owner();
    bed.resize(20 * OBJECT, 2);
    let (request, ticket) = bed.request(MAP);
    assert_eq!(method_of::<ObjectMapResize>(&request).map(|resize| resize.objects), Some(20));
    bed.reply(ticket, 0, Vec::new());
    assert_eq!(bed.call::<SetSize>(HEADER, 0, Vec::new()).size, 20 * OBJECT);
    bed.state.size = 20 * OBJECT;
    bed.refresh();
    bed.is_done(2);
    bed.resize(5 * OBJECT, 3);
    bed.call::<SetSize>(HEADER, 0, Vec::new());
    let (request, ticket) = bed.request(MAP);
    assert_eq!(method_of::<ObjectMapResize>(&request).map(|resize| resize.objects), Some(5));
    bed.state.size = 5 * OBJECT;
    bed.reply(ticket, 0, Vec::new());
    bed.refresh();
    bed.is_done(3);
}
