//! The machine under the disks of a thread.

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

/// Threads under the disks of one reactor: enough that a disk always has some requests to choose from, and that a flush holds
/// up none of the others.
const THREADS: usize = 16;

/// Idle memory that is kept for reads and for writes that have to be aligned, in bytes.
const POOL_LIMIT: usize = 32 << 20;

/// A request on its way to the threads.
struct Job {
    disk: Disk,
    operation: Operation,
    tag: usize,
}

/// What has come of it.
struct Finished {
    tag: usize,
    result: Result<Outcome, Error>,
}

/// What the devices and the machine of one reactor share.
struct Shared {
    executor: Executor<Job, Finished>,
    /// The callers of requests that are with the threads. The callers bound them.
    callers: RefCell<Slab<Caller>>,
}

/// The machine that carries out the requests of a reactor's disks: threads do the work, and it hands out what has come of it.
pub struct Disks {
    shared: Rc<Shared>,
    below: NoConnections,
}

/// Makes devices of the disks of one reactor.
#[derive(Clone)]
pub struct DiskOpener {
    shared: Rc<Shared>,
}

struct DiskDevice {
    disk: Disk,
    shared: Rc<Shared>,
}

impl Disks {
    /// Starts the threads. `waker` is that of the engine which drives the machine.
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

    /// What makes devices of disks, for this reactor.
    pub fn opener(&self) -> DiskOpener {
        DiskOpener { shared: Rc::clone(&self.shared) }
    }
}

/// Carries out requests until there are none any more.
fn work(jobs: &Jobs<Job>, outcomes: &Outcomes<Finished>, pool: &Pool) {
    while let Ok(Job { disk, operation, tag }) = jobs.take() {
        let result = operation.run(disk.opened(), pool);
        outcomes.put(Finished { tag, result });
    }
}

impl DiskOpener {
    /// The disk as a device of this reactor.
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
    /// The threads have the requests already.
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
            // The borrow ends before the caller is called: it may submit the next request.
            let caller = self.shared.callers.borrow_mut().try_remove(tag);
            if let Some(caller) = caller {
                caller.complete(now, result);
            }
        }
    }
}
