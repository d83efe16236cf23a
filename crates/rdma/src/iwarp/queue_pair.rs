//! The verbs of a connection.

use super::connection::Connection;
use super::inbound::Read;
use super::regions::{Held, wraps};
use super::work::Work;
use crate::error::{PostError, Refused};
use crate::memory::{Key, Memory, Remote};
use crate::verbs::{CompletedWork, Completion, QueuePair, SendFlags};
use onego_buf::{List, SegmentMut};

/// Maximum length of a message or an RDMA Read: the protocol's length fields have 32 bits.
const LEN_MAX: usize = u32::MAX as usize;

fn bounded(what: &'static str, len: usize) -> Result<(), PostError> {
    PostError::unless_short(what, len, LEN_MAX)
}

fn no_wrap(offset: u64, len: usize) -> Result<(), PostError> {
    if wraps(offset, len) { Err(PostError::OffsetWraps { offset, len }) } else { Ok(()) }
}

impl Connection {
    fn may_post(&self) -> Result<(), PostError> {
        if self.is_over() {
            return Err(PostError::Over);
        }
        PostError::unless_room("send queue", self.sends, self.config.send_queue)
    }

    fn may_register(&self, len: usize, base: u64) -> Result<(), PostError> {
        if self.is_over() {
            return Err(PostError::Over);
        }
        no_wrap(base, len)?;
        PostError::unless_room("table of regions", self.regions, self.config.regions)
    }

    fn may_receive(&self) -> Result<(), PostError> {
        if self.is_over() {
            return Err(PostError::Over);
        }
        PostError::unless_room("receive queue", self.receives, self.config.receive_queue)
    }

    fn may_read(&self, sink: &SegmentMut) -> Result<(), PostError> {
        self.may_post()?;
        bounded("an RDMA Read", sink.len())?;
        if self.allows_reads() { Ok(()) } else { Err(PostError::NoReads) }
    }

    /// Registers memory as [`register`](QueuePair::register) does, with `base` as the offset of the first byte.
    pub fn register_at(&mut self, memory: Memory, base: u64) -> Result<Key, Refused<Memory>> {
        let len = memory.len();
        let memory = Refused::unless(self.may_register(len, base), memory)?;
        self.regions += 1;
        Ok(Key(self.inbound.regions.insert(Held::Memory(memory), len, base)))
    }

    fn post(&mut self, work: Work) {
        self.sends += 1;
        self.tx.works.posted.push_back(work);
    }
}

impl QueuePair for Connection {
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        let key = self.register_at(memory, 0)?;
        Ok(Remote { key, offset: 0 })
    }

    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        let memory = self.inbound.invalidate(key.0).ok_or(PostError::UnknownKey(key))?;
        self.regions -= usize::from(memory.is_some());
        Ok(memory)
    }

    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        match self.inbound.regions.sink(key.0) {
            Some(_) => Ok(self.inbound.withdraw(key.0)),
            None => self.invalidate(key),
        }
    }

    fn post_receive(&mut self, id: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>> {
        let buffer = Refused::unless(self.may_receive(), buffer)?;
        self.receives += 1;
        self.inbound.post_receive(id, buffer);
        Ok(())
    }

    fn post_send(&mut self, id: u64, bytes: List, flags: SendFlags) -> Result<(), Refused<List>> {
        let checked = self.may_post().and_then(|()| bounded("a message", bytes.len()));
        let bytes = Refused::unless(checked, bytes)?;
        self.post(Work::Send { id, bytes, offset: 0, flags });
        Ok(())
    }

    fn post_write(&mut self, id: u64, bytes: List, to: Remote) -> Result<(), Refused<List>> {
        let checked = self.may_post().and_then(|()| no_wrap(to.offset, bytes.len()));
        let bytes = Refused::unless(checked, bytes)?;
        self.post(Work::Write { id, bytes, to, begun: false });
        Ok(())
    }

    fn post_read(&mut self, id: u64, sink: SegmentMut, from: Remote) -> Result<(), Refused<SegmentMut>> {
        let checked = self.may_read(&sink).and_then(|()| no_wrap(from.offset, sink.len()));
        let sink = Refused::unless(checked, sink)?;
        self.post(Work::Read(Read { id: Some(id), sink, from }));
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        match completion.done {
            CompletedWork::Sent | CompletedWork::Written | CompletedWork::Read(_) => self.sends -= 1,
            CompletedWork::Received { .. } => self.receives -= 1,
            CompletedWork::Released(..) => {}
        }
        Some(completion)
    }

    fn disconnect(&mut self) {
        self.closed();
    }
}
