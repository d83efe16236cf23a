//! Images of format 1.

use super::script::{Harness, OBJECT, facts};
use crate::error::Error;
use crate::facts::ImageFacts;
use crate::notify::Notification;
use crate::request::Io;
use onego_ceph::client::WatchTarget;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::Op;
use onego_ceph::rbd::{Features, ImageFormat};

const HEADER: &str = "disk.rbd";

fn old_facts() -> ImageFacts {
    let mut facts = facts(Features::NONE);
    facts.header = WatchTarget { object: ObjectName::from(HEADER), ..facts.header };
    facts.format = ImageFormat::V1;
    facts.data.names = ImageFormat::V1.data_names("rb.0.1.2");
    facts
}

#[test]
fn writes_go_to_the_data_objects_with_the_headers_snapshots() {
    let mut harness = Harness::open(old_facts());
    harness.state.snap_context.seq = 9;
    harness.state.snap_context.snaps = vec![9, 4];
    harness.told(&Notification::HeaderUpdate, 5);
    harness.write(3, 1);
    harness.refresh();
    assert_eq!(harness.script.acknowledged.len(), 1);
    let (request, ticket) = harness.request("rb.0.1.2.000000000003");
    assert_eq!((request.snap_context.seq, request.snap_context.snaps), (9, vec![9, 4]));
    harness.reply(ticket, 0, Vec::new());
    harness.is_done(1);
}

#[test]
fn a_resize_requires_an_existing_header() {
    let mut harness = Harness::open(old_facts());
    harness.resize(4 * OBJECT, 1);
    let (request, ticket) = harness.request(HEADER);
    let ops: Vec<Op> = request.ops.into_iter().map(|(op, _)| op).collect();
    let [Op::Stat, Op::Write { offset: 80, data }] = ops.as_slice() else { panic!("{ops:?}") };
    assert_eq!(data.to_vec(), (4 * OBJECT).to_le_bytes());
    harness.reply(ticket, 0, vec![Vec::new(); 2]);
    harness.state.size = 4 * OBJECT;
    harness.refresh();
    harness.is_done(1);
    assert_eq!(harness.image.view().size(), 4 * OBJECT);
}

#[test]
fn a_snapshot_missing_in_the_header_is_gone() {
    let mut facts = old_facts();
    facts.data.snap = 4;
    facts.state.snap_context.seq = 4;
    facts.state.snap_context.snaps = vec![4];
    let mut harness = Harness::open(facts);
    assert_eq!(harness.image.view().size(), 5 * OBJECT);
    harness.state.snap_context.snaps.clear();
    harness.told(&Notification::HeaderUpdate, 5);
    harness.refresh();
    harness.submit(Io::Read { offset: 0, length: 1 }, 1);
    assert!(matches!(harness.script.finished.as_slice(), [(1, Err(Error::Removed))]));
}

#[test]
fn an_invalid_header_changes_nothing() {
    let mut harness = Harness::open(old_facts());
    for bytes in [vec![], vec![0; 200]] {
        harness.image.refresh(&mut harness.script, 1);
        let (_, ticket) = harness.request(HEADER);
        harness.reply(ticket, 0, vec![bytes]);
        assert!(matches!(harness.script.finished.pop(), Some((1, Err(Error::Client(_))))));
        assert_eq!(harness.image.view().size(), 10 * OBJECT);
    }
}
