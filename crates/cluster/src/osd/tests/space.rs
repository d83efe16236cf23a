//! What memory is taken, and what happens when there is no more.

use super::*;
use onego_ceph::cls::{Method, lock, rbd};
use onego_ceph::ops::TmapCommand;
use onego_wire::Writer;

const LIMIT: u64 = 16 << 20;

fn full() -> Bench {
    let mut bench = Bench::with(Config { memory_limit: LIMIT, null_writes: false, ..Config::default() });
    for i in 0.. {
        let reply = bench.ask(&format!("filler-{i}"), vec![Op::WriteFull { data: list(&[1; 100_000]) }]);
        if reply.result < 0 {
            assert_eq!(reply.result, failed(Errno::NOSPC));
            break;
        }
    }
    assert!(bench.osd.usage().used <= LIMIT);
    bench
}

#[test]
fn a_write_over_the_limit_changes_nothing() {
    let mut bench = full();
    let usage = bench.osd.usage();
    let vectors = [
        vec![Op::Create { exclusive: false }, write(0, &[2; 1_000_000])],
        vec![Op::Append { data: list(&[2; 1_000_000]) }],
        vec![Op::WriteSame { offset: 0, length: 100 << 20, data: list(b"x") }],
        vec![Op::OmapSetVals { entries: [(b"k".to_vec(), list(&[2; 1_000_000]))].into() }],
        vec![Op::SetXattr { name: "x".into(), value: list(&[2; 1_000_000]) }],
        vec![Op::TmapUpdate { input: list(&[2; 1_000_000]) }],
        vec![Op::TmapPut { input: list(&[2; 1_000_000]) }],
    ];
    for object in ["filler-0", "new"] {
        for ops in &vectors {
            assert_eq!(bench.ask(object, ops.clone()).result, failed(Errno::NOSPC), "{ops:?}");
            assert_eq!(bench.osd.usage(), usage);
        }
    }
    assert_eq!(bench.ask("new", vec![write(u64::MAX, &[1; 9000])]).result, failed(Errno::FBIG));
    let endless = Op::WriteSame { offset: 0, length: u64::MAX, data: list(b"x") };
    assert_eq!(bench.ask("new", vec![endless.clone(), endless]).result, failed(Errno::FBIG));
    assert_eq!(bench.ask("filler-0", vec![read(0, 0)]).ops[0].output.to_vec(), [1; 100_000]);
    assert_eq!(bench.ask("new", vec![Op::Stat]).result, failed(Errno::NOENT));
}

#[test]
fn a_write_that_there_was_no_room_for_is_not_done_when_it_is_sent_again() {
    let mut bench = full();
    let large = bench.request("o", vec![(write(0, &[1; 200_000]), 0)]);
    let result = |bench: &mut Bench| bench.send_as(CLIENT, 5000, large.clone()).unwrap().result;
    assert_eq!(result(&mut bench), failed(Errno::NOSPC));
    for filler in 0..4 {
        assert_eq!(bench.ask(&format!("filler-{filler}"), vec![Op::Delete]).result, 0);
    }
    assert_eq!(bench.run(write(0, b"newer")), 0);
    assert_eq!(result(&mut bench), failed(Errno::NOSPC));
    assert_eq!(bench.get(read(0, 0)), b"newer");
}

#[test]
fn what_is_there_can_be_overwritten_and_deleted_when_all_is_full() {
    let mut bench = full();
    for _ in 0..1000 {
        assert_eq!(bench.ask("filler-3", vec![write(4096, &[3; 4096])]).result, 0);
        assert_eq!(bench.ask("filler-3", vec![Op::WriteFull { data: list(&[4; 100_000]) }]).result, 0);
    }
    assert_eq!(bench.ask("filler-3", vec![Op::Zero { offset: 0, length: 50_000 }]).result, 0);
    assert_eq!(bench.ask("filler-4", vec![Op::Delete]).result, 0);
    assert_eq!(bench.ask("new", vec![write(0, &[5; 50_000])]).result, 0);
}

#[test]
fn an_image_can_be_cleaned_up_when_all_is_full() {
    let mut bench = full();
    let lock = lock::Lock {
        name: "rbd_lock".into(),
        kind: lock::kind::EXCLUSIVE,
        cookie: "c".into(),
        tag: String::new(),
        description: String::new(),
        duration: Utime::default(),
        flags: 0,
    };
    assert_eq!(bench.ask("rbd_header.1", vec![lock.call()]).result, 0);
    let add = rbd::NamespaceAdd { name: "n".into() };
    assert_eq!(bench.ask("rbd_namespace", vec![add.call()]).result, 0);
    let mut forget = Writer::new();
    TmapCommand::RemoveIfThere { key: b"image of format 1" }.encode(&mut forget);
    let forget = Op::TmapUpdate { input: forget.into_vec().into() };
    assert_eq!(bench.ask("rbd_directory", vec![forget]).result, 0);
}

#[test]
fn all_memory_comes_back() {
    let mut bench = full();
    let names: Vec<String> = (0..1000).map(|i| format!("filler-{i}")).collect();
    for name in names {
        bench.ask(&name, vec![Op::Delete]);
    }
    assert_eq!(bench.osd.usage(), super::super::Usage { limit: LIMIT, ..Default::default() });
    assert_eq!(bench.osd.pool_usage(POOL).objects, 0);
}

#[test]
fn null_writes_are_acknowledged_without_taking_memory() {
    let mut bench = Bench::with(Config { memory_limit: LIMIT, null_writes: true, ..Config::default() });
    bench.run(write(0, b"header"));
    for i in 0..1000 {
        assert_eq!(bench.run(write(4096 + i * 100_000, &[7; 100_000])), 0);
    }
    assert!(bench.osd.usage().used < 10_000);
    assert_eq!(bench.osd.pool_usage(POOL).bytes, 4096 + 100_000_000);
    assert_eq!(bench.get(read(4096, 10)), [0; 10]);
    assert_eq!(bench.get(read(0, 6)), b"header");
    assert_eq!(bench.run(Op::WriteFull { data: list(&[7; 5000]) }), 0);
    assert_eq!(bench.get(read(0, 0)).len(), 5000);
}

#[test]
fn one_request_cannot_read_more_than_a_reply_holds() {
    let mut bench = Bench::new();
    bench.run(write((128 << 20) - 1, b"x"));
    assert_eq!(bench.ask("o", vec![read(0, 0), read(64 << 20, 0)]).result, 0);
    assert_eq!(
        bench.ask("o", vec![read(0, 0), read(64 << 20, 0), read(0, 1)]).result,
        failed(Errno::OVERFLOW)
    );
}
