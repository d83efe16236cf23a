//! Devices that wrap another device.

use onego_block::{
    Completions, Counted, Device, Error, Faults, Faulty, Flags, Geometry, Limit, Limited, Memory, Null, Op,
    Outcome, Rate, Request, Split, Volatile,
};
use onego_buf::Pool;
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::time::Duration;

const START: Time = Time::from_nanos(1_000_000_000);

fn geometry() -> Geometry {
    Geometry::new(1 << 20)
}

/// Submits one request, and returns its outcome if it completed immediately.
fn one(device: &dyn Device, offset: u64, op: Op, flags: Flags) -> Option<Result<Outcome, Error>> {
    let completions = Completions::default();
    device.submit(START, Request::new(completions.caller(0), offset, op).with_flags(flags));
    completions.take().map(|completion| completion.result)
}

fn write(device: &dyn Device, offset: u64, byte: u8, fua: bool) {
    let op = Op::Write { data: vec![byte; 16].into() };
    one(device, offset, op, Flags { fua, ..Flags::default() }).unwrap().unwrap();
}

fn byte_at(device: &dyn Device, offset: u64) -> u8 {
    match one(device, offset, Op::Read { length: 1 }, Flags::default()) {
        Some(Ok(Outcome::Data(list))) => list.to_vec()[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_counted_when_they_complete() {
    let device = Counted::new(Memory::new(geometry()));
    write(&device, 0, 1, false);
    assert_eq!(byte_at(&device, 0), 1);
    one(&device, 0, Op::Flush, Flags::default());
    one(&device, 1 << 20, Op::Read { length: 1 }, Flags::default()).unwrap().unwrap_err();
    let counters = device.counters();
    assert_eq!((counters.writes, counters.written_bytes), (1, 16));
    assert_eq!((counters.reads, counters.read_bytes, counters.errors), (2, 2, 1));
    assert_eq!((counters.others, counters.in_flight), (1, 0));
}

#[test]
fn a_limit_lets_a_burst_pass_and_then_its_rate() {
    let rate = Rate { per_second: 100, burst: 10 };
    let device = Limited::new(Null::new(geometry()), Limit::new(Some(rate), None));
    let completions = Completions::default();
    for tag in 0..60 {
        device.submit(START, Request::new(completions.caller(tag), 0, Op::Read { length: 512 }));
    }
    let mut done = std::iter::from_fn(|| completions.take()).count();
    assert_eq!(done, 10);
    let mut now = START;
    while let Some(due) = device.due_at() {
        assert!(due > now, "a device that is due makes progress");
        now = due;
        device.due(now);
        done += std::iter::from_fn(|| completions.take()).count();
    }
    assert_eq!(done, 60);
    let took = now.since(START).as_millis();
    assert!((490..=510).contains(&took), "50 requests at 100 a second took {took} ms");
}

#[test]
fn devices_share_a_limit_of_bytes() {
    let rate = Rate { per_second: 1 << 20, burst: 64 << 10 };
    let limit = Limit::new(None, Some(rate));
    let devices = [(); 2].map(|()| Limited::new(Null::new(geometry()), limit.clone()));
    let completions = Completions::default();
    for tag in 0..32 {
        let request = Request::new(completions.caller(tag), 0, Op::Read { length: 64 << 10 });
        devices[tag as usize % 2].submit(START, request);
    }
    let mut now = START;
    while let Some(due) = devices.iter().filter_map(Device::due_at).min() {
        now = due;
        devices.iter().for_each(|device| device.due(now));
    }
    assert_eq!(std::iter::from_fn(|| completions.take()).count(), 32);
    let took = now.since(START).as_millis();
    assert!((1800..=2000).contains(&took), "2 MiB at 1 MiB a second took {took} ms");
}

#[test]
fn a_request_larger_than_the_burst_passes() {
    let limit = Limit::new(None, Some(Rate { per_second: 1000, burst: 1 }));
    let device = Limited::new(Null::new(geometry()), limit);
    assert!(one(&device, 0, Op::Read { length: 65536 }, Flags::default()).unwrap().is_ok());
}

#[test]
fn a_seed_decides_what_fails_and_what_comes_late() {
    let run = |seed| {
        let faults = Faults { failing: 0.3, delay: Duration::from_millis(5) };
        let mut random = SmallRng::seed_from_u64(seed);
        let device = Faulty::new(Null::new(geometry()), move || random.random(), faults);
        let completions = Completions::default();
        for tag in 0..100 {
            device.submit(START, Request::new(completions.caller(tag), 0, Op::Read { length: 1 }));
        }
        while let Some(due) = device.due_at() {
            device.due(due);
        }
        std::iter::from_fn(|| completions.take().map(|done| (done.tag, done.result.is_ok())))
            .collect::<Vec<_>>()
    };
    let first = run(1);
    assert_eq!(first.len(), 100);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    assert!(first.iter().any(|(_, ok)| !ok) && first.iter().any(|(_, ok)| *ok));
    assert!(!first.is_sorted(), "nothing was overtaken");
}

#[test]
fn a_crash_loses_only_what_was_not_flushed() {
    let mut lost = 0;
    for seed in 0..64 {
        let device = Volatile::new(geometry());
        write(&device, 0, 1, false);
        one(&device, 0, Op::Flush, Flags::default());
        write(&device, 16, 2, true);
        write(&device, 32, 3, false);
        let mut random = SmallRng::seed_from_u64(seed);
        device.crash(|| random.random());
        assert_eq!((byte_at(&device, 0), byte_at(&device, 16)), (1, 2));
        lost += u32::from(byte_at(&device, 32) == 0);
    }
    assert!((10..54).contains(&lost), "{lost} of 64 crashes lost it");
}

#[test]
fn a_forced_write_is_not_undone_by_an_older_one() {
    for survives in [false, true] {
        let device = Volatile::new(geometry());
        write(&device, 0, 1, false);
        write(&device, 0, 2, true);
        device.crash(|| survives);
        assert_eq!(byte_at(&device, 0), 2);
    }
}

#[test]
fn a_long_request_goes_down_in_parts_and_completes_once_as_a_whole() {
    let mut below = geometry();
    (below.max_io, below.block) = (10_000, 512);
    let counted = std::rc::Rc::new(Counted::new(Memory::new(below)));
    let device = Split::new(std::rc::Rc::clone(&counted), 1 << 20);
    assert_eq!(device.geometry().max_io, 1 << 20);
    let bytes: Vec<u8> = (0..51_200_u32).map(|n| (n / 7) as u8).collect();
    let write = Op::Write { data: bytes.clone().into() };
    assert!(matches!(one(&device, 512, write, Flags::default()), Some(Ok(Outcome::Done))));
    // Parts are whole blocks.
    assert_eq!(counted.counters().writes, 51_200_u64.div_ceil(9728));
    match one(&device, 512, Op::Read { length: 51_200 }, Flags::default()) {
        Some(Ok(Outcome::Data(list))) => assert!(list.to_vec() == bytes),
        other => panic!("{other:?}"),
    }
    match one(&device, 512, Op::ReadInto { buffer: Pool::new(0).get(51_200) }, Flags::default()) {
        Some(Ok(Outcome::Filled(buffer))) => assert!(buffer[..] == bytes),
        other => panic!("{other:?}"),
    }
    // A request that cannot be executed as a whole is not started.
    let before = counted.counters().writes;
    let behind = Op::Write { data: vec![1; 51_200].into() };
    let failed = one(&device, (1 << 20) - 20_480, behind, Flags::default());
    assert!(matches!(failed, Some(Err(Error::OutOfBounds { .. }))), "{failed:?}");
    assert_eq!(counted.counters().writes, before);
}

#[test]
fn a_long_request_fails_if_a_part_of_it_does_after_all_have_completed() {
    let mut below = geometry();
    below.max_io = 1000;
    let mut random = SmallRng::seed_from_u64(1);
    let faults = Faults { failing: 0.2, delay: Duration::from_millis(5) };
    let device = Split::new(Faulty::new(Memory::new(below), move || random.random(), faults), 1 << 20);
    let completions = Completions::default();
    let mut failed = 0;
    for tag in 0..50 {
        let request = Request::new(completions.caller(tag), 0, Op::Read { length: 5000 });
        device.submit(START, request);
        assert!(completions.is_empty(), "it waits for its parts");
        device.due(START + Duration::from_millis(5));
        let result = completions.take().expect("all parts have completed").result;
        failed += u32::from(result.is_err());
        assert!(completions.is_empty());
    }
    assert!((20..50).contains(&failed), "{failed} of 50 failed");
}
