//! Headers of images of format 1, as clients write them.

use super::*;
use onego_ceph::cls::rbd::{Format1Header, Format1Snapshot, MigrationSpec, migration_side};
use onego_msgr::encoding::Encode as _;

fn header() -> Format1Header {
    let mut start = [0; 80];
    start[..34].copy_from_slice(Format1Header::TEXT);
    Format1Header { start, image_size: 1000, reserved: 0, snap_seq: 0, snapshots: Vec::new() }
}

/// An object with this data.
fn object(data: Vec<u8>) -> Bench {
    let mut bench = Bench::new();
    bench.run(Op::WriteFull { data: data.into() });
    bench
}

fn add(name: &str, snap: u64) -> rbd::Format1SnapshotAdd {
    rbd::Format1SnapshotAdd { name: name.into(), snap }
}

fn remove(name: &str) -> rbd::Format1SnapshotRemove {
    rbd::Format1SnapshotRemove { name: name.into() }
}

fn rename(snap: u64, name: &str) -> rbd::Format1SnapshotRename {
    rbd::Format1SnapshotRename { snap, name: name.into() }
}

const LIST: rbd::Format1SnapshotList = rbd::Format1SnapshotList {};

/// Names and ids, newest first.
fn snapshots(bench: &mut Bench) -> Vec<(String, u64)> {
    bench.reply(&LIST).snapshots.into_iter().map(|snapshot| (snapshot.name, snapshot.id)).collect()
}

fn names(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect()
}

fn all_methods() -> [Op; 4] {
    [LIST.call(), add("s", 9).call(), remove("s").call(), rename(1, "t").call()]
}

#[test]
fn a_snapshot_of_format_1_is_what_the_image_was() {
    let mut bench = object(header().to_bytes());
    assert_eq!(snapshots(&mut bench), []);
    assert_eq!(bench.call(&add("a", 4)), 0);
    // Clients change the size themselves.
    bench.run(Op::Write { offset: 80, data: 2000u64.to_le_bytes().to_vec().into() });
    assert_eq!(bench.call(&add("b", 7)), 0);
    let list = bench.reply(&LIST);
    let snapshot = |id, image_size, name: &str| Format1Snapshot { id, image_size, name: name.into() };
    assert_eq!((list.seq, list.snapshots), (7, vec![snapshot(7, 2000, "b"), snapshot(4, 1000, "a")]));
    let read = Format1Header::from_bytes(&bench.get(Op::Read { offset: 0, length: 0 })).unwrap();
    assert_eq!((read.start, read.image_size), (header().start, 2000), "the rest is as it was");
}

#[test]
fn a_snapshot_of_format_1_is_added_once_and_never_behind_a_newer_one() {
    let mut bench = object(header().to_bytes());
    assert_eq!(bench.call(&add("a", 4)), 0);
    assert_eq!(bench.call(&add("b", 3)), failed(Errno::STALE));
    assert_eq!(bench.call(&add("a", 5)), failed(Errno::EXIST));
    assert_eq!(bench.call(&add("aa", 5)), 0, "a longer name is another one");
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: 1 }), failed(Errno::RANGE));
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: 2 }), 0);
    assert_eq!(bench.call(&add("c", 6)), failed(Errno::DQUOT));
    assert_eq!(bench.call(&rbd::SnapshotSetLimit { limit: u64::MAX }), 0);
    // A name ends where a header would end it.
    assert_eq!(bench.call(&add("c\0d", 6)), 0);
    assert_eq!(snapshots(&mut bench), names(&[("c", 6), ("aa", 5), ("a", 4)]));
}

#[test]
fn a_snapshot_of_format_1_is_renamed_and_removed_and_others_stay() {
    let mut bench = object(header().to_bytes());
    for (name, id) in [("one", 1), ("two", 2), ("three", 3)] {
        assert_eq!(bench.call(&add(name, id)), 0);
    }
    assert_eq!(bench.call(&rename(2, "one")), failed(Errno::EXIST));
    assert_eq!(bench.call(&rename(2, "two")), failed(Errno::EXIST));
    assert_eq!(bench.call(&rename(9, "nine")), failed(Errno::NOENT));
    assert_eq!(bench.call(&rename(2, "the second")), 0);
    assert_eq!(snapshots(&mut bench), names(&[("three", 3), ("the second", 2), ("one", 1)]));
    assert_eq!(bench.call(&remove("two")), failed(Errno::NOENT));
    assert_eq!(bench.call(&remove("the second")), 0);
    assert_eq!(snapshots(&mut bench), names(&[("three", 3), ("one", 1)]));
    assert_eq!(bench.call(&remove("three")), 0);
    assert_eq!(bench.call(&remove("one")), 0);
    let left = bench.get(Op::Read { offset: 0, length: 0 });
    assert_eq!(left, Format1Header { snap_seq: 3, ..header() }.to_bytes(), "the ids stay used");
}

#[test]
fn an_object_that_is_no_header_of_format_1_is_refused_and_left_alone() {
    let mut nothing = Bench::new();
    assert_eq!(nothing.call(&LIST), failed(Errno::NOENT));
    assert_eq!(nothing.call(&add("s", 9)), failed(Errno::INVAL));
    assert_eq!(nothing.run(Op::Stat), failed(Errno::NOENT));
    let snapshot = Format1Snapshot { id: 1, image_size: 5, name: "s".into() };
    let whole = Format1Header { snapshots: vec![snapshot], ..header() }.to_bytes();
    let changed = |at: usize, to: u8| {
        let mut bytes = whole.clone();
        bytes[at] = to;
        bytes
    };
    for (data, error) in [
        (whole[..Format1Header::MIN_LEN - 1].to_vec(), Errno::INVAL),
        (whole[..whole.len() - 1].to_vec(), Errno::IO),
        (changed(96, 2), Errno::IO),
        (changed(99, 0xff), Errno::IO),
        (changed(104, 1), Errno::IO),
        (changed(111, 0xff), Errno::IO),
        (changed(whole.len() - 1, b'x'), Errno::IO),
    ] {
        let mut bench = object(data.clone());
        for op in all_methods() {
            assert_eq!(bench.run(op.clone()), failed(error), "{op:?} on {data:?}");
        }
        assert_eq!(bench.get(Op::Read { offset: 0, length: 0 }), data);
    }
    let mut bench = object(whole);
    for op in all_methods() {
        let Op::Call { class, method, input } = op else { panic!() };
        if !input.is_empty() {
            let cut = Op::Call { class, method, input: input.slice(0, input.len() - 1) };
            assert_eq!(bench.run(cut.clone()), failed(Errno::INVAL), "{cut:?}");
        }
    }
}

#[test]
fn an_image_of_format_1_is_moved_away_and_never_here() {
    let spec = |side| MigrationSpec { side, image_name: "i".into(), ..MigrationSpec::default() };
    let set = |side| rbd::MigrationSet { spec: spec(side) };
    let (get, end) = (rbd::MigrationGet {}, rbd::MigrationRemove {});
    let mut bench = object(header().to_bytes());
    let text = Op::Read { offset: 0, length: 34 };
    assert_eq!(bench.call(&get), failed(Errno::INVAL));
    assert_eq!(bench.call(&end), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(migration_side::DESTINATION)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(migration_side::SOURCE)), 0);
    assert_eq!(bench.get(text.clone()), Format1Header::MIGRATING_TEXT);
    assert_eq!(bench.call(&set(migration_side::SOURCE)), failed(Errno::EXIST));
    assert_eq!(bench.reply(&get), spec(migration_side::SOURCE));
    let further = rbd::MigrationSetState { state: 2, description: "d".into() };
    assert_eq!(bench.call(&further), 0);
    assert_eq!(bench.reply(&get).state, 2);
    assert_eq!(bench.call(&end), 0);
    assert_eq!(bench.get(text.clone()), Format1Header::TEXT);
    assert_eq!(bench.call(&get), failed(Errno::INVAL));
    let left = bench.get(Op::Read { offset: 0, length: 0 });
    assert_eq!(left, header().to_bytes(), "nothing else has changed");
}
