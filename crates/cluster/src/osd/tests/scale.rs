//! The time of one request does not grow with what other requests have left: objects of one hash, clones of one object.

use super::*;
use onego_ceph::outputs::Listing;
use onego_ceph::types::HObject;
use onego_msgr::encoding::{Decode, Encode};
use std::time::Instant;

/// Sizes of the two cases whose times are compared. What takes time in proportion to its case takes eight times as long in
/// the second; what takes as long as the logarithm, a third longer.
const FEW: u64 = 1500;
const MANY: u64 = 8 * FEW;

/// The largest allowed ratio of the two times.
const MAX_RATIO: f64 = 4.0;

/// Asserts that `run` takes about as long with `MANY` as with `FEW`: the shortest of several times of each counts.
fn is_independent<T>(what: &str, prepare: impl Fn(u64) -> T, run: impl Fn(&mut T)) {
    let [few, many] = [FEW, MANY].map(|n| {
        let mut case = prepare(n);
        let times = (0..20).map(|_| {
            let start = Instant::now();
            run(&mut case);
            start.elapsed()
        });
        times.min().unwrap_or_default()
    });
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio < MAX_RATIO, "{what}: {few:?} with {FEW}, {many:?} with {MANY}");
}

/// Sends operations on the object `name`, which the locator key gives the same hash as all others.
fn keyed(bench: &mut Bench, name: &str, op: Op) -> i32 {
    let mut request = bench.request("key", vec![(op, 0)]);
    request.object = name.into();
    request.locator.key = b"key".to_vec();
    bench.send(CLIENT, request).result
}

fn with_equal_hashes(n: u64) -> Bench {
    let mut bench = Bench::new();
    for n in 0..n {
        assert_eq!(keyed(&mut bench, &format!("o{n:06}"), Op::Create { exclusive: true }), 0);
    }
    bench
}

fn list_from(bench: &mut Bench, cursor: &HObject, count: u64) -> Listing {
    let cursor = cursor.to_bytes().into();
    let mut request = bench.request("key", vec![(Op::PgNls { count, cursor, epoch: 7 }, 0)]);
    request.flags |= flag::PG_OP;
    let reply = bench.send(CLIENT, request);
    Listing::from_bytes(&reply.ops[0].output.to_vec()).unwrap()
}

#[test]
fn objects_of_one_hash_are_listed_once_and_in_order() {
    let mut bench = with_equal_hashes(100);
    for gone in (0..100).step_by(3) {
        assert_eq!(keyed(&mut bench, &format!("o{gone:06}"), Op::Delete), 0);
    }
    let expected: Vec<String> = (0..100).filter(|n| n % 3 != 0).map(|n| format!("o{n:06}")).collect();
    let (mut cursor, mut listed) = (HObject::min(), Vec::new());
    while !cursor.max && (listed.is_empty() || cursor.hash == bench.request("key", Vec::new()).hash) {
        let page = list_from(&mut bench, &cursor, 7);
        listed.extend(page.objects.into_iter().map(|object| String::from_utf8(object.name).unwrap()));
        cursor = page.cursor;
    }
    assert_eq!(listed, expected);
    for name in &expected {
        assert_eq!(keyed(&mut bench, name, Op::Delete), 0);
    }
    assert_eq!((bench.osd.usage().objects, bench.osd.usage().used), (0, 0));
}

#[test]
fn creating_an_object_takes_as_long_with_many_of_its_hash() {
    is_independent("create", with_equal_hashes, |bench| {
        for n in 0..50 {
            assert_eq!(keyed(bench, &format!("p{n}"), Op::Create { exclusive: true }), 0);
        }
        for n in 0..50 {
            assert_eq!(keyed(bench, &format!("p{n}"), Op::Delete), 0);
        }
    });
}

#[test]
fn listing_a_page_takes_as_long_with_many_objects_of_one_hash() {
    let from_middle = |n: u64| {
        let mut bench = with_equal_hashes(n);
        let cursor = list_from(&mut bench, &HObject::min(), 500).cursor;
        (bench, cursor)
    };
    is_independent("list", from_middle, |(bench, cursor)| {
        assert_eq!(list_from(bench, cursor, 20).objects.len(), 20);
    });
}

/// An object of which each snapshot has a clone.
fn with_clones(n: u64) -> Bench {
    let mut bench = Bench::new();
    for snap in 1..=n {
        assert_eq!(bench.change_by(snap, &[snap], vec![write(snap % 10, b"a")]), 0);
    }
    assert_eq!(bench.change_by(n + 1, &[n + 1], vec![write(0, b"a")]), 0);
    bench
}

#[test]
fn writing_an_object_takes_as_long_with_many_clones() {
    is_independent("write", with_clones, |bench| {
        for n in 0..50 {
            // One that may fail half way keeps a copy of what was before.
            let ops = vec![write(n % 10, b"b"), Op::CmpExt { offset: 0, data: list(b"") }];
            assert_eq!(bench.change_by(MANY + 2 + n, &[], ops), 0);
        }
    });
}

#[test]
fn making_a_clone_and_reading_at_a_snapshot_take_as_long_with_many() {
    is_independent(
        "clone",
        |n| (with_clones(n), n + 1),
        |(bench, snap)| {
            for _ in 0..50 {
                *snap += 1;
                assert_eq!(bench.change_by(*snap, &[*snap], vec![write(0, b"c")]), 0);
                assert_eq!(bench.seen(FEW / 2), Some(bench.seen(FEW / 2).unwrap()));
            }
        },
    );
}

#[test]
fn trimming_a_snapshot_at_a_time_or_all_at_once_leaves_the_same() {
    let trim = |bench: &mut Bench, snaps: std::ops::RangeInclusive<u64>| {
        bench.remove_snaps(&snaps.collect::<Vec<_>>());
        let removed = bench.map.removed_snaps_queue.remove(&POOL).unwrap();
        let (pg, name) = Bench::place("o");
        let start = Instant::now();
        bench.osd.trim(pg, &name, &removed, 7).expect("the object is there");
        start.elapsed()
    };
    let (mut one, mut all) = (with_clones(30), with_clones(30));
    (5..=25).for_each(|snap| _ = trim(&mut one, snap..=snap));
    trim(&mut all, 5..=25);
    assert_eq!(one.snaps(), all.snaps());
    assert_eq!(one.osd.usage(), all.osd.usage());
    assert_eq!(all.osd.pool_usage(POOL).clones, 9);
    // Together, in proportion to their number: the square would be 64 times as much.
    let [few, many] = [FEW, MANY].map(|n| (0..3).map(|_| trim(&mut with_clones(n), 1..=n)).min().unwrap());
    assert!(many < few * 40, "{few:?} for {FEW} clones, {many:?} for {MANY}");
}
