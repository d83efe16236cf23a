//! The machine that serves a queue of the kernel's, with a kernel in memory.

use crate::support::devices::Late;
use crate::support::kernel::{DEPTH, DISCARD, FLUSH, Kernel, MAX_IO, READ, WRITE, ZEROES};
use onego_block::{Device, Error, Export as _, Geometry, Memory, Request};
use onego_export::ublk::{Fetched, Target};
use onego_wire::{Action, ConnTable, Disconnect, Machine as _, Time};
use proptest::prelude::*;
use std::rc::Rc;

const SIZE: u64 = 256 << 10;

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
        assert_eq!(this.kernel.state().idle.len(), usize::from(DEPTH));
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
        self.kernel.ask(op_flags, sectors, start, data).expect("a tag without a request")
    }

    /// The machine looks at what has come.
    fn turn(&mut self) {
        self.target.ready(self.now, ConnTable::<()>::default().reserve());
        self.settle();
    }

    /// One request from its beginning to its end.
    fn carry_out(&mut self, op_flags: u32, sectors: u32, start: u64, data: &[u8]) -> (i32, Vec<u8>) {
        let tag = self.ask(op_flags, sectors, start, data);
        self.turn();
        self.kernel.result(tag).expect("the request is done")
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
    assert_eq!((bench.target.in_flight(), bench.kernel.result(tag)), (1, None));
    device.complete_all(bench.now);
    bench.settle();
    assert_eq!(bench.kernel.result(tag).unwrap().0, 4096);
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
    assert_eq!(bench.kernel.result(tag).unwrap(), (4096, vec![9; 4096]));
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
    let before = bench.kernel.state().submits;
    device.complete_all(bench.now);
    bench.settle();
    let state = bench.kernel.state();
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
        assert_eq!(bench.kernel.state().idle.len(), usize::from(DEPTH));
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
        bench.kernel.state().ready.push_back(Fetched::Ended { tag, errno: 19 });
        bench.turn();
    }
    assert!(bench.target.is_over());
    assert!(bench.target.failure().is_none());
}

#[test]
fn what_the_kernel_refuses_is_a_failure() {
    let mut bench = Bench::new(memory());
    bench.kernel.state().ready.push_back(Fetched::Ended { tag: 1, errno: 22 });
    bench.turn();
    let failure = bench.target.failure().unwrap().to_string();
    assert!(failure.contains("tag 1"), "{failure}");
    bench.kernel.state().broken = true;
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
                let (result, data) = bench.kernel.result(tag).expect("the request is done");
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
