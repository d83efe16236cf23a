//! Small items are counted by the memory that they really take.

use super::*;
use crate::osd::duplicates::{Done, Duplicates};
use crate::osd::store::object::State;
use crate::osd::store::{Identity, Store};
use onego_ceph::messages::OpResult;
use onego_ceph::types::EVersion;
use std::any::Any;
use std::process::Command;

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A case: something that takes memory, and what it is counted as.
type Case = (&'static str, fn() -> (Box<dyn Any>, u64));

const CASES: [Case; 13] = [
    ("empty objects", || objects(50_000, 8, |_, _| ())),
    ("objects with long names", || objects(20_000, 1500, |_, _| ())),
    ("objects of a byte", || objects(30_000, 8, |_, state| state.write(0, list(b"x")))),
    ("objects of small pieces", || {
        objects(1000, 8, |_, state| (0..100).for_each(|n| state.write(n * 70_000, list(b"piece"))))
    }),
    ("objects with an attribute", || {
        objects(30_000, 8, |_, state| state.set_xattr(b"a".to_vec(), b"b".to_vec()))
    }),
    ("entries of a map in order", || {
        objects(1, 8, |_, state| {
            (0..200_000u64).for_each(|n| state.omap_set(n.to_be_bytes().to_vec(), b"value".to_vec()));
        })
    }),
    ("entries of a map in no order", || {
        objects(1, 8, |_, state| {
            let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
            (0..200_000u64).for_each(|n| state.omap_set(key(n), b"v".to_vec()));
        })
    }),
    ("objects of one hash", || objects_with(50_000, 8, |_| 7, |_, _| ())),
    ("clones", || objects(1, 8, |_, state| (1..=60_000).for_each(|snap| state.make_clone(snap, vec![snap])))),
    ("clones of small pieces", || {
        objects(100, 8, |_, state| {
            (0..20).for_each(|n| state.write(n * 70_000, list(b"piece")));
            for snap in 1..=60 {
                state.make_clone(snap, vec![snap]);
                state.write(snap % 20 * 70_000, list(b"other"));
            }
        })
    }),
    ("outcomes of one client", || outcomes(|n| ReqId { tid: n, ..ReqId::default() }, None)),
    ("outcomes of as many clients", || outcomes(|n| ReqId { inc: n as i32, ..ReqId::default() }, None)),
    ("outcomes with results", || {
        let op = |_| OpResult { output: list(b"output"), ..OpResult::default() };
        outcomes(|n| ReqId { tid: n, ..ReqId::default() }, Some((0..4).map(op).collect()))
    }),
];

fn objects(n: u64, name_len: usize, change: impl Fn(u64, &mut State)) -> (Box<dyn Any>, u64) {
    objects_with(n, name_len, |n| n.wrapping_mul(0x9e37_79b9) as u32, change)
}

fn objects_with(
    n: u64,
    name_len: usize,
    hash: impl Fn(u64) -> u32,
    change: impl Fn(u64, &mut State),
) -> (Box<dyn Any>, u64) {
    let mut store = Store::new();
    for n in 0..n {
        let name = format!("{n:0name_len$}");
        let identity = Identity { pool: 1, hash: hash(n), namespace: b"", key: b"", name: name.as_bytes() };
        let id = store.prepare(&identity);
        let (state, _) = store.state_mut(id);
        state.create();
        change(n, state);
        store.changed(id);
    }
    let used = store.used();
    (Box::new(store), used)
}

fn outcomes(id: impl Fn(u64) -> ReqId, ops: Option<Vec<OpResult>>) -> (Box<dyn Any>, u64) {
    let mut groups = Vec::new();
    for _ in 0..30 {
        let mut group = Duplicates::default();
        for n in 0..8192 {
            let copy = |op: &OpResult| OpResult { output: op.output.to_vec().into(), ..*op };
            let ops = ops.as_ref().map(|ops| Box::new(ops.iter().map(copy).collect()));
            group.record(&id(n), Done { result: 0, version: EVersion::default(), user_version: 0, ops });
        }
        groups.push(group);
    }
    let memory = groups.iter().map(Duplicates::memory).sum();
    (Box::new(groups), memory)
}

/// Resident memory is the process's: the test runs in one of its own.
#[test]
fn small_items_are_counted_as_at_least_nine_tenths_of_their_memory() {
    const ALONE: &str = "ONEGO_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.env(ALONE, "1").args(["--exact", "--nocapture", &name]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    // All stay: what one returned to the allocator would be none of the next one's.
    let mut kept = Vec::new();
    let mut undercounted = Vec::new();
    for (what, make) in CASES {
        let before = resident();
        let (held, counted) = make();
        let taken = resident() - before;
        kept.push(held);
        println!("{what}: {taken} bytes, counted as {counted}: {:.2}", counted as f64 / taken as f64);
        if counted * 10 < taken * 9 {
            undercounted.push(what);
        }
    }
    assert!(undercounted.is_empty(), "{undercounted:?}");
}
