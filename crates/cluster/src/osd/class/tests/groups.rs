//! Groups of images, and migrations.

use super::*;
use onego_ceph::cls::rbd::{
    GroupImageSpec, GroupImageStatus, GroupSnapshot, GroupSpec, ImageSnapshotSpec, MigrationSpec, feature,
    group_snapshot_state, link_state, migration_side, op_feature,
};

#[test]
fn a_directory_keeps_names_and_ids_of_groups() {
    let mut bench = Bench::new();
    let add = |name: &str, id: &str| rbd::GroupDirAdd { name: name.into(), id: id.into() };
    let list = |after: &str| rbd::GroupDirList { after: after.into(), max: 9 };
    assert_eq!(bench.call(&list("")), failed(Errno::NOENT));
    assert_eq!(bench.call(&add("", "1")), failed(Errno::INVAL));
    assert_eq!(bench.call(&add("a", "/")), failed(Errno::INVAL));
    assert_eq!(bench.call(&add("a", "1")), 0);
    assert_eq!(bench.call(&add("a", "2")), failed(Errno::EXIST));
    assert_eq!(bench.call(&add("b", "1")), failed(Errno::BADF));
    assert_eq!(bench.call(&add("b", "2")), 0);
    let rename = |from: &str, to: &str, id: &str| rbd::GroupDirRename {
        from: from.into(),
        to: to.into(),
        id: id.into(),
    };
    assert_eq!(bench.call(&rename("x", "y", "1")), failed(Errno::NOENT));
    assert_eq!(bench.call(&rename("a", "y", "2")), failed(Errno::STALE));
    assert_eq!(bench.call(&rename("a", "b", "1")), failed(Errno::EXIST));
    assert_eq!(bench.reply(&list("")).len(), 2, "a rename that fails changes nothing");
    assert_eq!(bench.call(&rename("a", "c", "1")), 0);
    assert_eq!(bench.reply(&list("b")), [("c".to_owned(), "1".to_owned())].into());
    let remove = |name: &str, id: &str| rbd::GroupDirRemove { name: name.into(), id: id.into() };
    assert_eq!(bench.call(&remove("c", "2")), failed(Errno::STALE));
    assert_eq!(bench.call(&remove("c", "1")), 0);
    assert_eq!(bench.call(&remove("c", "1")), failed(Errno::NOENT));
}

#[test]
fn a_group_has_images() {
    let mut bench = Bench::new();
    let spec = |pool, id: &str| GroupImageSpec { image_id: id.into(), pool };
    let status = |pool, id: &str, state| GroupImageStatus { spec: spec(pool, id), state };
    let set = |status| rbd::GroupImageSet { status };
    let remove = |spec| rbd::GroupImageRemove { spec };
    let list = |after, max| rbd::GroupImageList { after, max };
    assert_eq!(bench.call(&remove(spec(3, "a"))), failed(Errno::NOENT));
    assert_eq!(bench.call(&set(status(20, "a", link_state::INCOMPLETE))), 0);
    assert_eq!(bench.call(&set(status(20, "a", link_state::ATTACHED))), 0);
    assert_eq!(bench.call(&set(status(3, "b", link_state::INCOMPLETE))), 0);
    let images = [status(3, "b", link_state::INCOMPLETE), status(20, "a", link_state::ATTACHED)];
    assert_eq!(bench.reply(&list(GroupImageSpec::default(), 9)), images);
    assert_eq!(bench.reply(&list(GroupImageSpec::default(), 1)), images[..1]);
    assert_eq!(bench.reply(&list(spec(3, "b"), 9)), images[1..]);
    assert_eq!(bench.call(&remove(spec(3, "b"))), 0);
    assert_eq!(bench.reply(&list(GroupImageSpec::default(), 9)), images[1..]);
}

#[test]
fn an_image_is_in_one_group() {
    let mut bench = Bench::new();
    let group = |id: &str| GroupSpec { pool: 3, group_id: id.into() };
    let add = |id| rbd::ImageGroupAdd { group: group(id) };
    let remove = |id| rbd::ImageGroupRemove { group: group(id) };
    assert_eq!(bench.call(&add("a")), failed(Errno::NOENT), "it is no image");
    bench.call(&image(1));
    assert_eq!(bench.reply(&rbd::ImageGroupGet {}), GroupSpec::default());
    assert_eq!(bench.call(&remove("a")), failed(Errno::NOENT));
    assert_eq!(bench.call(&add("a")), 0);
    assert_eq!(bench.call(&add("a")), 0);
    assert_eq!(bench.call(&add("b")), failed(Errno::EXIST));
    assert_eq!(bench.reply(&rbd::ImageGroupGet {}), group("a"));
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), op_feature::GROUP);
    assert_eq!(bench.call(&remove("b")), failed(Errno::BADF));
    assert_eq!(bench.call(&remove("a")), 0);
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), 0);
    assert_eq!(bench.reply(&rbd::ImageGroupGet {}), GroupSpec::default());
}

#[test]
fn a_group_has_snapshots() {
    let mut bench = Bench::new();
    let snapshot = |id: &str, name: &str, state| GroupSnapshot {
        id: id.into(),
        name: name.into(),
        state,
        snaps: vec![ImageSnapshotSpec { pool: 3, image_id: "i".into(), snap: 4 }],
    };
    let set = |snapshot| rbd::GroupSnapSet { snapshot };
    let (new, done) = (group_snapshot_state::INCOMPLETE, group_snapshot_state::COMPLETE);
    assert_eq!(bench.call(&set(snapshot("", "a", new))), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(snapshot("1", "", new))), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(snapshot("1", "a", new))), 0);
    assert_eq!(bench.call(&set(snapshot("1", "a", new))), failed(Errno::EXIST));
    assert_eq!(bench.call(&set(snapshot("2", "a", done))), failed(Errno::EXIST));
    assert_eq!(bench.call(&set(snapshot("1", "a", done))), 0);
    assert_eq!(bench.call(&set(snapshot("2", "b", new))), 0);
    let get = |id: &str| rbd::GroupSnapGetById { id: id.into() };
    assert_eq!(bench.reply(&get("1")), snapshot("1", "a", done));
    assert_eq!(bench.call(&get("3")), failed(Errno::NOENT));
    let list = |after: &str, max| rbd::GroupSnapList { after: snapshot(after, "", 0), max };
    assert_eq!(bench.reply(&list("", 9)).len(), 2);
    assert_eq!(bench.reply(&list("", 1)), [snapshot("1", "a", done)]);
    assert_eq!(bench.reply(&list("1", 9)), [snapshot("2", "b", new)]);
    assert_eq!(bench.call(&rbd::GroupSnapRemove { id: "1".into() }), 0);
    assert_eq!(bench.reply(&list("", 9)), [snapshot("2", "b", new)]);
}

#[test]
fn a_migration_is_noted_on_both_sides() {
    let mut bench = Bench::new();
    let source = MigrationSpec {
        side: migration_side::SOURCE,
        pool: 3,
        image_name: "i".into(),
        image_id: "1".into(),
        snap_seqs: [(1, 2)].into(),
        overlap: 10,
        ..MigrationSpec::default()
    };
    let set = |side| rbd::MigrationSet { spec: MigrationSpec { side, ..source.clone() } };
    let get = rbd::MigrationGet {};
    assert_eq!(bench.call(&set(migration_side::SOURCE)), failed(Errno::NXIO));
    bench.call(&image(1));
    assert_eq!(bench.call(&get), failed(Errno::INVAL));
    let further = rbd::MigrationSetState { state: 2, description: "d".into() };
    assert_eq!(bench.call(&further), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(migration_side::SOURCE)), 0);
    assert_eq!(bench.call(&set(migration_side::SOURCE)), failed(Errno::EXIST));
    assert_eq!(bench.reply(&get), source);
    let features = rbd::GetFeatures { snap: NOSNAP, read_only: false };
    assert_eq!(bench.reply(&features).features, 1 | feature::MIGRATING);
    assert_eq!(bench.call(&further), 0);
    let later = MigrationSpec { state: 2, state_description: "d".into(), ..source.clone() };
    assert_eq!(bench.reply(&get), later);
    assert_eq!(bench.call(&rbd::MigrationRemove {}), 0);
    assert_eq!(bench.call(&get), failed(Errno::INVAL));
    assert_eq!(bench.reply(&features).features, 1);

    // A destination is made with the feature; a source that has it is moved already.
    let mut bench = Bench::new();
    bench.call(&image(1 | feature::MIGRATING));
    assert_eq!(bench.call(&set(migration_side::SOURCE)), failed(Errno::EXIST));
    assert_eq!(bench.call(&set(migration_side::DESTINATION)), 0);
}
