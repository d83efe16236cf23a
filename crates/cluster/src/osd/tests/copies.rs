//! Copies of whole objects.

use super::*;
use onego_ceph::caps::OsdCap;
use onego_ceph::ops::CopyFrom;

/// The copy of an object, of which version and snapshot are to be these.
fn copy(name: &str, version: u64, snap: u64) -> Op {
    let locator = ObjectLocator { pool: POOL, ..ObjectLocator::default() };
    let name = name.as_bytes().to_vec();
    let (flags, read_hints, truncation, is_second) = (0, 0, None, false);
    Op::CopyFrom(Box::new(CopyFrom {
        name,
        locator,
        snap,
        version,
        flags,
        read_hints,
        truncation,
        is_second,
    }))
}

/// An object with data, a hole, an attribute, a map and a header.
fn with_source() -> (Bench, u64) {
    let mut bench = Bench::with(Config { transactions: true, ..Config::default() });
    bench.ask("source", vec![Op::Create { exclusive: true }]);
    let reply = bench.ask(
        "source",
        vec![
            write(0, b"data"),
            write(100_000, b"end"),
            Op::SetXattr { name: "a".into(), value: list(b"attribute") },
            Op::OmapSetVals { entries: [(b"k".to_vec(), list(b"value"))].into() },
            Op::OmapSetHeader { header: list(b"header") },
        ],
    );
    (bench, reply.user_version)
}

fn get_from(bench: &mut Bench, object: &str, op: Op) -> Vec<u8> {
    let reply = bench.ask(object, vec![op]);
    assert!(reply.result >= 0, "{}", reply.result);
    reply.ops[0].output.to_vec()
}

#[test]
fn a_copy_has_data_attributes_map_and_version_of_its_source_and_nothing_else() {
    let (mut bench, version) = with_source();
    bench.ask(
        "copy",
        vec![
            write(0, &[7; 200_000]),
            Op::SetXattr { name: "old".into(), value: list(b"1") },
            Op::OmapSetVals { entries: [(b"old".to_vec(), list(b"1"))].into() },
        ],
    );
    let reply = bench.ask("copy", vec![copy("source", version, NOSNAP)]);
    assert_eq!((reply.result, reply.user_version), (0, version));
    for op in [
        read(0, 0),
        Op::MapExt { offset: 0, length: 1 << 20 },
        Op::GetXattrs,
        Op::OmapGetHeader,
        Op::OmapGetVals { after: Vec::new(), max: 9, prefix: Vec::new() },
    ] {
        assert_eq!(get_from(&mut bench, "copy", op.clone()), get_from(&mut bench, "source", op));
    }
    assert_eq!(bench.ask("copy", vec![Op::AssertVer { version }]).result, 0);
    // The version goes on from there, and the source stays what it was.
    assert!(bench.ask("copy", vec![write(0, b"x")]).user_version > version);
    assert_eq!(get_from(&mut bench, "source", read(0, 4)), b"data");
}

#[test]
fn a_copy_is_the_same_where_its_transaction_is_applied() {
    let (mut bench, _) = with_source();
    assert_eq!(bench.ask("copy", vec![copy("source", 0, NOSNAP)]).result, 0);
    let transaction = bench.transaction.take().unwrap();
    let mut state = super::super::State::default();
    transaction.mutations.iter().for_each(|mutation| state.apply(mutation));
    let id = bench.osd.store.find(&transaction.object.in_pool(POOL)).unwrap();
    assert!(state.share_if_same(&bench.osd.store.object(id).state));
}

#[test]
fn the_source_must_have_the_version_that_is_demanded() {
    let (mut bench, version) = with_source();
    assert_eq!(bench.ask("copy", vec![copy("source", version + 1, NOSNAP)]).result, failed(Errno::OVERFLOW));
    assert_eq!(bench.ask("copy", vec![copy("source", version - 1, NOSNAP)]).result, failed(Errno::RANGE));
    assert_eq!(bench.ask("copy", vec![copy("nothing", 0, NOSNAP)]).result, failed(Errno::NOENT));
    assert_eq!(bench.ask("source", vec![copy("source", 0, NOSNAP)]).result, failed(Errno::INVAL));
    assert_eq!(bench.ask("copy", vec![Op::Stat]).result, failed(Errno::NOENT));
    // What was done before in the same request is undone.
    let ops = vec![Op::Create { exclusive: false }, copy("nothing", 0, NOSNAP)];
    assert_eq!(bench.ask("copy", ops).result, failed(Errno::NOENT));
    assert_eq!(bench.ask("copy", vec![Op::Stat]).result, failed(Errno::NOENT));
}

#[test]
fn what_an_object_was_at_a_snapshot_is_copied_also_to_itself() {
    let (mut bench, _) = with_source();
    let knowing = SnapContext { seq: 4, snaps: vec![4] };
    assert_eq!(
        bench.ask_knowing(knowing.clone(), "source", vec![Op::WriteFull { data: list(b"new") }]).result,
        0
    );
    assert_eq!(bench.ask("copy", vec![copy("source", 0, 4)]).result, 0);
    assert_eq!(get_from(&mut bench, "copy", read(0, 4)), b"data");
    assert_eq!(bench.ask_knowing(knowing, "source", vec![copy("source", 0, 4)]).result, 0);
    assert_eq!(get_from(&mut bench, "source", read(0, 4)), b"data");
}

#[test]
fn the_source_must_be_readable_by_the_client() {
    let (mut bench, _) = with_source();
    bench.map.pool_names.insert(POOL, "images".into());
    let rights = Rights::limited_to(OsdCap::parse("allow rw object_prefix copy").unwrap());
    bench.osd.session_opened(CLIENT, EntityName::client(100), UserId(100), address(1), rights);
    assert_eq!(bench.ask("copy", vec![copy("source", 0, NOSNAP)]).result, failed(Errno::PERM));
    assert_eq!(bench.ask_as(OTHER, "copy", vec![copy("source", 0, NOSNAP)]).result, 0);
}

#[test]
fn a_request_that_copies_more_than_a_record_holds_is_refused() {
    let (mut bench, _) = with_source();
    bench.ask("source", vec![Op::WriteFull { data: list(&[1; 32 << 20]) }]);
    let copies = |count: usize| vec![copy("source", 0, NOSNAP); count];
    assert_eq!(bench.ask("copy", copies(2)).result, 0);
    assert_eq!(bench.ask("copy", copies(33)).result, failed(Errno::MSGSIZE));
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let mut bench = Bench::with(Config { memory_limit: 16 << 20, ..Config::default() });
    assert_eq!(bench.ask("source", vec![Op::WriteFull { data: list(&[1; 6 << 20]) }]).result, 0);
    assert_eq!(bench.ask("copy-1", vec![copy("source", 0, NOSNAP)]).result, 0);
    assert_eq!(bench.ask("copy-2", vec![copy("source", 0, NOSNAP)]).result, failed(Errno::NOSPC));
    assert_eq!(bench.ask("copy-2", vec![Op::Stat]).result, failed(Errno::NOENT));
}
