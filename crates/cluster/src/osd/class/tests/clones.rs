//! Clones: the ties between two images, and data that moves from one to the other.

use super::snapshots::{add, protect, stored};
use super::*;
use onego_ceph::cls::rbd::{ChildImageSpec, ParentImageSpec, feature, op_feature, snapc_seq};

fn parent(snap: u64) -> ParentImageSpec {
    ParentImageSpec { pool: 3, namespace: "ns".into(), image_id: "p".into(), snap }
}

fn attach(snap: u64, overlap: u64) -> rbd::ParentAttach {
    rbd::ParentAttach { parent: parent(snap), overlap, reattach: false }
}

fn child(pool: i64, id: &str) -> ChildImageSpec {
    ChildImageSpec { pool, image_id: id.into(), namespace: String::new() }
}

#[test]
fn a_clone_shows_of_its_parent_what_both_have() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&attach(4, 10)), failed(Errno::NOENT));
    bench.call(&image(0));
    assert_eq!(bench.call(&attach(4, 10)), failed(Errno::NOEXEC));
    assert_eq!(bench.call(&rbd::ParentDetach {}), failed(Errno::NOEXEC));
    let mut bench = Bench::new();
    bench.call(&image(feature::LAYERING));
    assert_eq!(bench.call(&rbd::ParentDetach {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&attach(4, 0)), failed(Errno::INVAL));
    assert_eq!(bench.call(&attach(NOSNAP, 10)), failed(Errno::INVAL));
    assert_eq!(bench.call(&attach(4, 2 << 20)), 0);
    let overlap = rbd::ParentOverlapGet { snap: NOSNAP };
    assert_eq!(bench.reply(&rbd::ParentGet {}), parent(4));
    assert_eq!(bench.reply(&overlap), Some(1 << 20));
    assert_eq!(bench.call(&attach(4, 10)), failed(Errno::EXIST));
    assert_eq!(bench.call(&rbd::ParentAttach { reattach: true, ..attach(5, 10) }), 0);
    assert_eq!(bench.reply(&rbd::ParentGet {}), parent(5));
    assert_eq!(bench.reply(&overlap), Some(10));
    // Programs before Nautilus know no namespaces.
    assert_eq!(bench.call(&rbd::GetParent { snap: NOSNAP }), failed(Errno::XDEV));
    assert_eq!(bench.call(&rbd::RemoveParent {}), failed(Errno::XDEV));
    // What shows through gets less with the image, and does not grow again.
    for (size, shown) in [(5, 5), (20, 5)] {
        bench.call(&rbd::SetSize { size });
        assert_eq!(bench.reply(&overlap), Some(shown));
    }
    assert_eq!(bench.call(&rbd::ParentDetach {}), 0);
    assert_eq!(bench.reply(&rbd::ParentGet {}).pool, -1);
    assert_eq!(bench.reply(&overlap), None);
}

#[test]
fn snapshots_need_the_parent_after_the_image_does_not() {
    for deep in [false, true] {
        let mut bench = Bench::new();
        bench.call(&image(feature::LAYERING | if deep { feature::DEEP_FLATTEN } else { 0 }));
        bench.call(&attach(4, 100));
        let set = rbd::OpFeaturesSet { features: op_feature::CLONE_CHILD, mask: op_feature::CLONE_CHILD };
        bench.call(&set);
        bench.call(&add("a", 1));
        assert_eq!(bench.reply(&rbd::ParentOverlapGet { snap: 1 }), Some(100));
        assert_eq!(bench.call(&rbd::ParentDetach {}), 0);
        assert_eq!(bench.call(&rbd::ParentDetach {}), failed(Errno::NOENT));
        let (of_image, of_snapshot) =
            (rbd::ParentOverlapGet { snap: NOSNAP }, rbd::ParentOverlapGet { snap: 1 });
        assert_eq!(bench.reply(&of_image), None);
        if deep {
            assert_eq!(bench.reply(&of_snapshot), None);
            assert_eq!(bench.reply(&rbd::ParentGet {}).pool, -1);
            assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), 0);
            continue;
        }
        assert_eq!(bench.reply(&of_snapshot), Some(100));
        assert_eq!(bench.reply(&rbd::ParentGet {}), parent(4));
        assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::CLONE_CHILD);
        // Another parent has no place here; the same may come back.
        assert_eq!(bench.call(&attach(5, 100)), failed(Errno::EXIST));
        assert_eq!(bench.call(&attach(4, 100)), 0);
        assert_eq!(bench.call(&rbd::ParentDetach {}), 0);
        assert_eq!(bench.call(&rbd::SnapshotRemove { snap: 1 }), 0);
        assert_eq!(bench.reply(&rbd::ParentGet {}).pool, -1);
        assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), 0);
    }
}

#[test]
fn programs_before_nautilus_tie_clones_too() {
    let mut bench = Bench::new();
    bench.call(&image(feature::LAYERING));
    let set = rbd::SetParent { pool: 3, image_id: "p".into(), snap: 4, overlap: 10 };
    assert_eq!(bench.call(&set), 0);
    assert_eq!(bench.call(&set), failed(Errno::EXIST));
    bench.call(&add("a", 1));
    bench.call(&rbd::SetSize { size: 7 });
    let overlaps = [NOSNAP, 1].map(|snap| bench.reply(&rbd::GetParent { snap }).overlap);
    assert_eq!(overlaps, [7, 10]);
    assert_eq!(bench.call(&rbd::RemoveParent {}), 0);
    assert_eq!(bench.reply(&rbd::GetParent { snap: 1 }).pool, 3);
    assert_eq!(bench.call(&rbd::RemoveParent {}), failed(Errno::NOENT));
}

#[test]
fn a_snapshot_counts_its_clones() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    bench.call(&add("a", 1));
    let attach = |child| rbd::ChildAttach { snap: 1, child };
    let detach = |child| rbd::ChildDetach { snap: 1, child };
    assert_eq!(bench.call(&rbd::ChildAttach { snap: 2, child: child(1, "x") }), failed(Errno::NOENT));
    assert_eq!(bench.call(&detach(child(1, "x"))), failed(Errno::NOENT));
    assert_eq!(bench.call(&rbd::ChildrenList { snap: 1 }), failed(Errno::NOENT));
    assert_eq!(bench.call(&attach(child(2, "a"))), 0);
    assert_eq!(bench.call(&attach(child(1, "x"))), 0);
    assert_eq!(bench.call(&attach(child(1, "x"))), failed(Errno::EXIST));
    assert_eq!(bench.reply(&rbd::ChildrenList { snap: 1 }), [child(1, "x"), child(2, "a")]);
    assert_eq!(bench.reply(&rbd::SnapshotGet { snap: 1 }).child_count, 2);
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::CLONE_PARENT);
    assert_eq!(bench.call(&rbd::SnapshotRemove { snap: 1 }), failed(Errno::BUSY));
    assert_eq!(bench.call(&rbd::SnapshotTrashAdd { snap: 1 }), 0);
    assert_eq!(bench.call(&attach(child(1, "y"))), failed(Errno::NOENT));
    assert_eq!(bench.call(&detach(child(1, "x"))), 0);
    assert_eq!(bench.call(&rbd::SnapshotRemove { snap: 1 }), failed(Errno::BUSY));
    assert_eq!(bench.call(&detach(child(2, "a"))), 0);
    assert_eq!(bench.call(&rbd::ChildrenList { snap: 1 }), failed(Errno::NOENT));
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::SNAP_TRASH);
    assert_eq!(bench.call(&rbd::SnapshotRemove { snap: 1 }), 0);
    assert_eq!(stored::<u64>(&mut bench, "features"), Some(1));
}

#[test]
fn a_pool_lists_clones_of_protected_snapshots() {
    let mut bench = Bench::new();
    let add = |child: &str| rbd::AddChild { pool: 3, image_id: "p".into(), snap: 4, child: child.into() };
    let remove =
        |child: &str| rbd::RemoveChild { pool: 3, image_id: "p".into(), snap: 4, child: child.into() };
    let children = rbd::GetChildren { pool: 3, image_id: "p".into(), snap: 4 };
    assert_eq!(bench.call(&remove("b")), failed(Errno::NOENT));
    assert_eq!(bench.call(&add("b")), 0);
    assert_eq!(bench.call(&add("a")), 0);
    assert_eq!(bench.call(&add("a")), failed(Errno::EXIST));
    assert_eq!(bench.reply(&children), ["a", "b"]);
    assert_eq!(bench.call(&rbd::GetChildren { snap: 5, ..children.clone() }), failed(Errno::NOENT));
    assert_eq!(bench.call(&remove("c")), failed(Errno::NOENT));
    assert_eq!(bench.call(&remove("b")), 0);
    assert_eq!(bench.reply(&children), ["a"]);
    assert_eq!(bench.call(&remove("a")), 0);
    assert_eq!(bench.call(&children), failed(Errno::NOENT));
}

#[test]
fn copying_up_fills_an_object_that_is_not_there() {
    let mut bench = Bench::new();
    let copyup = |byte| rbd::CopyUp { data: rbd::Rest(vec![byte; 3]) };
    assert_eq!(bench.call(&copyup(1)), 0);
    assert_eq!(bench.call(&copyup(2)), 0);
    assert_eq!(bench.get(Op::Read { offset: 0, length: 0 }), [1; 3]);
}

#[test]
fn copying_up_leaves_out_what_the_parent_has_not() {
    let mut bench = Bench::new();
    let copyup = |extents: &[(u64, u64)], data: &[u8]| rbd::SparseCopyUp {
        extents: extents.iter().copied().collect(),
        data: data.to_vec(),
    };
    assert_eq!(bench.call(&copyup(&[(0, u64::MAX)], b"x")), failed(Errno::INVAL));
    assert_eq!(bench.call(&copyup(&[(u64::MAX, 1)], b"x")), failed(Errno::FBIG));
    assert_eq!(bench.call(&copyup(&[(128 << 20, 1)], b"x")), failed(Errno::FBIG));
    assert_eq!(bench.call(&copyup(&[(0, 2), (4, 2)], b"abc")), failed(Errno::INVAL));
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT), "nothing of it was done");
    assert_eq!(bench.call(&copyup(&[(1, 2), (6, 1)], b"abc")), 0);
    assert_eq!(bench.get(Op::Read { offset: 0, length: 0 }), b"\0ab\0\0\0c");
    assert_eq!(bench.call(&copyup(&[(0, 1)], b"x")), 0, "it is there");
    assert_eq!(bench.get(Op::Read { offset: 0, length: 0 }), b"\0ab\0\0\0c");
    bench.run(Op::Delete);
    assert_eq!(bench.call(&copyup(&[], b"")), 0);
    assert_eq!(bench.run(Op::Stat), 0);
}

#[test]
fn a_writer_may_insist_on_the_age_of_its_snapshots() {
    let mut bench = Bench::new();
    let assert = |seq, state| rbd::AssertSnapcSeq { seq, state };
    assert_eq!(bench.call(&assert(0, snapc_seq::NEWER)), 0);
    assert_eq!(bench.call(&assert(9, snapc_seq::NOT_NEWER)), failed(Errno::RANGE));
    bench.run(Op::Create { exclusive: true });
    assert_eq!(bench.call(&assert(0, snapc_seq::NEWER)), failed(Errno::RANGE));
    assert_eq!(bench.call(&assert(0, snapc_seq::NOT_NEWER)), 0);
    assert_eq!(bench.call(&assert(1, snapc_seq::NEWER)), 0);
    assert_eq!(bench.call(&assert(1, snapc_seq::NOT_NEWER)), failed(Errno::RANGE));
    assert_eq!(bench.call(&assert(1, 2)), failed(Errno::OPNOTSUPP));
}

#[test]
fn an_unprotected_snapshot_may_have_clones_that_it_counts() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    bench.call(&add("a", 1));
    assert_eq!(bench.call(&rbd::ChildAttach { snap: 1, child: child(1, "x") }), 0);
    assert_eq!(bench.call(&protect(1, 2)), 0);
    assert_eq!(bench.call(&protect(1, 0)), 0);
    assert_eq!(bench.call(&rbd::SnapshotRemove { snap: 1 }), failed(Errno::BUSY));
}
