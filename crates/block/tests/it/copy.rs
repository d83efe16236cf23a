//! Copies between devices in memory that complete late, fail, and have blocks of different sizes.

use onego_block::copy::{Copier, CopyError, CopyHandle, CopyPlan, CopySide};
use onego_block::{
    BlockStatus, Completions, Counted, Device, Error, Faults, Faulty, Flags, Geometry, Memory, Null, Op,
    Outcome, Request, StatusExtent,
};
use onego_buf::List;
use onego_wire::{Machine as _, Time};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

fn memory(size: u64, block: u32) -> Rc<Memory> {
    let mut geometry = Geometry::new(size);
    (geometry.block, geometry.max_io) = (block, 1 << 20);
    Rc::new(Memory::new(geometry))
}

fn run(device: &dyn Device, offset: u64, op: Op) -> Outcome {
    let completions = Completions::default();
    device.submit(Time::default(), Request::new(completions.caller(0), offset, op));
    completions.take().unwrap().result.unwrap()
}

fn write(device: &dyn Device, offset: u64, bytes: Vec<u8>) {
    let mut at = offset;
    for piece in bytes.chunks(1 << 20) {
        run(device, at, Op::Write { data: List::from(piece) });
        at += piece.len() as u64;
    }
}

fn bytes(device: &dyn Device) -> Vec<u8> {
    let mut all = Vec::new();
    let size = device.geometry().size;
    while (all.len() as u64) < size {
        let length = (size - all.len() as u64).min(1 << 20);
        match run(device, all.len() as u64, Op::Read { length }) {
            Outcome::Data(data) => all.extend(data.to_vec()),
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Runs a copy to its end, advancing the time for devices that wait for it.
fn copy(from: &Rc<dyn Device>, to: &Rc<dyn Device>, plan: CopyPlan) -> (CopyHandle, Result<(), CopyError>) {
    let (mut copier, mut now) = (Copier::default(), Time::default());
    let handle = copier.start(Rc::clone(from), Rc::clone(to), plan);
    for _ in 0..1_000_000 {
        assert!(copier.next_action(now).is_none());
        if let Some(result) = handle.result() {
            return (handle, result);
        }
        now = copier.deadline().expect("the copy waits for something");
        copier.timeout(now);
    }
    panic!("the copy does not end: {handle:?}");
}

fn plan(piece: u64, grain: u64) -> CopyPlan {
    let mut plan = CopyPlan::default();
    (plan.piece, plan.grain, plan.depth) = (piece, grain, 4);
    plan
}

#[test]
fn holes_and_zeros_are_not_written_to_a_fresh_destination() {
    let (from, to) = (memory(4 << 20, 1), memory(4 << 20, 1));
    write(&*from, 1 << 20, vec![1; 4096]);
    write(&*from, 2 << 20, vec![0; 1 << 20]);
    write(&*from, (2 << 20) + 8192, vec![2; 10]);
    let (from, counted): (Rc<dyn Device>, _) = (from, Rc::new(Counted::new(to.clone())));
    let to_counted: Rc<dyn Device> = counted.clone();
    let mut plan = CopyPlan::default();
    plan.reads_as_zeros = true;
    let (handle, result) = copy(&from, &to_counted, plan);
    result.unwrap();
    let progress = handle.progress();
    assert_eq!((progress.done, progress.data, progress.zeros), (4 << 20, 8192, (4 << 20) - 8192));
    assert!(bytes(&*from) == bytes(&*to));
    assert!(to.pinned() < 10_000, "{}", to.pinned());
}

#[test]
fn old_bytes_of_the_destination_become_the_sources_zeros() {
    let (from, to) = (memory(1 << 20, 1), memory((1 << 20) + 4096, 1));
    write(&*from, 100_000, vec![1; 5000]);
    write(&*to, 0, vec![9; (1 << 20) + 4096]);
    let (from, to): (Rc<dyn Device>, Rc<dyn Device>) = (from, to);
    copy(&from, &to, CopyPlan::default()).1.unwrap();
    let copied = bytes(&*to);
    assert!(copied[..1 << 20] == bytes(&*from));
    assert_eq!(copied[1 << 20..], [9; 4096], "bytes after the source are preserved");
    match run(&*to, 0, Op::Status { length: 98_304 }) {
        Outcome::Status(runs) => {
            assert_eq!(runs, [StatusExtent { length: 98_304, status: BlockStatus::HOLE }]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn zeros_of_the_destination_are_not_zeroed_again() {
    let (from, to) = (memory(300 << 20, 512), memory(300 << 20, 4096));
    write(&*from, 7 << 20, vec![1; 4096]);
    // One block in each of two ranges of status requests, and one at their border.
    for at in [1 << 20, 71 << 20, 200 << 20] {
        write(&*to, at, vec![9; 8192]);
    }
    let (from, counted): (Rc<dyn Device>, _) = (from, Rc::new(Zeroed::new(to.clone())));
    let to_counted: Rc<dyn Device> = counted.clone();
    copy(&from, &to_counted, CopyPlan::default()).1.unwrap();
    let border = (71 << 20) + 4096;
    let expected = [(1 << 20, 8192), (border - 4096, 4096), (border, 4096), (200 << 20, 8192)];
    assert_eq!(*counted.zeroed.borrow(), expected);
    assert!(to.pinned() < 10_000, "{}", to.pinned());
    // A destination without a status is zeroed completely, and only the first pieces request it.
    let silent = Rc::new(Zeroed { says: false, ..Zeroed::new(memory(300 << 20, 4096)) });
    copy(&from, &(silent.clone() as _), CopyPlan::default()).1.unwrap();
    let zeroed: u64 = silent.zeroed.borrow().iter().map(|(_, length)| length).sum();
    assert_eq!(zeroed, (300 << 20) - 4096);
    assert!(silent.asked.get() <= CopyPlan::default().depth as u32);
}

/// Memory that records zeroed ranges, and optionally reports no status.
struct Zeroed {
    memory: Rc<Memory>,
    says: bool,
    zeroed: RefCell<Vec<(u64, u64)>>,
    asked: Cell<u32>,
}

impl Zeroed {
    fn new(memory: Rc<Memory>) -> Self {
        Self { memory, says: true, zeroed: RefCell::default(), asked: Cell::default() }
    }
}

impl Device for Zeroed {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        match request.op {
            Op::Zero { length } => self.zeroed.borrow_mut().push((request.offset, length)),
            Op::Status { .. } => self.asked.set(self.asked.get() + 1),
            _ => {}
        }
        if matches!(request.op, Op::Status { .. }) && !self.says {
            return request.complete(now, Err(Error::Unsupported("report the status of its bytes")));
        }
        self.memory.submit(now, request);
    }
}

#[test]
fn a_continued_copy_preserves_earlier_bytes() {
    let (from, to) = (memory(3 << 20, 1), memory(3 << 20, 1));
    write(&*from, 0, vec![1; 3 << 20]);
    let (from, to): (Rc<dyn Device>, Rc<dyn Device>) = (from, to);
    let mut plan = CopyPlan::default();
    plan.start = 2 << 20;
    let (handle, result) = copy(&from, &to, plan);
    result.unwrap();
    assert_eq!(handle.progress().data, 1 << 20);
    assert!(bytes(&*to) == [vec![0; 2 << 20], vec![1; 1 << 20]].concat());
}

#[test]
fn a_comparison_finds_what_differs_in_its_ranges_and_fails_as_its_devices_do() {
    let (from, to) = (memory(3 << 20, 1), memory(3 << 20, 1));
    write(&*to, 2 << 20, vec![1]);
    let compare = |from: Rc<dyn Device>, to: Rc<dyn Device>, ranges: &[std::ops::Range<u64>]| {
        let mut copier = Copier::default();
        let handle = copier.compare(from, to, ranges.to_vec(), 64 << 10);
        assert!(copier.next_action(Time::default()).is_none());
        let mut result = std::pin::pin!(handle.result());
        match result.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => panic!("memory waits for nothing"),
        }
    };
    let outside = [0..2 << 20, (2 << 20) + 1..3 << 20];
    assert_eq!(compare(from.clone(), to.clone(), &outside), Ok(None));
    assert_eq!(
        compare(from.clone(), to.clone(), std::slice::from_ref(&(100..3 << 20))).unwrap().unwrap()
            / (64 << 10),
        31
    );
    assert_eq!(compare(from.clone(), to.clone(), &[]), Ok(None));
    let broken: Rc<dyn Device> = Rc::new(Broken(from.clone()));
    for (from, to, side) in [
        (broken.clone(), from.clone() as _, CopySide::Source),
        (from.clone() as _, broken, CopySide::Destination),
    ] {
        let failed = compare(from, to, std::slice::from_ref(&(0..2 << 20))).unwrap_err();
        assert!(matches!(failed, CopyError::Device { side: found, .. } if found == side), "{failed}");
    }
}

#[test]
fn a_comparison_reports_its_progress() {
    let (from, to) = (memory(3 << 20, 1), memory(3 << 20, 1));
    let mut copier = Copier::default();
    let handle = copier.compare(from, to, [0..1 << 20, 2 << 20..3 << 20], 64 << 10);
    let poll = |done| {
        let mut beyond = std::pin::pin!(handle.beyond(done));
        beyond.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    assert_eq!((handle.done(), poll(0)), (0, std::task::Poll::Pending));
    assert!(copier.next_action(Time::default()).is_none());
    assert_eq!((handle.done(), poll(u64::MAX)), (2 << 20, std::task::Poll::Ready(true)));
}

#[test]
fn a_destination_that_cannot_take_the_source_is_refused() {
    let from: Rc<dyn Device> = memory(4097, 1);
    let small: Rc<dyn Device> = memory(4096, 1);
    let refused = copy(&from, &small, CopyPlan::default()).1;
    assert_eq!(refused, Err(CopyError::TooSmall { source_size: 4097, size: 4096 }));
    let mut geometry = Geometry::new(8192);
    geometry.read_only = true;
    let fixed: Rc<dyn Device> = Rc::new(Memory::new(geometry));
    assert_eq!(copy(&from, &fixed, CopyPlan::default()).1, Err(CopyError::ReadOnly));
}

#[test]
fn an_error_names_its_side_and_place() {
    let broken = |size| -> Rc<dyn Device> { Rc::new(Broken(memory(size, 1))) };
    let good = |size| -> Rc<dyn Device> {
        let device = memory(size, 1);
        write(&*device, 0, vec![1; 1 << 20]);
        write(&*device, 1 << 20, vec![1; 1 << 20]);
        device
    };
    for (from, to, side) in [
        (broken(2 << 20), good(2 << 20), CopySide::Source),
        (good(2 << 20), broken(2 << 20), CopySide::Destination),
    ] {
        let failed = copy(&from, &to, CopyPlan::default()).1.unwrap_err();
        let expected =
            CopyError::Device { side, offset: 1 << 20, length: 1 << 20, source: Error::Failed("bad".into()) };
        assert_eq!(failed, expected);
        assert!(failed.to_string().contains("offset 1048576, length 1048576: bad"), "{failed}");
    }
}

/// A device that fails after its first MiB, and does not know its holes.
struct Broken(Rc<Memory>);

impl Device for Broken {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        match &request.op {
            Op::Status { .. } => request.complete(now, Err(Error::Unsupported("tell"))),
            Op::Flush => request.complete(now, Ok(Outcome::Done)),
            _ if request.offset >= 1 << 20 => request.complete(now, Err(Error::Failed("bad".into()))),
            _ => self.0.submit(now, request),
        }
    }
}

#[test]
fn a_failed_flush_fails_the_copy() {
    struct NoFlush(Rc<Memory>);
    impl Device for NoFlush {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }

        fn submit(&self, now: Time, request: Request) {
            match request.op {
                Op::Flush => request.complete(now, Err(Error::Failed("full".into()))),
                _ => self.0.submit(now, request),
            }
        }
    }
    let from: Rc<dyn Device> = memory(4096, 1);
    let to: Rc<dyn Device> = Rc::new(NoFlush(memory(4096, 1)));
    assert_eq!(copy(&from, &to, CopyPlan::default()).1, Err(CopyError::Flush(Error::Failed("full".into()))));
}

#[test]
fn null_and_empty_devices_can_be_copied() {
    let from: Rc<dyn Device> = Rc::new(Null::new(Geometry::new(1 << 40)));
    let to: Rc<dyn Device> = Rc::new(Null::new(Geometry::new(1 << 40)));
    let (handle, result) = copy(&from, &to, CopyPlan::default());
    result.unwrap();
    assert_eq!(handle.progress().zeros, 1 << 40);
    let empty: Rc<dyn Device> = memory(0, 1);
    copy(&empty, &to, CopyPlan::default()).1.unwrap();
}

proptest! {
    #[test]
    fn a_copy_has_the_bytes_of_its_source(
        writes in prop::collection::vec((0..100_000_u64, 1..30_000_u64, any::<bool>()), 0..8),
        size in 1..100_000_u64,
        blocks in (0..10_u32, 0..10_u32),
        (piece, grain) in (12..17_u32, 5..12_u32),
        fresh in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (from_block, to_block) = (1 << blocks.0, 1 << blocks.1);
        let size = size.next_multiple_of(from_block.into());
        let from = memory(size, 1);
        for (offset, length, ones) in writes {
            let length = length.min(size.saturating_sub(offset));
            if length > 0 {
                write(&*from, offset, vec![u8::from(ones); length as usize]);
            }
        }
        let expected = bytes(&*from);
        // The same memory behind larger blocks, and behind delays.
        let from: Rc<dyn Device> = Rc::new(Blocks { under: from, block: from_block });
        let under = memory(size.next_multiple_of(to_block.into()), 1);
        if !fresh {
            let ones = vec![7; under.geometry().size as usize];
            write(&*under, 0, ones);
        }
        let to: Rc<dyn Device> = Rc::new(Blocks { under: Rc::clone(&under), block: to_block });
        let faults = Faults { failing: 0.0, delay: Duration::from_millis(5) };
        let from: Rc<dyn Device> = Rc::new(Faulty::new(from, words(seed), faults));
        let to: Rc<dyn Device> = Rc::new(Faulty::new(to, words(!seed), faults));
        let mut plan = plan(1 << piece, 1 << grain);
        plan.reads_as_zeros = fresh;
        copy(&from, &to, plan).1.unwrap();
        prop_assert!(bytes(&*under)[..size as usize] == expected);
    }
}

/// Returns random numbers by seed.
fn words(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 16
    }
}

/// A device with larger blocks, which refuses unaligned requests.
struct Blocks {
    under: Rc<Memory>,
    block: u32,
}

impl Device for Blocks {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.under.geometry();
        geometry.block = self.block;
        geometry
    }

    fn submit(&self, now: Time, request: Request) {
        match self.geometry().check(&request) {
            Ok(()) => self.under.submit(now, request.with_flags(Flags::default())),
            Err(error) => request.complete(now, Err(error)),
        }
    }
}
