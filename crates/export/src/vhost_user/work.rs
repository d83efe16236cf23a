//! Requests go from the queues to the device, and what comes of them goes back.

use super::disk::{DiskRequest, Status, Task};
use super::error::QueueError;
use super::features::virtio;
use super::front::{Front, InFlight, Lasting, Running};
use super::limits::BYTES_MAX;
use super::queue::{Chain, Span};
use crate::operations::{ClientRequest, RequestKind};
use onego_block::{Completion, Error, Op, Outcome, Request};
use onego_buf::List;
use onego_guest_memory::GuestMemory;
use onego_wire::{Action, Time};

/// The next request of a queue.
enum Next {
    Head(u16),
    Nothing,
    /// There is too much at the device.
    Later,
}

impl Front {
    /// Takes what is available on all queues that may have something.
    pub(super) fn serve(&mut self, now: Time, shared: &mut Lasting) {
        for index in 0..self.queues.len() {
            self.serve_queue(now, index, shared);
        }
        shared.plug.release(now, &*shared.disk.device);
    }

    /// Is something left that can be taken?
    pub(super) fn may_serve(&self, shared: &Lasting) -> bool {
        let waits = |index: usize| self.queues[index].running.as_ref().is_some_and(|queue| queue.waiting);
        shared.left == 0
            && shared.held < BYTES_MAX
            && (0..self.queues.len()).any(|index| waits(index) && self.takes(index))
    }

    /// Is a queue to be served?
    fn takes(&self, index: usize) -> bool {
        self.queues[index].enabled && self.stopping.is_none_or(|stopping| stopping.queue != index)
    }

    /// Takes at most as many requests of a queue as it has descriptors, so that a guest which is fast does not hold up the rest.
    fn serve_queue(&mut self, now: Time, index: usize, shared: &mut Lasting) {
        if !self.takes(index) || shared.left > 0 {
            return;
        }
        for _ in 0..self.queues[index].size {
            let Some(running) = self.queues[index].running.as_mut().filter(|running| running.waiting) else {
                return;
            };
            match running.next(shared) {
                Ok(Next::Head(head)) => {
                    if let Err(error) = self.begin(now, index, head, shared) {
                        self.break_queue(index, error, shared);
                    }
                }
                Ok(Next::Nothing) => running.waiting = false,
                Ok(Next::Later) => return,
                Err(error) => self.break_queue(index, error, shared),
            }
        }
    }

    /// Begins a request. An error: nobody could be told what came of it.
    fn begin(&mut self, now: Time, index: usize, head: u16, shared: &mut Lasting) -> Result<(), QueueError> {
        let indirect = self.features & virtio::INDIRECT_DESC != 0;
        let durable = self.writes_through();
        let Some(running) = &mut self.queues[index].running else { return Ok(()) };
        let chain = Chain::read(&running.ring, &self.memory, head, indirect)?;
        let request = DiskRequest::read(chain, &self.memory, &shared.disk, &shared.pool, durable)?;
        shared.counters.requests += 1;
        let DiskRequest { task, status, into } = request;
        match task {
            Task::Submit { offset, op, flags } => {
                let (read, written) = match &op {
                    Op::Read { length } => (*length, 0),
                    Op::Write { data } => (0, data.len() as u64),
                    _ => (0, 0),
                };
                let asked =
                    ClientRequest { kind: RequestKind::from(&op), offset, bytes: read + written, since: now };
                let era = shared.era;
                let request = InFlight { era, queue: index, head, status, into, asked, read, written };
                shared.operations.begin();
                running.in_flight += 1;
                shared.held += request.held();
                let key = shared.requests.insert(request);
                let caller = shared.completions.caller(key as u64);
                let request = Request::new(caller, offset, op).with_flags(flags);
                shared.plug.submit(now, &*shared.disk.device, request);
            }
            Task::Id => {
                let id = shared.disk.id();
                let written = scatter(&self.memory, &into, &List::from(id.to_vec()));
                running.put(&self.memory, head, status, Status::Ok, written);
            }
            Task::Refuse(refused) => {
                shared.counters.errors += 1;
                running.put(&self.memory, head, status, refused, 0);
            }
        }
        Ok(())
    }

    /// The device has done a request.
    pub(super) fn complete(&mut self, completion: Completion, request: InFlight, shared: &mut Lasting) {
        let Some(running) = &mut self.queues[request.queue].running else { return };
        running.in_flight -= 1;
        let (status, written) = match completion.result {
            Ok(Outcome::Data(data)) if data.len() as u64 == request.read => {
                let written = scatter(&self.memory, &request.into, &data);
                let is_whole = u64::from(written) == request.read;
                shared.counters.read += u64::from(written);
                (if is_whole { Status::Ok } else { Status::Failed }, written)
            }
            Ok(Outcome::Done) => {
                shared.counters.written += request.written;
                (Status::Ok, 0)
            }
            Ok(_) => (Status::Failed, 0),
            Err(error) => {
                tracing::debug!(queue = request.queue, %error, "a request has failed");
                shared.counters.errors += 1;
                (if matches!(error, Error::Unsupported(_)) { Status::Unsupported } else { Status::Failed }, 0)
            }
        };
        running.put(&self.memory, request.head, request.status, status, written);
    }

    /// Lets the guest see what was put back, and tells it of that.
    pub(super) fn publish(&mut self, shared: &mut Lasting) {
        for queue in &mut self.queues {
            let Some(running) = &mut queue.running else { continue };
            if std::mem::take(&mut running.unpublished) {
                let used = running.ring.publish();
                if let Some(record) = &mut running.record {
                    record.published(used);
                }
                if let Some(call) = &queue.call
                    && running.ring.must_tell()
                {
                    shared.actions.push_back(Action::Signal { eventfd: call.clone() });
                }
            }
        }
    }

    /// Answers the message that waits for the end of a queue's requests, if they are done. `true`: it was answered.
    pub(super) fn end_stopping(&mut self, shared: &mut Lasting) -> bool {
        let Some(stopping) = self.stopping else { return false };
        let queue = &mut self.queues[stopping.queue];
        let base = match &queue.running {
            Some(running) if running.in_flight > 0 || shared.left > 0 => return false,
            // What was left by a server before this one, and could not begin yet, is taken again.
            Some(running) => running.ring.next_available().wrapping_sub(running.left.len() as u16),
            None => queue.base,
        };
        queue.running = None;
        queue.base = base;
        self.stopping = None;
        let payload = [stopping.queue as u32, base.into()].map(u32::to_le_bytes);
        self.say(shared, &stopping.header.reply(payload.as_flattened()));
        true
    }

    /// Nothing more is taken from a queue. What is at the device still comes back.
    fn break_queue(&mut self, index: usize, error: QueueError, shared: &mut Lasting) {
        tracing::warn!(queue = index, %error, "a queue is served no longer: the guest has to reset the device");
        shared.counters.broken += 1;
        let queue = &mut self.queues[index];
        if let Some(running) = &mut queue.running {
            running.broken = true;
            running.waiting = false;
        }
        if let Some(eventfd) = &queue.error {
            shared.actions.push_back(Action::Signal { eventfd: eventfd.clone() });
        }
    }
}

impl Running {
    fn next(&mut self, shared: &Lasting) -> Result<Next, QueueError> {
        if self.broken {
            return Ok(Next::Nothing);
        }
        if shared.held >= BYTES_MAX {
            return Ok(Next::Later);
        }
        if let Some(head) = self.left.pop_front() {
            return Ok(Next::Head(head));
        }
        loop {
            if let Some(head) = self.ring.take()? {
                if let Some(record) = &mut self.record {
                    record.take(head);
                }
                return Ok(Next::Head(head));
            }
            if !self.ring.want_kick() {
                return Ok(Next::Nothing);
            }
        }
    }

    /// Puts a request back, of which the device has written `written` bytes and the status.
    fn put(&mut self, memory: &GuestMemory, head: u16, at: u64, status: Status, written: u32) {
        // Memory that is gone meanwhile cannot be written, and nobody looks there.
        let _ = memory.write(at, &[status as u8]);
        self.ring.put(head, written + 1);
        if let Some(record) = &mut self.record {
            record.put(head);
        }
        self.unpublished = true;
    }
}

/// Copies a list into memory of the guest: how many bytes were written, less than all if the guest has not given more.
fn scatter(memory: &GuestMemory, spans: &[Span], list: &List) -> u32 {
    let mut written = 0;
    let mut spans = spans.iter().copied();
    let mut span = spans.next();
    for segment in list.segments() {
        let mut bytes = &segment[..];
        while let Some(Span { address, length }) = span
            && !bytes.is_empty()
        {
            let here = bytes.len().min(length as usize);
            if memory.write(address, &bytes[..here]).is_err() {
                return written;
            }
            written += here as u32;
            bytes = &bytes[here..];
            span = match length - here as u32 {
                0 => spans.next(),
                left => Some(Span { address: address.wrapping_add(here as u64), length: left }),
            };
        }
    }
    written
}
