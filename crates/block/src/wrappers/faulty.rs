use crate::device::Device;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::request::Request;
use onego_wire::Time;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Faults of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Share of requests that fail, 0 to 1.
    pub failing: f64,
    /// Maximum delay before the device receives a request; later ones overtake it.
    pub delay: Duration,
}

/// A device that fails and delays the requests of another at random, for tests. A failed request is not executed.
pub struct Faulty<D> {
    device: D,
    state: RefCell<State>,
}

struct State {
    faults: Faults,
    random: Box<dyn FnMut() -> u64>,
    /// Requests by the end of their delay, and by a number that makes the key unique.
    delayed: BTreeMap<(Time, u64), Request>,
    number: u64,
}

impl<D: Device> Faulty<D> {
    /// Wraps `device`. `random` returns any number; a seeded generator makes the faults reproducible.
    pub fn new(device: D, random: impl FnMut() -> u64 + 'static, faults: Faults) -> Self {
        let random = Box::new(random);
        Self { device, state: RefCell::new(State { faults, random, delayed: BTreeMap::new(), number: 0 }) }
    }

    /// Changes the faults of later requests.
    pub fn set_faults(&self, faults: Faults) {
        self.state.borrow_mut().faults = faults;
    }
}

impl State {
    fn fails(&mut self) -> bool {
        (((self.random)() >> 11) as f64) < self.faults.failing * (1u64 << 53) as f64
    }

    fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.faults.delay.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos((self.random)() % most.saturating_add(1).max(1))
    }

    fn take_due(&mut self, now: Time) -> Option<Request> {
        let first = self.delayed.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

impl<D: Device> Device for Faulty<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        let mut state = self.state.borrow_mut();
        if state.fails() {
            drop(state);
            return request.complete(now, Err(Error::Failed("injected fault".into())));
        }
        let delay = state.delay();
        if delay.is_zero() {
            drop(state);
            return self.device.submit(now, request);
        }
        state.number += 1;
        let key = (now + delay, state.number);
        state.delayed.insert(key, request);
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn due_at(&self) -> Option<Time> {
        let next = self.state.borrow().delayed.keys().next().map(|(at, _)| *at);
        next.into_iter().chain(self.device.due_at()).min()
    }

    fn due(&self, now: Time) {
        self.device.due(now);
        while let Some(request) = { self.state.borrow_mut().take_due(now) } {
            self.device.submit(now, request);
        }
    }
}
