//! The state machine for the disks of a reactor.

use crate::disk::Disk;
use crate::operation::Operation;
use onego_block::{Backend, Caller, Device, Error, Geometry, Outcome, Request};
use onego_buf::Pool;
use onego_engine::Waker;
use onego_service::{Executor, Jobs, Outcomes};
use onego_wire::{Layer, NoConnections, Time};
use slab::Slab;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Number of threads per reactor: enough to keep a disk's queue filled, and for a flush not to delay other requests.
const THREADS: usize = 16;

/// Maximum idle memory for reads and aligned writes, in bytes.
const POOL_LIMIT: usize = 32 << 20;

struct Job {
    disk: Disk,
    operation: Operation,
    tag: usize,
}

struct Finished {
    tag: usize,
    result: Result<Outcome, Error>,
}

struct Shared {
    executor: Executor<Job, Finished>,
    /// Callers of the requests in progress. The callers bound their number.
    callers: RefCell<Slab<Caller>>,
}

/// The state machine for the disks of a reactor: passes requests to threads, and completes them.
pub struct Disks {
    shared: Rc<Shared>,
    below: NoConnections,
}

/// Creates devices for the disks of a reactor.
#[derive(Clone)]
pub struct DiskOpener {
    shared: Rc<Shared>,
}

struct DiskDevice {
    disk: Disk,
    shared: Rc<Shared>,
}

impl Disks {
    /// Starts the threads. `waker` must wake the engine that drives the machine.
    pub fn start(waker: &Waker) -> io::Result<Self> {
        let pool = Pool::new(POOL_LIMIT);
        let bodies = (0..THREADS).map(|_| {
            let pool = pool.clone();
            move |jobs, outcomes| work(&jobs, &outcomes, &pool)
        });
        let executor = Executor::start("onego-disk", waker, bodies)?;
        let shared = Rc::new(Shared { executor, callers: RefCell::default() });
        Ok(Self { shared, below: NoConnections })
    }

    /// Returns a factory for the devices of this reactor.
    pub fn opener(&self) -> DiskOpener {
        DiskOpener { shared: Rc::clone(&self.shared) }
    }
}

fn work(jobs: &Jobs<Job>, outcomes: &Outcomes<Finished>, pool: &Pool) {
    while let Ok(Job { disk, operation, tag }) = jobs.take() {
        let result = operation.run(disk.opened(), pool);
        outcomes.put(Finished { tag, result });
    }
}

impl DiskOpener {
    /// Creates a device of this reactor for a disk.
    pub fn device(&self, disk: &Disk) -> Rc<dyn Device> {
        Rc::new(DiskDevice { disk: disk.clone(), shared: Rc::clone(&self.shared) })
    }
}

impl Device for DiskDevice {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        if let Err(error) = self.geometry().check(&request) {
            return request.complete(now, Err(error));
        }
        let Request { offset, op, flags, caller } = request;
        let tag = self.shared.callers.borrow_mut().insert(caller);
        let operation = Operation { offset, op, flags };
        self.shared.executor.submit(Job { disk: self.disk.clone(), operation, tag });
    }
}

impl Backend for Disks {
    /// Requests are passed to the threads immediately.
    fn has_work(&self) -> bool {
        false
    }
}

impl Layer for Disks {
    type Below = NoConnections;

    fn below(&self) -> &NoConnections {
        &self.below
    }

    fn below_mut(&mut self) -> &mut NoConnections {
        &mut self.below
    }

    fn settle(&mut self, now: Time) {
        while let Some(Finished { tag, result }) = self.shared.executor.result() {
            // Release the borrow before calling the caller, which may submit another request.
            let caller = self.shared.callers.borrow_mut().try_remove(tag);
            if let Some(caller) = caller {
                caller.complete(now, result);
            }
        }
    }
}
