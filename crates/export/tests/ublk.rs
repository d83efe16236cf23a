//! The machine that serves a queue of the kernel's, with a kernel in memory.

mod support;

use onego_block::{Device, Error, Export as _, Geometry, Memory, Request};
use onego_buf::SegmentMut;
use onego_export::ublk::{DESCRIPTOR, Fetched, KernelQueue, Target};
use onego_wire::{Action, ConnTable, Disconnect, Machine as _, Time};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use support::devices::Late;

const DEPTH: u16 = 4;
const MAX_IO: u32 = 16 << 10;
const SIZE: u64 = 256 << 10;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const ZEROES: u32 = 5;

/// What the kernel has of a queue, for the machine and for the test.
#[derive(Clone, Default)]
struct Kernel(Rc<RefCell<KernelState>>);

#[derive(Default)]
struct KernelState {
    /// Commands that are not handed over yet: tag, result of a commit, buffer.
    queued: Vec<(u16, Option<i32>, SegmentMut)>,
    /// Buffers of the tags without requests.
    idle: BTreeMap<u16, SegmentMut>,
    /// Tags of requests that are not committed, with the bytes that they read.
    out: BTreeMap<u16, usize>,
    ready: VecDeque<Fetched>,
    /// Results of requests, and the bytes that were read.
    done: BTreeMap<u16, (i32, Vec<u8>)>,
    submits: usize,
    broken: bool,
}

impl KernelQueue for Kernel {
    fn depth(&self) -> u16 {
        DEPTH
    }

    fn max_io(&self) -> u32 {
        MAX_IO
    }

    fn watched(&self) -> io::Result<OwnedFd> {
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn fetch(&mut self, tag: u16, buffer: SegmentMut) {
        self.0.borrow_mut().queued.push((tag, None, buffer));
    }

    fn commit(&mut self, tag: u16, result: i32, buffer: SegmentMut) {
        self.0.borrow_mut().queued.push((tag, Some(result), buffer));
    }

    fn submit(&mut self) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        if state.broken {
            return Err(io::ErrorKind::Other.into());
        }
        state.submits += 1;
        for (tag, result, buffer) in state.queued.drain(..) {
            assert!(buffer.len() >= MAX_IO as usize, "a buffer of {} bytes", buffer.len());
            if let Some(result) = result {
                let reads = state.out.remove(&tag).expect("a request is committed once");
                assert!(result < 0 || reads == 0 || result as usize == reads);
                state.done.insert(tag, (result, buffer[..reads].to_vec()));
            }
            assert!(state.idle.insert(tag, buffer).is_none(), "the kernel has a buffer of tag {tag}");
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Fetched> {
        self.0.borrow_mut().ready.pop_front()
    }
}

/// A machine, its kernel, and the users of the block device.
struct Bench {
    target: Target<Kernel>,
    kernel: Kernel,
    now: Time,
}

impl Bench {
    fn new(device: Rc<dyn Device>) -> Self {
        let kernel = Kernel::default();
        let mut target = Target::new();
        target.serve(kernel.clone(), device).unwrap();
        let mut this = Self { target, kernel, now: Time::default() };
        assert!(matches!(this.target.next_action(this.now), Some(Action::Watch { .. })));
        this.settle();
        assert_eq!(this.kernel.0.borrow().idle.len(), usize::from(DEPTH));
        this
    }

    /// Whatever drives the machine asks it again for as long as devices have completed requests.
    fn settle(&mut self) {
        loop {
            assert!(self.target.next_action(self.now).is_none());
            if !self.target.has_completions() {
                return;
            }
        }
    }

    /// The kernel has a request; its tag.
    fn ask(&mut self, op_flags: u32, sectors: u32, start: u64, data: &[u8]) -> u16 {
        let mut descriptor = [0; DESCRIPTOR];
        descriptor[..4].copy_from_slice(&op_flags.to_ne_bytes());
        descriptor[4..8].copy_from_slice(&sectors.to_ne_bytes());
        descriptor[8..16].copy_from_slice(&start.to_ne_bytes());
        let mut state = self.kernel.0.borrow_mut();
        let (tag, mut buffer) = state.idle.pop_first().expect("a tag without a request");
        buffer[..data.len()].copy_from_slice(data);
        let reads = if op_flags & 0xff == READ { sectors as usize * 512 } else { 0 };
        state.out.insert(tag, reads.min(MAX_IO as usize));
        state.ready.push_back(Fetched::Request { tag, descriptor, buffer });
        tag
    }

    /// The machine looks at what has come.
    fn turn(&mut self) {
        self.target.ready(self.now, ConnTable::<()>::default().reserve());
        self.settle();
    }

    /// What became of a request.
    fn result(&self, tag: u16) -> Option<(i32, Vec<u8>)> {
        self.kernel.0.borrow_mut().done.remove(&tag)
    }

    /// One request from its beginning to its end.
    fn carry_out(&mut self, op_flags: u32, sectors: u32, start: u64, data: &[u8]) -> (i32, Vec<u8>) {
        let tag = self.ask(op_flags, sectors, start, data);
        self.turn();
        self.result(tag).expect("the request is done")
    }
}

fn memory() -> Rc<Memory> {
    Rc::new(Memory::new(Geometry::new(SIZE)))
}

#[test]
fn what_is_written_is_read_again() {
    let mut bench = Bench::new(memory());
    assert_eq!(bench.carry_out(WRITE, 2, 7, &[5; 1024]), (1024, vec![]));
    let (result, data) = bench.carry_out(READ, 4, 6, &[]);
    assert_eq!((result, data), (2048, [[0; 512], [5; 512], [5; 512], [0; 512]].concat()));
    assert_eq!(bench.carry_out(FLUSH, 0, 0, &[]).0, 0);
    assert_eq!(bench.carry_out(DISCARD, 1, 7, &[]).0, 0);
    assert_eq!(bench.carry_out(ZEROES | 1 << 15, 1, 8, &[]).0, 0);
    assert_eq!(bench.carry_out(READ, 4, 6, &[]), (2048, vec![0; 2048]));
}

#[test]
fn a_written_buffer_is_the_devices_and_the_tag_gets_another() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut bench = Bench::new(device.clone());
    let tag = bench.ask(WRITE, 8, 0, &[9; 4096]);
    bench.turn();
    assert_eq!((bench.target.in_flight(), bench.result(tag)), (1, None));
    device.complete_all(bench.now);
    bench.settle();
    assert_eq!(bench.result(tag).unwrap().0, 4096);
    assert_eq!(bench.target.in_flight(), 0);
    // The next write of the tag does not change what was written.
    for _ in 0..DEPTH {
        bench.ask(WRITE, 8, 64, &[1; 4096]);
    }
    bench.turn();
    device.complete_all(bench.now);
    bench.settle();
    let tag = bench.ask(READ, 8, 0, &[]);
    bench.turn();
    device.complete_all(bench.now);
    bench.settle();
    assert_eq!(bench.result(tag).unwrap(), (4096, vec![9; 4096]));
}

#[test]
fn requests_of_one_wake_up_are_handed_over_together_and_merged() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut bench = Bench::new(device.clone());
    for start in [0, 8, 16, 24] {
        bench.ask(WRITE, 8, start, &[start as u8; 4096]);
    }
    bench.turn();
    assert_eq!(device.held(), 1);
    let before = bench.kernel.0.borrow().submits;
    device.complete_all(bench.now);
    bench.settle();
    let state = bench.kernel.0.borrow();
    assert_eq!((state.done.len(), state.submits), (4, before + 1));
}

/// A device that fails with an error.
struct Failing(Error);

impl Device for Failing {
    fn geometry(&self) -> Geometry {
        Geometry::new(SIZE)
    }

    fn submit(&self, now: Time, request: Request) {
        request.complete(now, Err(self.0.clone()));
    }
}

#[test]
fn errors_are_numbers_that_the_block_layer_knows() {
    for (error, errno) in [
        (Error::NoSpace("full".into()), 28),
        (Error::Unsupported("do that"), 95),
        (Error::TimedOut("the cluster".into()), 110),
        (Error::ReadOnly, 5),
        (Error::Dropped, 5),
        (Error::Failed("broken".into()), 5),
    ] {
        let mut bench = Bench::new(Rc::new(Failing(error)));
        for (op, sectors) in [(READ, 8), (WRITE, 8), (FLUSH, 0), (DISCARD, 8), (ZEROES, 8)] {
            assert_eq!(bench.carry_out(op, sectors, 0, &[]).0, -errno);
        }
        // Each tag still has a buffer.
        assert_eq!(bench.kernel.0.borrow().idle.len(), usize::from(DEPTH));
    }
}

#[test]
fn requests_that_no_device_could_do_fail_and_the_queue_goes_on() {
    let mut bench = Bench::new(memory());
    for (op, sectors, start) in
        [(4, 8, 0), (READ, 1, SIZE / 512), (WRITE, 1, u64::MAX), (READ, 0, 0), (WRITE, 64, 0)]
    {
        assert_eq!(bench.carry_out(op, sectors, start, &[]).0, -5);
    }
    assert_eq!(bench.carry_out(WRITE, 1, 0, &[1; 512]).0, 512);
}

#[test]
fn a_queue_whose_device_was_stopped_is_over() {
    let mut bench = Bench::new(memory());
    bench.carry_out(WRITE, 1, 0, &[1; 512]);
    for tag in 0..DEPTH {
        assert!(!bench.target.is_over());
        bench.kernel.0.borrow_mut().ready.push_back(Fetched::Ended { tag, errno: 19 });
        bench.turn();
    }
    assert!(bench.target.is_over());
    assert!(bench.target.failure().is_none());
}

#[test]
fn what_the_kernel_refuses_is_a_failure() {
    let mut bench = Bench::new(memory());
    bench.kernel.0.borrow_mut().ready.push_back(Fetched::Ended { tag: 1, errno: 22 });
    bench.turn();
    let failure = bench.target.failure().unwrap().to_string();
    assert!(failure.contains("tag 1"), "{failure}");
    bench.kernel.0.borrow_mut().broken = true;
    bench.ask(FLUSH, 0, 0, &[]);
    bench.turn();
    assert!(bench.target.failure().is_some());
    let name = ConnTable::<()>::default().reserve();
    bench.target.disconnected(bench.now, name, Disconnect::Closed);
    assert!(bench.target.failure().is_some());
}

/// A request, as sectors.
#[derive(Debug, Clone)]
enum Asked {
    Read(u64, u32),
    Write(u64, u32, u8),
    Zero(u64, u32, bool),
    /// The device does what it holds, the last first.
    Complete,
}

fn asked() -> impl Strategy<Value = Asked> {
    let range =
        || (0..SIZE / 512, 1..=MAX_IO / 512).prop_map(|(at, n)| (at, n.min((SIZE / 512 - at) as u32)));
    prop_oneof![
        3 => range().prop_map(|(at, n)| Asked::Read(at, n)),
        3 => (range(), any::<u8>()).prop_map(|((at, n), byte)| Asked::Write(at, n, byte)),
        1 => (range(), any::<bool>()).prop_map(|((at, n), no_hole)| Asked::Zero(at, n, no_hole)),
        2 => Just(Asked::Complete),
    ]
}

proptest! {
    #[test]
    fn a_device_reads_as_what_was_written_to_it(asked in proptest::collection::vec(asked(), 1..60)) {
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut bench = Bench::new(device.clone());
        let mut disk = vec![0; SIZE as usize];
        let mut out: Vec<(u16, Option<Vec<u8>>)> = Vec::new();
        let finish = |bench: &mut Bench, out: &mut Vec<(u16, Option<Vec<u8>>)>| {
            device.complete_all(bench.now);
            bench.settle();
            for (tag, expected) in out.drain(..) {
                let (result, data) = bench.result(tag).expect("the request is done");
                assert!(result >= 0);
                assert!(expected.is_none_or(|expected| expected == data));
            }
        };
        for one in asked {
            let range = |at: u64, n: u32| at as usize * 512..(at as usize + n as usize) * 512;
            // One at a time: in which order those in flight are carried out is the device's affair.
            match one {
                Asked::Read(at, n) => {
                    let tag = bench.ask(READ, n, at, &[]);
                    out.push((tag, Some(disk[range(at, n)].to_vec())));
                }
                Asked::Write(at, n, byte) => {
                    finish(&mut bench, &mut out);
                    disk[range(at, n)].fill(byte);
                    out.push((bench.ask(WRITE, n, at, &disk[range(at, n)]), None));
                }
                Asked::Zero(at, n, no_hole) => {
                    finish(&mut bench, &mut out);
                    disk[range(at, n)].fill(0);
                    let flags = if no_hole { 1 << 15 } else { 0 };
                    out.push((bench.ask(ZEROES | flags, n, at, &[]), None));
                }
                Asked::Complete => {}
            }
            bench.turn();
            if matches!(one, Asked::Complete | Asked::Write(..) | Asked::Zero(..)) || out.len() == usize::from(DEPTH) {
                finish(&mut bench, &mut out);
            }
        }
        finish(&mut bench, &mut out);
    }
}
