//! Snapshots of images.

use super::*;
use onego_ceph::cls::rbd::{Snapshot, SnapshotNamespace, feature, op_feature, protection};

pub(super) fn add(name: &str, snap: u64) -> rbd::SnapshotAdd {
    rbd::SnapshotAdd { name: name.into(), snap, namespace: SnapshotNamespace::User }
}

fn remove(snap: u64) -> rbd::SnapshotRemove {
    rbd::SnapshotRemove { snap }
}

pub(super) fn protect(snap: u64, status: u8) -> rbd::SetProtectionStatus {
    rbd::SetProtectionStatus { snap, status }
}

/// A key of the header, decoded.
pub(super) fn stored<T: Decode>(bench: &mut Bench, key: &str) -> Option<T> {
    let output = bench.get(Op::OmapGetValsByKeys { keys: [key.as_bytes().to_vec()].into() });
    let values = std::collections::BTreeMap::<Vec<u8>, Vec<u8>>::from_bytes(&output).expect("it is a map");
    values.values().next().map(|bytes| T::from_bytes(bytes).expect("it decodes"))
}

#[test]
fn a_snapshot_is_what_the_image_was() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&add("a", 4)), failed(Errno::NOENT));
    bench.call(&image(1));
    assert_eq!(bench.call(&rbd::SetFlags { flags: 1, mask: 1, snap: NOSNAP }), 0);
    assert_eq!(bench.call(&add("a", 4)), 0);
    assert_eq!(bench.call(&rbd::SetFlags { flags: 0, mask: 1, snap: NOSNAP }), 0);
    assert_eq!(bench.call(&rbd::SetSize { size: 9 }), 0);
    let info = bench.reply(&rbd::SnapshotGet { snap: 4 });
    assert_eq!((info.id, info.name.as_str(), info.image_size, info.child_count), (4, "a", 1 << 20, 0));
    assert_eq!(info.namespace, SnapshotNamespace::User);
    assert_eq!(bench.reply(&rbd::GetSize { snap: 4 }).size, 1 << 20);
    assert_eq!(bench.reply(&rbd::GetFlags { snap: 4 }), 1);
    assert_eq!(bench.reply(&rbd::GetFlags { snap: NOSNAP }), 0);
    assert_eq!(bench.reply(&rbd::GetSnapshotName { snap: 4 }), "a");
    assert_eq!(bench.reply(&rbd::GetSnapshotTimestamp { snap: 4 }).sec, 1);
    let context = bench.reply(&rbd::GetSnapContext {});
    assert_eq!((context.seq, context.snaps), (4, vec![4]));
    assert_eq!(bench.call(&remove(4)), 0);
    assert_eq!(bench.call(&remove(4)), failed(Errno::NOENT));
    // The context stays as new as it was.
    let context = bench.reply(&rbd::GetSnapContext {});
    assert_eq!((context.seq, context.snaps), (4, vec![]));
    assert_eq!(bench.call(&rbd::SnapshotGet { snap: 4 }), failed(Errno::NOENT));
}

#[test]
fn a_snapshot_is_added_once_and_never_behind_a_newer_one() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    assert_eq!(bench.call(&add("a", 4)), 0);
    assert_eq!(bench.call(&add("b", 3)), failed(Errno::STALE));
    assert_eq!(bench.call(&add("b", 4)), failed(Errno::EXIST));
    assert_eq!(bench.call(&add("a", 5)), failed(Errno::EXIST));
    assert_eq!(bench.call(&add("b", NOSNAP)), failed(Errno::INVAL));
    let group = SnapshotNamespace::Group { pool: 1, group_id: "g".into(), snapshot_id: "s".into() };
    // A name is taken for one purpose only.
    assert_eq!(bench.call(&rbd::SnapshotAdd { namespace: group.clone(), ..add("a", 5) }), 0);
    assert_eq!(bench.call(&rbd::SnapshotAdd { namespace: group, ..add("a", 6) }), failed(Errno::EXIST));
    let other = SnapshotNamespace::Other { kind: 77, content: vec![1] };
    assert_eq!(bench.call(&rbd::SnapshotAdd { namespace: other, ..add("c", 6) }), failed(Errno::INVAL));
    // Callers may give no purpose.
    let mut old = add("old", 7).call();
    if let Op::Call { input, .. } = &mut old {
        *input = input.slice(0, 4 + 3 + 8);
    }
    assert_eq!(bench.run(old), 0);
    assert_eq!(bench.reply(&rbd::GetSnapContext {}).snaps, [7, 5, 4]);
}

#[test]
fn an_image_has_no_more_snapshots_than_it_may() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: 2 }), 0);
    assert_eq!(bench.call(&add("a", 1)), 0);
    assert_eq!(bench.call(&add("b", 2)), 0);
    assert_eq!(bench.call(&add("c", 3)), failed(Errno::DQUOT));
    // What is wrong with the snapshots before is found first.
    assert_eq!(bench.call(&add("a", 3)), failed(Errno::EXIST));
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: 1 }), failed(Errno::RANGE));
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: u64::MAX }), 0);
    assert_eq!(bench.call(&add("c", 3)), 0);
}

#[test]
fn a_snapshot_is_renamed_if_it_is_a_users() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    bench.call(&add("a", 1));
    bench.call(&add("b", 2));
    let mirror = SnapshotNamespace::Trash { original_name: "x".into(), original_kind: 0 };
    bench.call(&rbd::SnapshotAdd { namespace: mirror, ..add("c", 3) });
    let rename = |snap, name: &str| rbd::SnapshotRename { snap, name: name.into() };
    assert_eq!(bench.call(&rename(1, "b")), failed(Errno::EXIST));
    assert_eq!(bench.call(&rename(9, "z")), failed(Errno::NOENT));
    assert_eq!(bench.call(&rename(3, "z")), failed(Errno::INVAL));
    assert_eq!(bench.call(&rename(1, "c")), 0);
    assert_eq!(bench.reply(&rbd::GetSnapshotName { snap: 1 }), "c");
}

#[test]
fn a_protected_snapshot_stays() {
    let mut bench = Bench::new();
    bench.call(&image(0));
    bench.call(&add("a", 1));
    assert_eq!(bench.call(&protect(1, protection::PROTECTED)), failed(Errno::NOEXEC));
    let mut bench = Bench::new();
    assert_eq!(bench.call(&protect(1, protection::PROTECTED)), failed(Errno::NOENT));
    bench.call(&image(feature::LAYERING));
    bench.call(&add("a", 1));
    assert_eq!(bench.call(&protect(NOSNAP, 2)), failed(Errno::INVAL));
    assert_eq!(bench.call(&protect(1, 3)), failed(Errno::INVAL));
    assert_eq!(bench.call(&protect(2, 2)), failed(Errno::NOENT));
    for status in [protection::PROTECTED, protection::UNPROTECTING] {
        assert_eq!(bench.call(&protect(1, status)), 0);
        assert_eq!(bench.reply(&rbd::GetProtectionStatus { snap: 1 }), status);
        assert_eq!(bench.call(&remove(1)), failed(Errno::BUSY));
        assert_eq!(bench.call(&rbd::SnapshotTrashAdd { snap: 1 }), failed(Errno::BUSY));
    }
    assert_eq!(bench.call(&protect(1, protection::UNPROTECTED)), 0);
    assert_eq!(bench.call(&remove(1)), 0);
}

#[test]
fn a_snapshot_in_the_trash_has_a_name_that_nobody_else_takes() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    bench.call(&add("a", 1));
    bench.call(&add("b", 2));
    let trash = |snap| rbd::SnapshotTrashAdd { snap };
    assert_eq!(bench.call(&trash(9)), failed(Errno::NOENT));
    assert_eq!(bench.call(&trash(1)), 0);
    assert_eq!(bench.call(&trash(1)), failed(Errno::EXIST));
    assert_eq!(bench.call(&trash(2)), 0);
    let names: Vec<String> = [1, 2]
        .map(|snap| {
            let snapshot: Snapshot = stored(&mut bench, &format!("snapshot_{snap:016x}")).unwrap();
            let original_name = if snap == 1 { "a" } else { "b" }.to_owned();
            assert_eq!(snapshot.namespace, SnapshotNamespace::Trash { original_name, original_kind: 0 });
            snapshot.name
        })
        .into();
    assert!(names[0] != names[1] && names.iter().all(|name| name.len() == 36));
    assert!(names.iter().all(|name| name.as_bytes()[14] == b'4' && b"89ab".contains(&name.as_bytes()[19])));
    assert_eq!(bench.call(&add("a", 3)), 0, "its own name is free");
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::SNAP_TRASH);
    assert_eq!(bench.call(&remove(1)), 0);
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::SNAP_TRASH);
    assert_eq!(bench.call(&remove(2)), 0);
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), 0);
}
