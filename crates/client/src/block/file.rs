//! NFS files as block devices: a layer on the NFS client.

use crate::nfs::{
    CallError, Completed, Core, File, FileOutcome, FileRequest, Filled, Handle, Stability, Status,
};
use crate::reactor::Core as _;
use onego_block::{
    Backend, BlockStatus, Caller, Device, Error, Geometry, Op, Outcome, Request, StatusExtent, zeros,
};
use onego_wire::{Layer, Time};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Largest read or write of a device, as NBD clients expect. The NFS client splits it by the server's limits.
const MAX_IO: u64 = 32 << 20;

/// Largest write of zeros: NFS version 3 cannot punch holes.
const ZEROS_AT_A_TIME: u64 = 1 << 20;

/// Requests from devices to the layer that executes them, on one thread. The devices' users bound them.
type Inbox = Rc<RefCell<VecDeque<(Handle, Request)>>>;

pub(crate) struct FileDevices {
    core: Core,
    inbox: Inbox,
    in_flight: Slab<FileInFlight>,
}

pub(crate) struct FileOpener {
    inbox: Inbox,
}

struct FileDevice {
    file: File,
    size: u64,
    read_only: bool,
    inbox: Inbox,
}

struct FileInFlight {
    caller: Caller,
    file: Handle,
    offset: u64,
    length: u64,
    /// Zeros still to be written after those in flight: offset and length.
    zeros: Option<(u64, u64)>,
    stable: Stability,
}

impl FileDevices {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, inbox: Inbox::default(), in_flight: Slab::new() }
    }

    pub(crate) fn opener(&self) -> FileOpener {
        FileOpener { inbox: Rc::clone(&self.inbox) }
    }

    fn start(&mut self, now: Time, file: Handle, request: Request) {
        let length = request.length();
        let Request { offset, op, flags, caller } = request;
        let stable = if flags.fua { Stability::FileSync } else { Stability::Unstable };
        let request = match op {
            Op::Read { length } => FileRequest::ReadBytes { offset, len: length as usize },
            Op::ReadInto { buffer } => FileRequest::Read { offset, buffer },
            Op::Write { data } => FileRequest::Write { offset, data, stable },
            Op::Flush => FileRequest::Sync,
            Op::Zero { length } => {
                let zeros = Some((offset, length));
                let tag = self.in_flight.insert(FileInFlight { caller, file, offset, length, zeros, stable });
                return self.write_zeros(now, tag);
            }
            // NFS version 3 has no holes.
            Op::Trim { .. } => return caller.complete(now, Ok(Outcome::Done)),
            Op::Status { length } => {
                let all = StatusExtent { length, status: BlockStatus::DATA };
                return caller.complete(now, Ok(Outcome::Status(vec![all])));
            }
        };
        let tag = self.in_flight.insert(FileInFlight { caller, file, offset, length, zeros: None, stable });
        self.core.submit(now, file, request, tag as u64);
    }

    fn write_zeros(&mut self, now: Time, tag: usize) {
        let Some(request) = self.in_flight.get_mut(tag) else { return };
        let Some((offset, left)) = request.zeros else { return };
        let step = left.min(ZEROS_AT_A_TIME);
        request.zeros = (left > step).then_some((offset + step, left - step));
        let write = FileRequest::Write { offset, data: zeros(step), stable: request.stable };
        self.core.submit(now, request.file, write, tag as u64);
    }

    fn complete(&mut self, now: Time, Completed { tag, outcome }: Completed) {
        let tag = tag as usize;
        let more = self.in_flight.get(tag).is_some_and(|request| request.zeros.is_some());
        if more && matches!(outcome, FileOutcome::Done(Ok(()))) {
            return self.write_zeros(now, tag);
        }
        let Some(request) = self.in_flight.try_remove(tag) else { return };
        request.caller.complete(now, outcome_of(outcome, request.offset, request.length));
    }
}

/// Converts the outcome of a request. A file that shrank below its device's size is an error: zeros in place of the
/// missing bytes would pass for data.
fn outcome_of(outcome: FileOutcome, offset: u64, length: u64) -> Result<Outcome, Error> {
    let check = |read: u64| match read == length {
        true => Ok(()),
        false => Err(Error::Failed(format!(
            "the file on the server was truncated after it was opened: it ends at {}, before {}",
            offset + read,
            offset + length
        ))),
    };
    match outcome {
        FileOutcome::Done(done) => done.map(|()| Outcome::Done).map_err(|error| error_of(&error)),
        FileOutcome::Read { result, buffer } => {
            let Filled { bytes, .. } = result.map_err(|error| error_of(&error))?;
            check(bytes as u64)?;
            Ok(Outcome::Filled(buffer))
        }
        FileOutcome::Bytes(result) => {
            let (list, _) = result.map_err(|error| error_of(&error))?;
            check(list.len() as u64)?;
            Ok(Outcome::Data(list))
        }
    }
}

fn error_of(error: &CallError) -> Error {
    let text = error.to_string();
    match error {
        CallError::Failed(Status::Nospc | Status::Dquot | Status::Fbig) => Error::NoSpace(text),
        CallError::Failed(Status::Perm | Status::Access | Status::Rofs) => Error::NotPermitted(text),
        CallError::Unreachable { .. } | CallError::NoReply { .. } => Error::TimedOut(text),
        _ => Error::Failed(text),
    }
}

impl FileOpener {
    pub(crate) fn device(&self, file: File, size: u64, read_only: bool) -> Rc<dyn Device> {
        Rc::new(FileDevice { file, size, read_only, inbox: Rc::clone(&self.inbox) })
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        let mut geometry = Geometry::new(self.size);
        geometry.preferred = preferred(&self.file);
        geometry.max_io = MAX_IO;
        geometry.read_only = self.read_only;
        geometry.volatile_cache = true;
        // Writes through another device stay with its client until that client syncs them.
        geometry.shared_flush = false;
        geometry
    }

    fn submit(&self, now: Time, request: Request) {
        match self.geometry().check(&request) {
            Ok(()) if request.flags.fast => {
                request.complete(now, Err(Error::Unsupported("make zeros faster than it writes them")));
            }
            Ok(()) => self.inbox.borrow_mut().push_back((self.file.handle(), request)),
            Err(error) => request.complete(now, Err(error)),
        }
    }
}

fn preferred(file: &File) -> u32 {
    let bytes = file.mount().limits().read as u32;
    bytes.checked_next_power_of_two().filter(|power| *power == bytes).unwrap_or(4096)
}

impl Backend for FileDevices {
    fn has_work(&self) -> bool {
        self.core.has_room() && !self.inbox.borrow().is_empty()
    }

    fn leave(&mut self, _now: Time) {
        self.core.close();
    }
}

impl Layer for FileDevices {
    type Below = Core;

    fn below(&self) -> &Core {
        &self.core
    }

    fn below_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn settle(&mut self, now: Time) {
        while self.core.has_room()
            && let Some((file, request)) = { self.inbox.borrow_mut().pop_front() }
        {
            self.start(now, file, request);
        }
        self.core.settle(now);
        while let Some(completed) = self.core.next_completed() {
            self.complete(now, completed);
        }
    }
}
