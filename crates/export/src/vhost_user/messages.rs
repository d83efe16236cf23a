//! What a front end says is carried out.

use super::codec::{FrontRequest, Header, InflightDescription, MemoryRange, QueueEvent, RingAddresses};
use super::disk::WRITE_CACHE_AT;
use super::error::MessageError;
use super::features::{protocol, virtio};
use super::front::{Front, Lasting, Queue, Role, Running, Stopping};
use super::inbound::Whole;
use super::limits::QUEUE_SIZE_MAX;
use super::queue::{Record, SplitRing};
use onego_guest_memory::{GuestMemory, Region};
use onego_wire::Action;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is said to a message.
enum Acknowledgement {
    /// That it is done, if that is asked for.
    Done,
    Payload(Vec<u8>),
    /// With a descriptor of a file.
    File(Vec<u8>, OwnedFd),
    /// Later.
    Later,
}

impl Front {
    /// Carries a message out. An error ends the connection: it is one that the front end does not expect to be told.
    pub(super) fn handle(&mut self, whole: Whole, shared: &mut Lasting) -> Result<(), MessageError> {
        let Whole { header, payload, descriptors } = whole;
        let acknowledges = header.needs_reply() && self.has(protocol::REPLY_ACK);
        let message = FrontRequest::decode(header.request, &payload)?;
        tracing::debug!(?message, descriptors = descriptors.len(), "a message of a front end");
        let refused: fn() -> Acknowledgement = match message {
            // These have replies that say by themselves that something failed.
            FrontRequest::GetConfig { .. } => || Acknowledgement::Payload(Vec::new()),
            _ => || Acknowledgement::Payload(1_u64.to_le_bytes().into()),
        };
        let says_failure = acknowledges || matches!(message, FrontRequest::GetConfig { .. });
        let answer = self.carry_out(header, message, descriptors, shared).or_else(|error| {
            if !says_failure {
                return Err(error);
            }
            tracing::warn!(%error, "a front end's message is refused");
            Ok(refused())
        })?;
        match answer {
            Acknowledgement::Done if acknowledges => self.say(shared, &header.reply(&0_u64.to_le_bytes())),
            Acknowledgement::Done | Acknowledgement::Later => {}
            Acknowledgement::Payload(payload) => self.say(shared, &header.reply(&payload)),
            Acknowledgement::File(payload, descriptor) => {
                let message = header.reply(&payload);
                shared.actions.push_back(Action::SendDescriptor { conn: self.conn, message, descriptor });
            }
        }
        Ok(())
    }

    pub(super) fn say(&mut self, shared: &mut Lasting, bytes: &[u8]) {
        self.outbound.push(bytes.to_vec());
        shared.actions.push_back(Action::Transmit { conn: self.conn });
    }

    fn carry_out(
        &mut self,
        header: Header,
        message: FrontRequest,
        mut descriptors: Vec<OwnedFd>,
        shared: &mut Lasting,
    ) -> Result<Acknowledgement, MessageError> {
        let came = descriptors.len();
        if let Some(wanted) = message.descriptors()
            && wanted != came
        {
            return Err(MessageError::Descriptors { came, wanted });
        }
        let word = |value: u64| Ok(Acknowledgement::Payload(value.to_le_bytes().into()));
        match message {
            FrontRequest::GetFeatures => return word(shared.disk.features()),
            FrontRequest::GetProtocolFeatures => return word(protocol::ALL),
            FrontRequest::GetQueueNum => return word(self.queues.len() as u64),
            FrontRequest::GetMaxMemSlots => return word(GuestMemory::REGIONS_MAX as u64),
            FrontRequest::SetFeatures(features) => self.set_features(features, shared.disk.features())?,
            FrontRequest::SetProtocolFeatures(features) => {
                if features & !protocol::ALL != 0 {
                    return Err(MessageError::Features(features & !protocol::ALL));
                }
                self.protocol = features;
            }
            // Nothing follows from being owned; and to be disowned is no longer used (vhost-user.rst, 'RESET_OWNER').
            FrontRequest::SetOwner | FrontRequest::ResetOwner => {}
            FrontRequest::ResetDevice => self.abandon(shared),
            FrontRequest::SetMemTable(ranges) => self.set_memory(&ranges, descriptors)?,
            FrontRequest::AddMemReg(range) => self.add_memory(&range, &descriptors)?,
            FrontRequest::RemMemReg(range) => self.memory.remove(region(&range))?,
            FrontRequest::SetVringNum { index, size } => {
                if size > QUEUE_SIZE_MAX.into() || !size.is_power_of_two() {
                    return Err(MessageError::QueueSize(size));
                }
                self.stopped(index)?.1.size = size as u16;
            }
            FrontRequest::SetVringBase { index, base } => self.stopped(index)?.1.base = base as u16,
            FrontRequest::SetVringAddr { index, ring } => self.set_addresses(index, ring)?,
            FrontRequest::SetVringKick(event) => self.set_kick(event, descriptors.pop(), shared)?,
            FrontRequest::SetVringCall(event) => {
                let eventfd = descriptors.pop().map(eventfd).transpose()?;
                self.queue(event.index)?.1.call.clone_from(&eventfd);
                // A server before this one may have ended after it had put chains back, and before it said so. A driver looks once
                // more, and finds them.
                shared.actions.extend(eventfd.map(|eventfd| Action::Signal { eventfd }));
            }
            FrontRequest::SetVringErr(event) => {
                let eventfd = descriptors.pop().map(eventfd).transpose()?;
                self.queue(event.index)?.1.error = eventfd;
            }
            FrontRequest::SetVringEnable { index, enable } => {
                let queue = self.queue(index)?.1;
                queue.enabled = enable;
                if let Some(running) = &mut queue.running {
                    running.waiting |= enable;
                }
            }
            FrontRequest::GetVringBase { index } => return self.stop(header, index, shared),
            FrontRequest::SetBackendReqFd => self.set_backend(descriptors.pop(), shared),
            FrontRequest::GetConfig { offset, size, flags } => {
                return Ok(Acknowledgement::Payload(self.configuration(offset, size, flags, shared)?));
            }
            FrontRequest::SetConfig { offset, bytes } => self.configure(offset, &bytes)?,
            FrontRequest::GetInflightFd(wanted) => {
                let (file, description) = Record::create(wanted)?;
                return Ok(Acknowledgement::File(description.encode(), file));
            }
            FrontRequest::SetInflightFd(description) => self.set_record(description, descriptors.pop())?,
            FrontRequest::Unknown(request) => return Err(MessageError::Unknown(request)),
        }
        Ok(Acknowledgement::Done)
    }

    fn queue(&mut self, index: u32) -> Result<(usize, &mut Queue), MessageError> {
        let queues = self.queues.len();
        let queue = self.queues.get_mut(index as usize).ok_or(MessageError::NoQueue { index, queues })?;
        Ok((index as usize, queue))
    }

    /// A queue that does not run.
    fn stopped(&mut self, index: u32) -> Result<(usize, &mut Queue), MessageError> {
        let (index, queue) = self.queue(index)?;
        if queue.running.is_some() { Err(MessageError::Runs) } else { Ok((index, queue)) }
    }

    fn set_features(&mut self, features: u64, offered: u64) -> Result<(), MessageError> {
        if features & !offered != 0 {
            return Err(MessageError::Features(features & !offered));
        }
        self.features = features;
        Ok(())
    }

    fn set_memory(&mut self, ranges: &[MemoryRange], files: Vec<OwnedFd>) -> Result<(), MessageError> {
        // Rings that run keep their windows: the memory is the same.
        self.memory = GuestMemory::default();
        for (range, file) in ranges.iter().zip(files) {
            self.memory.add(region(range), file, range.offset)?;
        }
        Ok(())
    }

    fn add_memory(&mut self, range: &MemoryRange, files: &[OwnedFd]) -> Result<(), MessageError> {
        for file in files {
            self.memory.add(region(range), file, range.offset)?;
        }
        Ok(())
    }

    fn set_addresses(&mut self, index: u32, ring: RingAddresses) -> Result<(), MessageError> {
        let (_, queue) = self.queue(index)?;
        // A front end may say again what it has said of a queue that runs.
        if queue.running.is_some() && queue.addresses != Some(ring) {
            return Err(MessageError::Runs);
        }
        queue.addresses = Some(ring);
        Ok(())
    }

    /// A queue starts with the eventfd for its kicks (vhost-user.rst, 'Ring states').
    fn set_kick(
        &mut self,
        event: QueueEvent,
        eventfd: Option<OwnedFd>,
        shared: &mut Lasting,
    ) -> Result<(), MessageError> {
        let Some(eventfd) = eventfd else {
            return Err(MessageError::Descriptors { came: 0, wanted: 1 });
        };
        let (index, queue) = self.queue(event.index)?;
        if let Some(before) = queue.kick.take() {
            shared.close(before);
        }
        if queue.running.is_none() {
            self.start(index, shared)?;
        }
        let conn = shared.conns.insert(Role::Kick(index));
        self.queues[index].kick = Some(conn);
        shared.actions.push_back(Action::WatchSignals { conn, eventfd });
        Ok(())
    }

    fn start(&mut self, index: usize, shared: &mut Lasting) -> Result<(), MessageError> {
        let event_index = self.features & virtio::EVENT_IDX != 0;
        let queue = &mut self.queues[index];
        let addresses = queue.addresses.filter(|_| queue.size > 0).ok_or(MessageError::Ring)?;
        let ring = SplitRing::new(&self.memory, queue.size, addresses, event_index, queue.base);
        let mut ring = ring.ok_or(MessageError::Ring)?;
        let record = self.record.as_ref().map(|record| record.queue(index, queue.size)).transpose()?;
        let mut left = Vec::new();
        let record = record.map(|mut record| {
            left = record.begin(ring.published());
            record
        });
        if let Some(head) = left.iter().find(|head| **head >= queue.size) {
            tracing::warn!(queue = index, head, "a record of requests in flight names one that cannot be");
            return Err(MessageError::Record("it names a request that the queue cannot have"));
        }
        if record.is_some() {
            ring.set_in_flight(&left);
        }
        shared.counters.resubmitted += left.len() as u64;
        tracing::info!(queue = index, size = queue.size, resubmitted = left.len(), "a queue starts");
        queue.running = Some(Running {
            ring,
            record,
            left: left.into(),
            in_flight: 0,
            waiting: true,
            unpublished: false,
            broken: false,
        });
        // Without features of the protocol there is no message to enable it (vhost-user.rst, 'Ring states').
        queue.enabled |= self.features & virtio::PROTOCOL_FEATURES == 0;
        Ok(())
    }

    /// Stops a queue, once its requests are done.
    fn stop(
        &mut self,
        header: Header,
        index: u32,
        shared: &mut Lasting,
    ) -> Result<Acknowledgement, MessageError> {
        let (index, queue) = self.queue(index)?;
        if let Some(kick) = queue.kick.take() {
            shared.close(kick);
        }
        self.stopping = Some(Stopping { header, queue: index });
        Ok(Acknowledgement::Later)
    }

    fn set_backend(&mut self, socket: Option<OwnedFd>, shared: &mut Lasting) {
        let Some(socket) = socket else { return };
        if let Some(before) = self.backend.take() {
            shared.close(before);
        }
        let conn = shared.conns.insert(Role::Backend);
        self.backend = Some(conn);
        shared.actions.push_back(Action::Attach { conn, socket });
    }

    /// A part of the configuration space, which is zeros behind its end.
    fn configuration(
        &mut self,
        offset: u32,
        size: u32,
        flags: u32,
        shared: &Lasting,
    ) -> Result<Vec<u8>, MessageError> {
        const SPACE: u32 = 256;
        let end = offset.checked_add(size).filter(|end| *end <= SPACE);
        let end = end.ok_or(MessageError::Configuration("a part behind the end"))?;
        let mut space = [0; SPACE as usize];
        let known = shared.disk.configuration(self.write_cache);
        space[..known.len()].copy_from_slice(&known);
        self.size = shared.disk.geometry().size;
        let words = [offset, size, flags].map(u32::to_le_bytes);
        Ok([words.as_flattened(), &space[offset as usize..end as usize]].concat())
    }

    /// The guest may say whether writes are cached, and nothing else (virtio 5.2.5).
    fn configure(&mut self, offset: u32, bytes: &[u8]) -> Result<(), MessageError> {
        match (offset, bytes) {
            (WRITE_CACHE_AT, [write_cache @ (0 | 1)]) => self.write_cache = *write_cache == 1,
            _ => return Err(MessageError::Configuration("what was sent")),
        }
        Ok(())
    }

    fn set_record(
        &mut self,
        description: InflightDescription,
        file: Option<OwnedFd>,
    ) -> Result<(), MessageError> {
        if self.queues.iter().any(|queue| queue.running.is_some()) {
            return Err(MessageError::Runs);
        }
        self.record = file.map(|file| Record::open(file, description)).transpose()?;
        Ok(())
    }
}

fn region(range: &MemoryRange) -> Region {
    Region { guest: range.guest, length: range.length, user: range.user }
}

/// An eventfd that may be signalled without waiting.
fn eventfd(descriptor: OwnedFd) -> Result<Arc<OwnedFd>, MessageError> {
    rustix::io::ioctl_fionbio(&descriptor, true).map_err(std::io::Error::from)?;
    Ok(Arc::new(descriptor))
}
