use crate::caller::Caller;
use crate::device::Device;
use crate::geometry::Geometry;
use crate::request::{Op, Request};
use onego_wire::Time;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Counters of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Completed reads.
    pub reads: u64,
    /// Bytes requested by them.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Completed flushes, trims, zeroes and status requests.
    pub others: u64,
    /// Failed requests, which are also counted above.
    pub errors: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Total time in flight of all requests.
    pub busy: Duration,
}

/// A device that counts the requests of another.
pub struct Counted<D> {
    device: D,
    counters: Rc<Cell<Counters>>,
}

impl<D: Device> Counted<D> {
    /// Wraps `device`.
    pub fn new(device: D) -> Self {
        Self { device, counters: Rc::default() }
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }
}

fn share(request: &Request) -> Counters {
    let (length, none) = (request.length(), Counters::default());
    match &request.op {
        Op::Read { .. } | Op::ReadInto { .. } => Counters { reads: 1, read_bytes: length, ..none },
        Op::Write { .. } => Counters { writes: 1, written_bytes: length, ..none },
        Op::Flush | Op::Trim { .. } | Op::Zero { .. } | Op::Status { .. } => Counters { others: 1, ..none },
    }
}

impl Counters {
    fn add(&mut self, share: &Self) {
        self.reads += share.reads;
        self.read_bytes += share.read_bytes;
        self.writes += share.writes;
        self.written_bytes += share.written_bytes;
        self.others += share.others;
    }
}

impl<D: Device> Device for Counted<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn keeps_time(&self) -> bool {
        self.device.keeps_time()
    }

    fn submit(&self, now: Time, request: Request) {
        let (counters, share) = (Rc::clone(&self.counters), share(&request));
        counters.update(|mut counters| {
            counters.in_flight += 1;
            counters
        });
        let Request { offset, op, flags, caller } = request;
        let caller = Caller::call(move |then, result| {
            counters.update(|mut counters| {
                counters.add(&share);
                counters.in_flight -= 1;
                counters.errors += u64::from(result.is_err());
                counters.busy += then.since(now);
                counters
            });
            caller.complete(then, result);
        });
        self.device.submit(now, Request { offset, op, flags, caller });
    }

    fn due_at(&self) -> Option<Time> {
        self.device.due_at()
    }

    fn due(&self, now: Time) {
        self.device.due(now);
    }
}
