//! Images of format 1.

use super::script::{Bed, OBJECT, facts};
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
    let mut bed = Bed::open(old_facts());
    bed.state.snap_context.seq = 9;
    bed.state.snap_context.snaps = vec![9, 4];
    bed.told(&Notification::HeaderUpdate, 5);
    bed.write(3, 1);
    bed.refresh();
    assert_eq!(bed.script.acknowledged.len(), 1);
    let (request, ticket) = bed.request("rb.0.1.2.000000000003");
    assert_eq!((request.snap_context.seq, request.snap_context.snaps), (9, vec![9, 4]));
    bed.reply(ticket, 0, Vec::new());
    bed.is_done(1);
}

#[test]
fn a_resize_requires_an_existing_header() {
    let mut bed = Bed::open(old_facts());
    bed.resize(4 * OBJECT, 1);
    let (request, ticket) = bed.request(HEADER);
    let ops: Vec<Op> = request.ops.into_iter().map(|(op, _)| op).collect();
    let [Op::Stat, Op::Write { offset: 80, data }] = ops.as_slice() else { panic!("{ops:?}") };
    assert_eq!(data.to_vec(), (4 * OBJECT).to_le_bytes());
    bed.reply(ticket, 0, vec![Vec::new(); 2]);
    bed.state.size = 4 * OBJECT;
    bed.refresh();
    bed.is_done(1);
    assert_eq!(bed.image.view().size(), 4 * OBJECT);
}

#[test]
fn a_snapshot_missing_in_the_header_is_gone() {
    let mut facts = old_facts();
    facts.data.snap = 4;
    facts.state.snap_context.seq = 4;
    facts.state.snap_context.snaps = vec![4];
    let mut bed = Bed::open(facts);
    assert_eq!(bed.image.view().size(), 5 * OBJECT);
    bed.state.snap_context.snaps.clear();
    bed.told(&Notification::HeaderUpdate, 5);
    bed.refresh();
    bed.submit(Io::Read { offset: 0, length: 1 }, 1);
    assert!(matches!(bed.script.finished.as_slice(), [(1, Err(Error::Removed))]));
}

#[test]
fn an_invalid_header_changes_nothing() {
    let mut bed = Bed::open(old_facts());
    for bytes in [vec![], vec![0; 200]] {
        bed.image.refresh(&mut bed.script, 1);
        let (_, ticket) = bed.request(HEADER);
        bed.reply(ticket, 0, vec![bytes]);
        assert!(matches!(bed.script.finished.pop(), Some((1, Err(Error::Client(_))))));
        assert_eq!(bed.image.view().size(), 10 * OBJECT);
    }
}
