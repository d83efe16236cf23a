//! What objects show at snapshots.

use super::*;
use onego_ceph::osdmap::{PoolSnap, pool_flag};
use onego_ceph::outputs::{CloneInfo, CloneInfos, Listing};
use onego_ceph::types::{HObject, SNAPDIR};
use onego_msgr::encoding::{Decode, Encode};

impl Bench {
    /// Changes the object `o`, when these snapshots exist, newest first.
    fn change(&mut self, snaps: &[u64], ops: Vec<Op>) -> i32 {
        self.change_by(snaps.first().copied().unwrap_or(0), snaps, ops)
    }

    /// The same, when `seq` is the newest snapshot that there ever was.
    pub(super) fn change_by(&mut self, seq: u64, snaps: &[u64], ops: Vec<Op>) -> i32 {
        self.ask_knowing(SnapContext { seq, snaps: snaps.to_vec() }, "o", ops).result
    }

    fn at(&mut self, snap: u64, op: Op) -> OsdOpReply {
        let mut request = self.request("o", vec![(op, 0)]);
        request.snap = snap;
        self.send(CLIENT, request)
    }

    /// What the object `o` is at a snapshot; none: it does not exist.
    pub(super) fn seen(&mut self, snap: u64) -> Option<Vec<u8>> {
        let reply = self.at(snap, read(0, 0));
        if reply.result == failed(Errno::NOENT) {
            return None;
        }
        assert_eq!(reply.result, 0);
        Some(reply.ops[0].output.to_vec())
    }

    pub(super) fn snaps(&mut self) -> CloneInfos {
        let reply = self.at(SNAPDIR, Op::ListSnaps);
        assert_eq!(reply.result, 0);
        CloneInfos::from_bytes(&reply.ops[0].output.to_vec()).unwrap()
    }

    /// The map says that these snapshots are removed.
    pub(super) fn remove_snaps(&mut self, snaps: &[u64]) {
        let removed = self.map.removed_snaps_queue.entry(POOL).or_default();
        snaps.iter().for_each(|snap| removed.insert(*snap, 1));
        self.osd.map_changed(&self.map);
    }
}

fn some(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes.to_vec())
}

#[test]
fn a_snapshot_shows_what_was_before_the_first_write_after_it() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"one")]);
    assert_eq!(bench.seen(4), some(b"one"), "nothing has changed since");
    bench.change(&[4], vec![write(0, b"two")]);
    bench.change(&[4], vec![write(1, b"W")]);
    assert_eq!(
        (bench.seen(4), bench.seen(NOSNAP), bench.seen(5)),
        (some(b"one"), some(b"tWo"), some(b"tWo"))
    );
    // Three snapshots without a change between them are one clone.
    bench.change(&[7, 6, 5, 4], vec![Op::Append { data: list(b"!") }]);
    for snap in 5..8 {
        assert_eq!(bench.seen(snap), some(b"tWo"), "{snap}");
    }
    assert_eq!(bench.seen(4), some(b"one"));
    assert_eq!(bench.seen(NOSNAP), some(b"tWo!"));
    assert_eq!(bench.seen(3), None, "no clone is for it");
}

#[test]
fn an_object_is_at_no_snapshot_from_before_it_was_made() {
    let mut bench = Bench::new();
    bench.change(&[4], vec![write(0, b"one")]);
    assert_eq!((bench.seen(4), bench.seen(5)), (None, some(b"one")));
    bench.change(&[6, 4], vec![write(0, b"two")]);
    assert_eq!((bench.seen(4), bench.seen(5), bench.seen(6)), (None, None, some(b"one")));
    let infos = bench.snaps();
    assert_eq!((infos.clones[0].id, infos.clones[0].snaps.clone(), infos.seq), (6, vec![6], 6));
}

#[test]
fn attributes_and_maps_are_those_of_the_snapshot() {
    let mut bench = Bench::new();
    let set = |value: &[u8]| {
        let entries = [(b"k".to_vec(), list(value))].into();
        vec![Op::SetXattr { name: "x".into(), value: list(value) }, Op::OmapSetVals { entries }]
    };
    bench.change(&[], set(b"1"));
    bench.change(&[2], set(b"2"));
    let xattr =
        |bench: &mut Bench, snap| bench.at(snap, Op::GetXattr { name: "x".into() }).ops[0].output.to_vec();
    assert_eq!((xattr(&mut bench, 2), xattr(&mut bench, NOSNAP)), (b"1".to_vec(), b"2".to_vec()));
    let keys = [b"k".to_vec()].into();
    let value = bench.at(2, Op::OmapGetValsByKeys { keys }).ops[0].output.to_vec();
    assert_eq!(value.last(), Some(&b'1'));
}

#[test]
fn what_a_request_that_changes_nothing_would_keep_is_not_kept() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"one")]);
    let fails = vec![write(0, b"two"), Op::CmpExt { offset: 0, data: list(b"x") }];
    assert!(bench.change(&[3], fails) < 0);
    let reads = vec![Op::OmapGetHeader, Op::Create { exclusive: true }];
    assert_eq!(bench.change(&[3], reads), failed(Errno::EXIST));
    assert_eq!(
        bench.change(
            &[3],
            vec![Op::Watch { cookie: 9, op: onego_ceph::ops::WatchOp::Unwatch, timeout: 0, generation: 0 }]
        ),
        0
    );
    assert_eq!((bench.snaps().clones.len(), bench.snaps().seq), (1, 0));
    assert_eq!(bench.osd.usage().objects, 1);
}

#[test]
fn an_object_that_is_deleted_stays_for_its_snapshots_alone() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"one")]);
    assert_eq!(bench.change(&[2], vec![Op::Delete]), 0);
    assert_eq!((bench.seen(2), bench.seen(NOSNAP), bench.seen(3)), (some(b"one"), None, None));
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    assert_eq!(bench.change(&[2], vec![Op::Delete]), failed(Errno::NOENT));
    let infos = bench.snaps();
    assert_eq!(infos.clones, [CloneInfo { id: 2, snaps: vec![2], overlap: vec![], size: 3 }]);
    assert_eq!(bench.change(&[5, 2], vec![Op::Create { exclusive: true }, write(0, b"new")]), 0);
    assert_eq!((bench.seen(2), bench.seen(5), bench.seen(NOSNAP)), (some(b"one"), None, some(b"new")));
    assert_eq!(bench.osd.pool_usage(POOL).clones, 1);
}

#[test]
fn clones_share_what_has_not_changed_since() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, &[1; 1000])]);
    bench.change(&[2], vec![write(100, &[2; 50])]);
    bench.change(&[2], vec![Op::Zero { offset: 300, length: 10 }]);
    bench.change(&[4, 2], vec![Op::Truncate { size: 800 }]);
    bench.change(&[4, 2], vec![write(790, &[3; 100])]);
    let head = CloneInfo { id: NOSNAP, size: 890, ..CloneInfo::default() };
    let old =
        CloneInfo { id: 2, snaps: vec![2], overlap: vec![(0, 100), (150, 150), (310, 690)], size: 1000 };
    let new = CloneInfo { id: 4, snaps: vec![4], overlap: vec![(0, 790)], size: 1000 };
    assert_eq!(bench.snaps(), CloneInfos { clones: vec![old, new, head], seq: 4 });
    let usage = bench.osd.pool_usage(POOL);
    assert_eq!((usage.objects, usage.clones, usage.bytes), (3, 2, 890 + 60 + 210));
}

#[test]
fn an_object_goes_back_to_a_snapshot() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"first text")]);
    bench.change(&[2], vec![write(0, b"FIRST")]);
    bench.change(&[4, 2], vec![Op::WriteFull { data: list(b"other") }]);
    assert_eq!(bench.change(&[4, 2], vec![Op::Rollback { snap: 2 }]), 0);
    assert_eq!(bench.seen(NOSNAP), some(b"first text"));
    assert_eq!((bench.seen(2), bench.seen(4)), (some(b"first text"), some(b"FIRST text")));
    // To what is not a snapshot any more, or not yet, but nothing is kept since: it is that already.
    assert_eq!(bench.change(&[4, 2], vec![Op::Rollback { snap: 9 }]), 0);
    assert_eq!(bench.seen(NOSNAP), some(b"first text"));
    // To a snapshot that it was not there at.
    assert_eq!(bench.change(&[4, 2], vec![Op::Rollback { snap: 3 }]), 0);
    assert_eq!(bench.seen(NOSNAP), None);
    assert_eq!(bench.change(&[4, 2], vec![Op::Rollback { snap: 3 }]), 0, "it is gone already");
    assert_eq!(bench.change(&[4, 2], vec![Op::Rollback { snap: 4 }]), 0);
    assert_eq!(bench.seen(NOSNAP), some(b"FIRST text"), "it is there again");
}

#[test]
fn an_object_that_is_watched_does_not_go_back_to_nothing() {
    let mut bench = Bench::new();
    bench.change(&[3], vec![write(0, b"x")]);
    let watch = Op::Watch { cookie: 9, op: onego_ceph::ops::WatchOp::Watch, timeout: 30, generation: 0 };
    assert_eq!(bench.run(watch), 0);
    assert_eq!(bench.change(&[3], vec![Op::Rollback { snap: 3 }]), failed(Errno::BUSY));
    assert_eq!(bench.seen(NOSNAP), some(b"x"));
}

#[test]
fn snapshots_out_of_order_and_writes_to_snapshots_are_refused() {
    let mut bench = Bench::new();
    for (seq, snaps) in [(4, vec![5]), (5, vec![3, 5]), (5, vec![5, 5]), (u64::MAX - 1, vec![])] {
        assert_eq!(bench.change_by(seq, &snaps, vec![write(0, b"x")]), failed(Errno::INVAL), "{snaps:?}");
    }
    assert_eq!(bench.change_by(5, &[3], vec![write(0, b"x")]), 0);
    for snap in [3, SNAPDIR] {
        assert_eq!(bench.at(snap, write(0, b"x")).result, failed(Errno::INVAL));
    }
}

#[test]
fn a_write_that_must_know_the_newest_snapshot_says_that_it_does_not() {
    let mut bench = Bench::new();
    bench.change(&[5], vec![write(0, b"x")]);
    for (seq, expected) in [(4, failed(Errno::OLDSNAPC)), (5, 0)] {
        let mut request = bench.request("o", vec![(write(0, b"y"), 0)]);
        request.snap_context = SnapContext { seq, snaps: vec![] };
        request.flags |= flag::ORDER_SNAP;
        assert_eq!(bench.send(CLIENT, request).result, expected);
    }
    assert_eq!(bench.change(&[4], vec![write(0, b"z")]), 0, "others may not know");
    assert_eq!((bench.seen(4), bench.snaps().seq), (None, 5));
}

#[test]
fn snapshots_that_were_removed_are_gone_at_once_and_never_made_again() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"one")]);
    bench.change(&[2], vec![write(0, b"two")]);
    bench.remove_snaps(&[2, 3]);
    assert_eq!(bench.seen(2), None);
    bench.change_by(3, &[3, 2], vec![write(0, b"six")]);
    assert_eq!((bench.snaps().clones.len(), bench.snaps().seq), (2, 3));
    bench.change_by(4, &[4, 3, 2], vec![write(0, b"ten")]);
    assert_eq!(bench.snaps().clones[1].snaps, [4]);
}

#[test]
fn a_pool_may_have_snapshots_of_its_own() {
    let mut bench = Bench::new();
    bench.run(write(0, b"one"));
    let pool = bench.map.pools.get_mut(&POOL).unwrap();
    pool.flags |= pool_flag::POOL_SNAPS;
    pool.snap_seq = 1;
    pool.snaps.insert(1, PoolSnap { id: 1, stamp: Utime::default(), name: "first".into() });
    bench.osd.map_changed(&bench.map);
    bench.run(write(0, b"two"));
    assert_eq!((bench.seen(1), bench.seen(NOSNAP)), (some(b"one"), some(b"two")));
    let mut request = bench.request("o", vec![(write(0, b"six"), 0)]);
    request.snap_context = SnapContext { seq: 7, snaps: vec![7] };
    request.flags |= flag::ENFORCE_SNAPC;
    assert_eq!(bench.send(CLIENT, request).result, 0);
    assert_eq!(bench.seen(7), some(b"two"));
}

#[test]
fn listings_show_what_exists_at_their_snapshot() {
    let mut bench = Bench::new();
    bench.change(&[], vec![write(0, b"x")]);
    bench.change(&[3], vec![Op::Delete]);
    let listed = |bench: &mut Bench, snap| {
        let (pg, _) = Bench::place("o");
        let cursor = HObject::min().to_bytes().into();
        let mut request = bench.request("o", vec![(Op::PgNls { count: 9, epoch: 7, cursor }, 0)]);
        (request.pg, request.snap) = (SpgId::whole(pg), snap);
        let output = bench.send(CLIENT, request).ops[0].output.to_vec();
        Listing::from_bytes(&output).unwrap().objects.len()
    };
    assert_eq!((listed(&mut bench, NOSNAP), listed(&mut bench, 3), listed(&mut bench, 4)), (0, 1, 0));
}

#[test]
fn an_object_without_snapshots_lists_its_head() {
    let mut bench = Bench::new();
    bench.run(write(0, b"data"));
    let head = CloneInfo { id: NOSNAP, size: 4, ..CloneInfo::default() };
    assert_eq!(bench.snaps(), CloneInfos { clones: vec![head], seq: 0 });
}
