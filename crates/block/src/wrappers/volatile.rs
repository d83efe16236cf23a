use crate::device::Device;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::memory::Memory;
use crate::outcome::Outcome;
use crate::request::{Flags, Op, Request};
use onego_buf::List;
use onego_wire::Time;
use std::cell::RefCell;

/// A device in memory with a volatile cache, for tests: in a crash, the test decides which unflushed changes survive.
pub struct Volatile {
    cached: RefCell<Memory>,
    /// Content that survives a crash.
    durable: RefCell<Memory>,
    changes: RefCell<Vec<Change>>,
}

struct Change {
    offset: u64,
    length: u64,
    /// `None`: zeros.
    data: Option<List>,
}

impl Change {
    fn of(request: &Request) -> Option<Self> {
        let (offset, length) = (request.offset, request.length());
        match &request.op {
            Op::Write { data } => Some(Self { offset, length, data: Some(data.clone()) }),
            Op::Trim { .. } | Op::Zero { .. } => Some(Self { offset, length, data: None }),
            _ => None,
        }
    }

    fn apply(self, memory: &Memory) {
        let op = match self.data {
            Some(data) => Op::Write { data },
            None => Op::Zero { length: self.length },
        };
        // The request was already checked.
        let _ = memory.carry_out(self.offset, op, Flags::default());
    }
}

impl Volatile {
    /// Creates a device of that geometry that reads as zeros.
    pub fn new(geometry: Geometry) -> Self {
        let geometry = Geometry { volatile_cache: true, ..geometry };
        Self {
            cached: RefCell::new(Memory::new(geometry)),
            durable: RefCell::new(Memory::new(geometry)),
            changes: RefCell::default(),
        }
    }

    /// Simulates a power failure: keeps the unflushed changes for which `survives` returns true.
    pub fn crash(&self, mut survives: impl FnMut() -> bool) {
        let durable = self.durable.borrow();
        for change in self.changes.borrow_mut().drain(..) {
            if survives() {
                change.apply(&durable);
            }
        }
        *self.cached.borrow_mut() = durable.copied();
    }

    fn flush(&self) {
        let durable = self.durable.borrow();
        self.changes.borrow_mut().drain(..).for_each(|change| change.apply(&durable));
    }
}

impl Device for Volatile {
    fn geometry(&self) -> Geometry {
        // It stands for a disk.
        Geometry { gains_by_merging: true, ..self.cached.borrow().geometry() }
    }

    fn submit(&self, now: Time, request: Request) {
        let result = self.geometry().check(&request);
        let change = Change::of(&request);
        let Request { offset, op, flags, caller } = request;
        let is_flush = matches!(op, Op::Flush);
        let carry_out = |()| -> Result<Outcome, Error> { self.cached.borrow().carry_out(offset, op, flags) };
        let result = result.and_then(carry_out);
        if result.is_ok() {
            match change {
                // Older changes of the same bytes must not overwrite it, so the cache is flushed first.
                Some(change) if flags.fua => {
                    self.flush();
                    change.apply(&self.durable.borrow());
                }
                Some(change) => self.changes.borrow_mut().push(change),
                None if is_flush => self.flush(),
                None => {}
            }
        }
        caller.complete(now, result);
    }
}
