//! Devices that behave as tests want.

use onego_block::{Device, Geometry, Memory, Request};
use onego_wire::Time;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Memory whose requests complete when a test says so, in the order that it says.
pub(crate) struct Late {
    pub(crate) memory: Memory,
    geometry: Cell<Geometry>,
    held: RefCell<Vec<Request>>,
    /// Each request completes by itself after that.
    delay: Option<Duration>,
    due: Cell<Option<Time>>,
}

impl Late {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let memory = Memory::new(geometry);
        let (held, due) = (RefCell::default(), Cell::default());
        let mut geometry = memory.geometry();
        // What waits is better off as one.
        geometry.gains_by_merging = true;
        Self { geometry: Cell::new(geometry), memory, held, delay: None, due }
    }

    pub(crate) fn with_delay(geometry: Geometry, delay: Duration) -> Self {
        Self { delay: Some(delay), ..Self::new(geometry) }
    }

    /// Changes the size that the device says it has; its memory stays.
    pub(crate) fn resize(&self, size: u64) {
        let mut geometry = self.geometry.get();
        geometry.size = size;
        self.geometry.set(geometry);
    }

    /// Requests that wait.
    pub(crate) fn held(&self) -> usize {
        self.held.borrow().len()
    }

    /// Bytes of the requests that wait, each with its kind.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.held.borrow().iter().map(|request| format!("{:?}", request.op)).collect()
    }

    /// Whether each request that waits must be durable before it completes.
    pub(crate) fn are_fua(&self) -> Vec<bool> {
        self.held.borrow().iter().map(|request| request.flags.fua).collect()
    }

    /// Carries out the request at that place of those that wait.
    pub(crate) fn complete(&self, now: Time, at: usize) {
        let request = self.held.borrow_mut().remove(at);
        self.memory.submit(now, request);
    }

    /// Carries out all that wait, the last first.
    pub(crate) fn complete_all(&self, now: Time) {
        while self.held() > 0 {
            self.complete(now, self.held() - 1);
        }
    }

    /// Drops all that wait, as a device does that is gone.
    pub(crate) fn drop_all(&self) {
        self.held.take();
    }
}

/// Memory that keeps no time, and must not be asked for it.
pub(crate) struct Timeless(pub(crate) Memory);

impl Device for Timeless {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        self.0.submit(now, request);
    }

    fn due_at(&self) -> Option<Time> {
        panic!("it keeps no time");
    }
}

impl Device for Late {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    fn submit(&self, now: Time, request: Request) {
        self.held.borrow_mut().push(request);
        if let Some(delay) = self.delay {
            self.due.set(self.due.get().or(Some(now + delay)));
        }
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn due_at(&self) -> Option<Time> {
        self.due.get()
    }

    fn due(&self, now: Time) {
        self.due.set(None);
        self.complete_all(now);
    }
}
