//! An image without features.

use super::script::{Bed, OBJECT, Wanted, facts};
use crate::error::Error;
use crate::notify::Notification;
use crate::request::{Io, Outcome};
use onego_ceph::ops::Op;
use onego_ceph::rbd::Features;

#[test]
fn a_write_goes_out_at_once_and_a_flush_waits_for_it() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.write(3, 1);
    bed.submit(Io::Flush, 2);
    assert!(bed.script.finished.is_empty());
    let ops = bed.data(3, 0);
    assert!(matches!(ops.as_slice(), [Op::Write { offset: 0, .. }]), "{ops:?}");
    let done: Vec<u32> = bed.script.finished.iter().map(|(token, _)| *token).collect();
    assert_eq!(done, [1, 2]);
}

#[test]
fn missing_objects_read_as_zeros() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.submit(Io::Read { offset: OBJECT - 10, length: 20 }, 1);
    bed.data(0, -2);
    bed.data(1, -2);
    match bed.script.finished.remove(0) {
        (1, Ok(Outcome::Data(bytes))) => assert_eq!(bytes.to_vec(), [0; 20]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn writes_wait_until_a_changed_header_is_read() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.told(&Notification::HeaderUpdate, 5);
    assert!(bed.script.acknowledged.is_empty(), "the header is not known yet");
    bed.write(0, 1);
    bed.state.size = OBJECT;
    bed.state.snap_context.seq = 9;
    bed.state.snap_context.snaps = vec![9];
    bed.refresh();
    assert_eq!(bed.script.acknowledged.len(), 1);
    assert_eq!(bed.image.view().size(), OBJECT);
    let (request, _) = bed.request("rbd_data.abc.0000000000000000");
    assert_eq!(request.snap_context.snaps, [9]);
}

#[test]
fn a_held_back_write_past_the_new_end_fails() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.told(&Notification::HeaderUpdate, 5);
    bed.write(7, 1);
    bed.state.size = OBJECT;
    bed.refresh();
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(Error::OutOfBounds { .. }))]));
    assert!(bed.is_quiet());
}

#[test]
fn an_image_with_unknown_features_rejects_writes() {
    let mut bed = Bed::open(facts(Features::LAYERING.with(Features::JOURNALING)));
    bed.write(0, 1);
    let refused = Error::Features(Features::JOURNALING);
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(error))] if *error == refused));
}

#[test]
fn a_blocklisted_client_fails_all_requests() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.write(0, 1);
    bed.write(1, 2);
    bed.data(0, -108);
    bed.submit(Io::Read { offset: 0, length: 1 }, 3);
    bed.data(1, -108);
    assert_eq!(bed.script.finished.len(), 3);
    assert!(bed.script.finished.iter().all(|(_, result)| matches!(result, Err(Error::Blocklisted))));
    assert!(bed.is_quiet());
}

#[test]
fn an_image_closes_once_nothing_is_in_flight() {
    let mut bed = Bed::open(facts(Features::LAYERING));
    bed.write(0, 1);
    bed.image.close(bed.now, &mut bed.script, Some(2));
    bed.data(0, 0);
    bed.is_done(1);
    let Some(Wanted::Unwatch(ticket)) = bed.script.asked.pop_front() else { panic!("it is not unwatched") };
    bed.complete(ticket, Ok(onego_ceph::client::Outcome::Unwatched));
    bed.is_done(2);
    assert!(bed.image.is_over());
}
