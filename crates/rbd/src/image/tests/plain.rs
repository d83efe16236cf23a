//! An image without features.

use super::script::{Harness, OBJECT, Wanted, facts};
use crate::error::Error;
use crate::notify::Notification;
use crate::request::{Io, Outcome};
use onego_ceph::ops::Op;
use onego_ceph::rbd::Features;

#[test]
fn a_write_goes_out_at_once_and_a_flush_waits_for_it() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.write(3, 1);
    harness.submit(Io::Flush, 2);
    assert!(harness.script.finished.is_empty());
    let ops = harness.data(3, 0);
    assert!(matches!(ops.as_slice(), [Op::Write { offset: 0, .. }]), "{ops:?}");
    let done: Vec<u32> = harness.script.finished.iter().map(|(token, _)| *token).collect();
    assert_eq!(done, [1, 2]);
}

#[test]
fn missing_objects_read_as_zeros() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.submit(Io::Read { offset: OBJECT - 10, length: 20 }, 1);
    harness.data(0, -2);
    harness.data(1, -2);
    match harness.script.finished.remove(0) {
        (1, Ok(Outcome::Data(bytes))) => assert_eq!(bytes.to_vec(), [0; 20]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn writes_wait_until_a_changed_header_is_read() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.told(&Notification::HeaderUpdate, 5);
    assert!(harness.script.acknowledged.is_empty(), "the header is not known yet");
    harness.write(0, 1);
    harness.state.size = OBJECT;
    harness.state.snap_context.seq = 9;
    harness.state.snap_context.snaps = vec![9];
    harness.refresh();
    assert_eq!(harness.script.acknowledged.len(), 1);
    assert_eq!(harness.image.view().size(), OBJECT);
    let (request, _) = harness.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context.snaps, [9]);
}

#[test]
fn a_held_back_write_past_the_new_end_fails() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.told(&Notification::HeaderUpdate, 5);
    harness.write(7, 1);
    harness.state.size = OBJECT;
    harness.refresh();
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(Error::OutOfBounds { .. }))]));
    assert!(harness.is_quiet());
}

#[test]
fn an_image_with_unknown_features_rejects_writes() {
    let mut harness = Harness::open(facts(Features::LAYERING.with(Features::JOURNALING)));
    harness.write(0, 1);
    let refused = Error::Features(Features::JOURNALING);
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(error))] if *error == refused));
}

#[test]
fn a_blocklisted_client_fails_all_requests() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.write(0, 1);
    harness.write(1, 2);
    harness.data(0, -108);
    harness.submit(Io::Read { offset: 0, length: 1 }, 3);
    harness.data(1, -108);
    assert_eq!(harness.script.finished.len(), 3);
    assert!(harness.script.finished.iter().all(|(_, result)| matches!(result, Err(Error::Blocklisted))));
    assert!(harness.is_quiet());
}

#[test]
fn an_image_closes_once_nothing_is_in_flight() {
    let mut harness = Harness::open(facts(Features::LAYERING));
    harness.write(0, 1);
    harness.image.close(harness.now, &mut harness.script, Some(2));
    harness.data(0, 0);
    harness.is_done(1);
    let Some(Wanted::Unwatch(ticket)) = harness.script.asked.pop_front() else {
        panic!("it is not unwatched")
    };
    harness.complete(ticket, Ok(onego_ceph::client::Outcome::Unwatched));
    harness.is_done(2);
    assert!(harness.image.is_over());
}
