//! The kernel's side of a queue of a block device, in memory.

use onego_buf::SegmentMut;
use onego_export::ublk::{DESCRIPTOR, Fetched, KernelQueue};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

pub(crate) const DEPTH: u16 = 4;
pub(crate) const MAX_IO: u32 = 16 << 10;

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 2;
pub(crate) const DISCARD: u32 = 3;
pub(crate) const ZEROES: u32 = 5;
/// What is written is durable when it completes.
pub(crate) const FUA: u32 = 1 << 13;

/// What the kernel has of a queue, for the machine and for the test.
#[derive(Clone, Default)]
pub(crate) struct Kernel(Rc<RefCell<KernelState>>);

#[derive(Default)]
pub(crate) struct KernelState {
    /// Commands that are not handed over yet: tag, result of a commit, buffer.
    queued: Vec<(u16, Option<i32>, SegmentMut)>,
    /// Buffers of the tags without requests.
    pub(crate) idle: BTreeMap<u16, SegmentMut>,
    /// Requests that have no result, and those of them for which no buffer is there.
    requests: BTreeMap<u16, BlockRequest>,
    waiting: Vec<u16>,
    pub(crate) ready: VecDeque<Fetched>,
    /// Results of requests, and the bytes that were read.
    pub(crate) done: BTreeMap<u16, (i32, Vec<u8>)>,
    pub(crate) submits: usize,
    pub(crate) broken: bool,
}

/// A request of the block layer.
struct BlockRequest {
    descriptor: [u8; DESCRIPTOR],
    written: Vec<u8>,
    /// Bytes that it reads, as far as a buffer has room.
    reads: usize,
}

impl KernelQueue for Kernel {
    fn depth(&self) -> u16 {
        DEPTH
    }

    fn max_io(&self) -> u32 {
        MAX_IO
    }

    fn watched(&self) -> io::Result<OwnedFd> {
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn fetch(&mut self, tag: u16, buffer: SegmentMut) {
        self.state().queued.push((tag, None, buffer));
    }

    fn commit(&mut self, tag: u16, result: i32, buffer: SegmentMut) {
        self.state().queued.push((tag, Some(result), buffer));
    }

    fn submit(&mut self) -> io::Result<()> {
        let state = &mut *self.state();
        if state.broken {
            return Err(io::ErrorKind::Other.into());
        }
        state.submits += 1;
        for (tag, result, buffer) in std::mem::take(&mut state.queued) {
            assert!(buffer.len() >= MAX_IO as usize, "a buffer of {} bytes", buffer.len());
            if let Some(result) = result {
                let request = state.requests.remove(&tag).expect("a request is committed once");
                assert!(result < 0 || request.reads == 0 || result as usize == request.reads);
                state.done.insert(tag, (result, buffer[..request.reads].to_vec()));
            }
            assert!(state.idle.insert(tag, buffer).is_none(), "the kernel has a buffer of tag {tag}");
        }
        state.hand_out();
        Ok(())
    }

    fn next(&mut self) -> Option<Fetched> {
        self.state().ready.pop_front()
    }
}

impl Kernel {
    pub(crate) fn state(&self) -> RefMut<'_, KernelState> {
        self.0.borrow_mut()
    }

    /// The block layer has a request; its tag. `None`: all tags have one.
    pub(crate) fn ask(&self, op_flags: u32, sectors: u32, start: u64, data: &[u8]) -> Option<u16> {
        let mut descriptor = [0; DESCRIPTOR];
        descriptor[..4].copy_from_slice(&op_flags.to_ne_bytes());
        descriptor[4..8].copy_from_slice(&sectors.to_ne_bytes());
        descriptor[8..16].copy_from_slice(&start.to_ne_bytes());
        let state = &mut *self.state();
        let tag = (0..DEPTH).find(|tag| !state.requests.contains_key(tag))?;
        let reads = if op_flags & 0xff == READ { sectors as usize * 512 } else { 0 };
        let (written, reads) = (data.to_vec(), reads.min(MAX_IO as usize));
        state.requests.insert(tag, BlockRequest { descriptor, written, reads });
        state.waiting.push(tag);
        state.hand_out();
        Some(tag)
    }

    /// What became of a request.
    pub(crate) fn result(&self, tag: u16) -> Option<(i32, Vec<u8>)> {
        self.state().done.remove(&tag)
    }

    /// The process that serves the queue is gone. The next one gets again what has no result (ublk.rst,
    /// `UBLK_F_USER_RECOVERY_REISSUE`).
    pub(crate) fn lose_server(&self) {
        let state = &mut *self.state();
        (state.queued, state.idle, state.ready) = Default::default();
        state.waiting = state.requests.keys().copied().collect();
    }
}

impl KernelState {
    /// Gives requests to the machine, in buffers that have what they write.
    fn hand_out(&mut self) {
        let Self { waiting, idle, requests, ready, .. } = self;
        waiting.retain(|tag| {
            let Some(mut buffer) = idle.remove(tag) else { return true };
            let BlockRequest { descriptor, written, .. } = &requests[tag];
            buffer[..written.len()].copy_from_slice(written);
            ready.push_back(Fetched::Request { tag: *tag, descriptor: *descriptor, buffer });
            false
        });
    }
}
