use super::super::way::Way;
use super::*;
use onego::block::{Geometry, Memory};
use proptest::prelude::*;
use std::cell::RefCell;

const NOW: Time = Time::from_nanos(0);
const SIZE: u64 = 1 << 20;
const WAYS: [Way; 4] = [Way::Whole, Way::Plugged, Way::Queued, Way::CutUp];

/// Memory that counts requests, and optionally completes them in reverse order at the end of a batch.
struct Watched {
    memory: Memory,
    geometry: Geometry,
    holds: bool,
    held: RefCell<Vec<Request>>,
    requests: RefCell<Vec<(u64, u64)>>,
}

impl Watched {
    fn new(max_io: u64, boundary: Option<u64>, holds: bool) -> Self {
        let mut geometry = Geometry::new(SIZE);
        (geometry.max_io, geometry.boundary) = (max_io, boundary);
        let memory = Memory::new(Geometry::new(SIZE));
        Self { memory, geometry, holds, held: RefCell::default(), requests: RefCell::default() }
    }

    fn let_go(&self) {
        for request in self.held.borrow_mut().drain(..).rev() {
            self.memory.submit(NOW, request);
        }
    }
}

impl Device for Watched {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, now: Time, request: Request) {
        self.requests.borrow_mut().push((request.offset, request.length()));
        match self.holds {
            true => self.held.borrow_mut().push(request),
            false => self.memory.submit(now, request),
        }
    }
}

/// Submits I/Os as one batch, each from its own caller, and returns the result of each.
fn batch(route: &mut dyn Route, device: &Watched, ios: Vec<(u64, Op)>) -> Vec<Vec<u8>> {
    let count = ios.len();
    for (caller, (offset, op)) in ios.into_iter().enumerate() {
        route.submit(NOW, device, caller as u32, offset, op);
    }
    route.release(NOW, device);
    device.let_go();
    let mut results = vec![None; count];
    while let Some(Finished { tag, result }) = route.next_finished() {
        assert_eq!(results[tag as usize].replace(result.unwrap().to_vec()), None, "completed twice");
    }
    results.into_iter().map(|result| result.expect("a completed I/O")).collect()
}

fn reads(ranges: &[(u64, u64)]) -> Vec<(u64, Op)> {
    ranges.iter().map(|(offset, length)| (*offset, Op::Read { length: *length })).collect()
}

/// Ranges of a device: adjacent, apart, and overlapping.
fn ranges() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let range = (0..60_u64, 1..5_u64, 0..3_u64, 0..3_u64).prop_map(|(page, pages, head, tail)| {
        let offset = page * 4096 + head * 700;
        (offset, (pages * 4096 - head * 700 - tail * 300).min(SIZE - offset))
    });
    prop::collection::vec(range, 1..20)
}

proptest! {
    #[test]
    fn every_byte_comes_back_merged_or_not(
        batches in prop::collection::vec((ranges(), any::<bool>()), 1..6),
        max_io in prop::sample::select(vec![4096_u64, 16 << 10, 32 << 20]),
        boundary in prop::option::of(Just(32_u64 << 10)),
        holds: bool,
    ) {
        for way in WAYS {
            // Whole I/Os have the caller's length.
            let max_io = if way == Way::Whole || way == Way::Plugged { max_io.max(20 << 10) } else { max_io };
            let (device, mut route) = (Watched::new(max_io, boundary, holds), way.route(20));
            let mut model = vec![0; SIZE as usize];
            for (number, (ranges, writes)) in batches.iter().enumerate() {
                // Overlapping writes in flight may be executed in any order.
                if *writes && !holds {
                    let bytes = |(index, range): (usize, &(u64, u64))| {
                        let bytes: Vec<u8> = (0..range.1).map(|i| (i + index as u64 * 7 + number as u64) as u8).collect();
                        model[range.0 as usize..][..bytes.len()].copy_from_slice(&bytes);
                        (range.0, Op::Write { data: bytes.into() })
                    };
                    let ios = ranges.iter().enumerate().map(bytes).collect();
                    prop_assert!(batch(&mut *route, &device, ios).iter().all(Vec::is_empty));
                }
                let read = batch(&mut *route, &device, reads(ranges));
                for ((offset, length), bytes) in ranges.iter().zip(read) {
                    prop_assert_eq!(&bytes, &model[*offset as usize..][..*length as usize], "{:?}", way);
                }
            }
            for (offset, length) in device.requests.borrow().iter() {
                prop_assert!(*length <= max_io);
                prop_assert!(way != Way::Queued || boundary.is_none_or(|b| offset / b == (offset + length - 1) / b));
            }
        }
    }
}

#[test]
fn a_queue_merges_what_callers_read_in_any_order() {
    let requests = |way: Way, ranges: &[(u64, u64)], max_io| {
        let (device, mut route) = (Watched::new(max_io, None, false), way.route(20));
        batch(&mut *route, &device, reads(ranges));
        device.requests.take()
    };
    let pages = |pages: &[u64]| pages.iter().map(|page| (page * 4096, 4096)).collect::<Vec<_>>();
    // At the back, at the front, and into a gap.
    assert_eq!(requests(Way::Queued, &pages(&[5, 6, 4, 8, 7]), 32 << 20), [(4 * 4096, 5 * 4096)]);
    assert_eq!(requests(Way::Queued, &pages(&[9, 1, 5]), 32 << 20), pages(&[1, 5, 9]), "in order of bytes");
    assert_eq!(requests(Way::Queued, &[(0, 64 << 10)], 32 << 20), [(0, 64 << 10)]);
    assert_eq!(requests(Way::Queued, &[(0, 64 << 10)], 32 << 10), [(0, 32 << 10), (32 << 10, 32 << 10)]);
    assert_eq!(requests(Way::CutUp, &[(0, 64 << 10)], 32 << 20).len(), 16);
    assert_eq!(requests(Way::Whole, &[(0, 64 << 10)], 32 << 20), [(0, 64 << 10)]);
    assert_eq!(requests(Way::Plugged, &pages(&[0]), 32 << 20), pages(&[0]));
}

#[test]
fn a_full_queue_goes_to_the_device() {
    let (device, mut route) = (Watched::new(4096, None, false), Way::Queued.route(1));
    for (page, pages, gone) in [(0, 128, 0), (200, 1, 128)] {
        route.submit(NOW, &device, 0, page * 4096, Op::Read { length: pages * 4096 });
        assert_eq!(device.requests.borrow().len(), gone);
    }
}
