//! Merging by a plug, and its invisibility except for the speed.

use onego_block::{Completions, Device, Error, Flags, Geometry, Memory, Op, Outcome, Plug, Request};
use onego_buf::List;
use onego_wire::Time;
use proptest::prelude::*;
use std::cell::RefCell;

const NOW: Time = Time::from_nanos(0);
const SIZE: u64 = 4096;

/// A device in memory that records its requests.
struct Noted {
    memory: Memory,
    geometry: Geometry,
    seen: RefCell<Vec<(u64, u64)>>,
}

impl Noted {
    fn new(geometry: Geometry) -> Self {
        Self { memory: Memory::new(geometry), geometry, seen: RefCell::default() }
    }
}

impl Device for Noted {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, now: Time, request: Request) {
        self.seen.borrow_mut().push((request.offset, request.length()));
        self.memory.submit(now, request);
    }
}

fn geometry(max_io: u64, boundary: Option<u64>) -> Geometry {
    let mut geometry = Geometry::new(SIZE);
    geometry.max_io = max_io;
    geometry.boundary = boundary;
    geometry
}

fn write(offset: u64, bytes: &[u8]) -> (u64, Op) {
    (offset, Op::Write { data: bytes.into() })
}

/// Submits a batch through a plug; returns the outcome of each request by its number.
fn batch(device: &dyn Device, requests: Vec<(u64, Op)>) -> Vec<Result<Outcome, Error>> {
    let (completions, mut plug) = (Completions::default(), Plug::default());
    let count = requests.len();
    for (tag, (offset, op)) in requests.into_iter().enumerate() {
        plug.submit(NOW, device, Request::new(completions.caller(tag as u64), offset, op));
    }
    plug.release(NOW, device);
    assert!(plug.is_empty());
    let mut results: Vec<_> = (0..count).map(|_| None).collect();
    while let Some(completion) = completions.take() {
        let before = results[completion.tag as usize].replace(completion.result);
        assert!(before.is_none(), "request {} completed twice", completion.tag);
    }
    results.into_iter().map(|result| result.expect("every request completes")).collect()
}

#[test]
fn neighbours_go_down_as_one_from_either_side() {
    let device = Noted::new(geometry(SIZE, None));
    let results = batch(&device, vec![write(8, b"cd"), write(10, b"ef"), write(6, b"ab"), write(20, b"x")]);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(*device.seen.borrow(), [(6, 6), (20, 1)]);
    let read = batch(&device, vec![(6, Op::Read { length: 2 }), (8, Op::Read { length: 4 })]);
    let bytes: Vec<_> = read.into_iter().map(|result| data(result).to_vec()).collect();
    assert_eq!(bytes, [b"ab".to_vec(), b"cdef".to_vec()]);
    assert_eq!(device.seen.borrow()[2..], [(6, 6)]);
}

#[test]
fn merged_requests_respect_boundaries_and_maximum_length() {
    let device = Noted::new(geometry(SIZE, Some(16)));
    batch(&device, vec![write(8, &[1; 8]), write(16, &[2; 8]), write(24, &[3; 8])]);
    assert_eq!(*device.seen.borrow(), [(8, 8), (16, 16)]);
    let device = Noted::new(geometry(12, None));
    batch(&device, vec![write(0, &[1; 8]), write(8, &[2; 8])]);
    assert_eq!(*device.seen.borrow(), [(0, 8), (8, 8)]);
}

#[test]
fn requests_with_other_flags_are_apart() {
    let device = Noted::new(geometry(SIZE, None));
    let (completions, mut plug) = (Completions::default(), Plug::default());
    for (offset, fua) in [(0, false), (4, true), (8, true)] {
        let request =
            Request::new(completions.caller(offset), offset, Op::Write { data: List::from(&[1; 4]) });
        plug.submit(NOW, &device, request.with_flags(Flags { fua, ..Flags::default() }));
    }
    plug.release(NOW, &device);
    assert_eq!(*device.seen.borrow(), [(0, 4), (4, 8)]);
}

#[test]
fn a_refused_request_fails_alone() {
    let device = Noted::new(geometry(SIZE, None));
    let results = batch(&device, vec![write(SIZE - 4, &[1; 4]), write(SIZE, &[2; 4])]);
    assert!(results[0].is_ok());
    assert!(matches!(results[1], Err(Error::OutOfBounds { .. })), "{:?}", results[1]);
}

#[test]
fn a_flush_first_releases_all_requests() {
    let device = Noted::new(geometry(SIZE, None));
    batch(&device, vec![write(0, &[1; 4]), (0, Op::Flush), write(4, &[2; 4])]);
    assert_eq!(*device.seen.borrow(), [(0, 4), (0, 0), (4, 4)]);
}

fn data(result: Result<Outcome, Error>) -> List {
    match result {
        Ok(Outcome::Data(list)) => list,
        other => panic!("no data: {other:?}"),
    }
}

/// Operation of a generated request, with the byte that it writes.
#[derive(Debug, Clone, Copy)]
enum PlugStep {
    Read,
    Write(u8),
    Zero,
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<(PlugStep, u64, u64)>> {
    let step = prop_oneof![
        4 => Just(PlugStep::Read),
        4 => any::<u8>().prop_map(PlugStep::Write),
        1 => Just(PlugStep::Zero),
        1 => Just(PlugStep::Flush)
    ];
    proptest::collection::vec((step, 0..40u64, 1..12u64), 1..60)
}

#[test]
fn a_device_that_gains_nothing_by_merging_gets_each_request_as_it_comes() {
    let mut geometry = geometry(SIZE, None);
    geometry.gains_by_merging = false;
    let device = Noted::new(geometry);
    let results = batch(&device, vec![write(8, b"cd"), write(10, b"ef"), write(6, b"ab")]);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(*device.seen.borrow(), [(8, 2), (10, 2), (6, 2)]);
}

proptest! {
    /// Overlapping requests of a batch take effect in order, whatever is merged.
    #[test]
    fn a_batch_has_the_effect_of_its_requests_in_their_order(steps in steps(), boundary in prop::option::of(1..32u64)) {
        let device = Noted::new(geometry(24, boundary));
        let mut model = vec![0; SIZE as usize];
        let mut expected = Vec::new();
        let mut requests = Vec::new();
        for &(step, offset, length) in &steps {
            let range = offset as usize..(offset + length) as usize;
            expected.push(matches!(step, PlugStep::Read).then(|| model[range.clone()].to_vec()));
            requests.push(match step {
                PlugStep::Read => (offset, Op::Read { length }),
                PlugStep::Write(byte) => {
                    model[range].fill(byte);
                    (offset, Op::Write { data: vec![byte; length as usize].into() })
                }
                PlugStep::Zero => {
                    model[range].fill(0);
                    (offset, Op::Zero { length })
                }
                PlugStep::Flush => (0, Op::Flush),
            });
        }
        for (result, expected) in batch(&device, requests).into_iter().zip(expected) {
            match expected {
                Some(bytes) => prop_assert_eq!(data(result).to_vec(), bytes),
                None => prop_assert!(result.is_ok()),
            }
        }
        let all = batch(&device, vec![(0, Op::Read { length: 24 }), (30, Op::Read { length: 22 })]);
        let all: Vec<_> = all.into_iter().map(|result| data(result).to_vec()).collect();
        prop_assert_eq!(&all[0][..], &model[..24]);
        prop_assert_eq!(&all[1][..], &model[30..52]);
    }
}
