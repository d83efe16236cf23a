use crate::device::Device;
use crate::geometry::Geometry;
use crate::request::{Op, Request};
use onego_wire::Time;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// Rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Rate per second, at least 1.
    pub per_second: u64,
    /// Burst after a pause, at least 1.
    pub burst: u64,
}

/// Limits of a device, or of several that share them.
#[derive(Debug)]
pub struct Limit {
    operations: Option<Bucket>,
    bytes: Option<Bucket>,
}

/// Token bucket. A request that finds a token takes all that it needs, and may leave a debt, so that a request larger
/// than the burst passes, too.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    /// Tokens, in billionths.
    level: i128,
    at: Time,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        let rate = Rate { per_second: rate.per_second.max(1), burst: rate.burst.max(1) };
        Self { rate, level: i128::from(rate.burst) * SECOND as i128, at: Time::default() }
    }

    fn fill(&mut self, now: Time) {
        let full = i128::from(self.rate.burst) * SECOND as i128;
        let passed = now.since(self.at).as_nanos().min(u128::from(u64::MAX)) as i128;
        self.level = full.min(self.level.saturating_add(passed.saturating_mul(self.rate.per_second.into())));
        self.at = now;
    }

    fn wait(&self) -> Duration {
        let missing = (SECOND as i128 - self.level).max(0) as u128;
        let nanos = missing.div_ceil(u128::from(self.rate.per_second));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn take(&mut self, tokens: u64) {
        self.level -= i128::from(tokens) * SECOND as i128;
    }
}

impl Limit {
    /// Creates the limits; `None` means unlimited.
    pub fn new(operations: Option<Rate>, bytes: Option<Rate>) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { operations: operations.map(Bucket::new), bytes: bytes.map(Bucket::new) }))
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket> {
        self.operations.iter_mut().chain(&mut self.bytes)
    }

    /// Admits a request of `bytes`, or returns when to try again.
    fn admit(&mut self, now: Time, bytes: u64) -> Result<(), Time> {
        self.buckets().for_each(|bucket| bucket.fill(now));
        let wait = self.buckets().map(|bucket| bucket.wait()).max().unwrap_or_default();
        if wait > Duration::ZERO {
            return Err(now + wait);
        }
        if let Some(operations) = &mut self.operations {
            operations.take(1);
        }
        if let Some(all) = &mut self.bytes {
            all.take(bytes);
        }
        Ok(())
    }
}

/// A device that passes on the requests that its limit admits, and queues the rest in order. The callers' limits on
/// requests in flight bound the queue.
pub struct Limited<D> {
    device: D,
    limit: Rc<RefCell<Limit>>,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    until: Option<Time>,
}

impl<D: Device> Limited<D> {
    /// Limits `device`. Devices with the same limit share it.
    pub fn new(device: D, limit: Rc<RefCell<Limit>>) -> Self {
        Self { device, limit, waiting: RefCell::default() }
    }

    fn pass(&self, now: Time) {
        loop {
            let mut waiting = self.waiting.borrow_mut();
            waiting.until = None;
            let Some(first) = waiting.requests.front() else { return };
            if let Err(until) = self.limit.borrow_mut().admit(now, cost(first)) {
                waiting.until = Some(until);
                return;
            }
            let request = waiting.requests.pop_front();
            // The device may complete it immediately, and its caller submit the next.
            drop(waiting);
            request.into_iter().for_each(|request| self.device.submit(now, request));
        }
    }
}

/// Returns the bytes that count against the limit: those transferred.
fn cost(request: &Request) -> u64 {
    if request.op.carries_data() { request.length() } else { 0 }
}

impl<D: Device> Device for Limited<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        // A flush costs nothing, and the writes that it covers have completed.
        if let Op::Flush = request.op {
            return self.device.submit(now, request);
        }
        self.waiting.borrow_mut().requests.push_back(request);
        self.pass(now);
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn due_at(&self) -> Option<Time> {
        self.waiting.borrow().until.into_iter().chain(self.device.due_at()).min()
    }

    fn due(&self, now: Time) {
        self.device.due(now);
        self.pass(now);
    }
}
