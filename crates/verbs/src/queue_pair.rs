//! The verbs of a connection.

use crate::endpoint::{Connection, Registered, refused};
use crate::ffi::*;
use crate::memory::Pieces;
use crate::objects::Region;
use crate::work::{Line, Work, WorkKind};
use libc::c_int;
use onego_buf::{List, Segment, SegmentMut};
use onego_rdma::{Completion, Key, Memory, PostError, QueuePair, Refused, Remote, SendFlags};

/// Maximum length of a message, an RDMA Write or an RDMA Read: below the limit of 2 GiB of InfiniBand, and iWARP.
const LEN_MAX: usize = 1 << 30;

fn bounded(what: &'static str, len: usize) -> Result<(), PostError> {
    PostError::unless_short(what, len, LEN_MAX)
}

/// An operation on pieces of memory.
#[derive(Debug, Clone, Copy)]
struct Order {
    opcode: c_int,
    flags: c_int,
    remote: Remote,
    invalidate: u32,
}

impl Order {
    const NOWHERE: Remote = Remote { key: Key(0), offset: 0 };

    fn with(opcode: c_int, remote: Remote) -> Self {
        Self { opcode, flags: 0, remote, invalidate: 0 }
    }

    fn send(flags: SendFlags, invalidates: bool) -> Self {
        let solicited = if flags.solicited { IBV_SEND_SOLICITED } else { 0 };
        match flags.invalidate.filter(|_| invalidates) {
            // rdma-core's siw takes the key from the field for the peer's memory (providers/siw/siw.c, push_send_wqe).
            Some(key) => Self {
                flags: solicited,
                invalidate: key.0,
                ..Self::with(IBV_WR_SEND_WITH_INV, Remote { key, ..Self::NOWHERE })
            },
            None => Self { flags: solicited, ..Self::with(IBV_WR_SEND, Self::NOWHERE) },
        }
    }
}

impl Connection {
    fn may_post(&mut self) -> Result<(), PostError> {
        let depth = self.established()?.limits.room.sends as usize;
        PostError::unless_room("send queue", self.unpolled_sends, depth)
    }

    fn may_receive(&self) -> Result<(), PostError> {
        if self.is_over() {
            return Err(PostError::Over);
        }
        PostError::unless_room("receive queue", self.unpolled_receives, self.receive_depth())
    }

    /// Posts work to the device.
    ///
    /// # Safety
    /// The memory of the pieces is kept with the next work that is [pushed](Self::push) to the same line, and is not
    /// accessed if the work writes it.
    unsafe fn give(&mut self, line: Line, mut pieces: Pieces, order: Order) -> Result<(), PostError> {
        let mut work = ibv_send_wr {
            wr_id: line.name(self.line(line).next()),
            next: std::ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: pieces.len() as c_int,
            opcode: order.opcode,
            send_flags: (IBV_SEND_SIGNALED | order.flags) as u32,
            invalidate_rkey: order.invalidate,
            wr: ibv_send_wr_rdma {
                remote_addr: order.remote.offset,
                rkey: order.remote.key.0,
                _other: [0; 5],
            },
            qp_type: [0; 7],
        };
        let queues = self.established()?;
        // SAFETY: guaranteed by the caller.
        unsafe { queues.work.send(&mut work) }.map_err(|error| refused("take work", &error))
    }

    fn push(&mut self, line: Line, work: Work) {
        self.unpolled_sends += 1;
        self.line(line).push(work);
    }

    fn post_list(
        &mut self,
        id: u64,
        mut bytes: List,
        order: Order,
        kind: fn(List) -> WorkKind,
    ) -> Result<(), Refused<List>> {
        let prepared = self.established().and_then(|queues| {
            let most = queues.limits.room.pieces as usize;
            queues.memories.list(&mut bytes, most).map_err(|error| refused("register memory", &error))
        });
        let posted = prepared.and_then(|(pieces, regions)| {
            // SAFETY: the list is immutable shared memory, and is kept with the work below.
            unsafe { self.give(Line::Sends, pieces, order) }.map(|()| regions)
        });
        match posted {
            Ok(regions) => {
                self.push(Line::Sends, Work { id, kind: kind(bytes), regions });
                Ok(())
            }
            Err(error) => Err(Refused { error, given: bytes }),
        }
    }
}

impl QueuePair for Connection {
    /// The offset is an address, because not every device takes another (siw always uses addresses). A source in
    /// several segments is copied into one: a region is one piece of memory.
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        let checked = self.established().map(|_| ()).and_then(|()| bounded("a region", memory.len()));
        let mut memory = match Refused::unless(checked, memory)?.taken() {
            Memory::Source(list) if list.segments().len() > 1 => {
                Memory::Source(Segment::from(list.to_vec()).into())
            }
            memory => memory,
        };
        let (start, access) = match &mut memory {
            Memory::Source(list) => {
                let first = list.segments().next();
                (first.map_or(std::ptr::null(), |first| first.as_ptr()), IBV_ACCESS_REMOTE_READ)
            }
            Memory::Sink(sink) => {
                (sink.as_mut_ptr().cast_const(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
            }
            Memory::Fresh(..) => unreachable!("taken from its pool above"),
        };
        let len = memory.len();
        let registered = self.established().and_then(|queues| {
            // SAFETY: a source is immutable shared memory; a sink belongs to this connection only. Both are kept in
            // `self.regions`, and not accessed, until they are deregistered or the queues are gone.
            unsafe { Region::new(&queues.domain, start, len, access) }
                .map_err(|error| refused("register memory", &error))
        });
        match registered {
            Ok(region) => {
                let remote =
                    Remote { key: Key(region.remote_key()), offset: start.expose_provenance() as u64 };
                self.regions.insert(remote.key, Registered { region, memory });
                Ok(remote)
            }
            Err(error) => Err(Refused { error, given: memory }),
        }
    }

    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        self.take_back(key).map(Some)
    }

    /// The device answers a late write to an unregistered key by ending the connection.
    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        self.invalidate(key)
    }

    fn post_receive(&mut self, id: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>> {
        let checked = self.may_receive().and_then(|()| bounded("a receive", buffer.len()));
        let buffer = Refused::unless(checked, buffer)?;
        if self.queues.is_none() {
            self.early.push_back((id, buffer));
        } else if let Err((error, given)) = self.give_receive(id, buffer) {
            return Err(Refused { error: refused("take a receive", &error), given });
        }
        self.unpolled_receives += 1;
        Ok(())
    }

    fn post_send(&mut self, id: u64, bytes: List, flags: SendFlags) -> Result<(), Refused<List>> {
        let checked = self.may_post().and_then(|()| bounded("a message", bytes.len()));
        let bytes = Refused::unless(checked, bytes)?;
        let invalidates = self.queues.as_ref().is_some_and(|queues| queues.limits.invalidates);
        self.post_list(id, bytes, Order::send(flags, invalidates), WorkKind::Send)
    }

    fn post_write(&mut self, id: u64, bytes: List, to: Remote) -> Result<(), Refused<List>> {
        let checked = self.may_post().and_then(|()| bounded("an RDMA Write", bytes.len()));
        let bytes = Refused::unless(checked, bytes)?;
        self.post_list(id, bytes, Order::with(IBV_WR_RDMA_WRITE, to), WorkKind::Write)
    }

    fn post_read(&mut self, id: u64, sink: SegmentMut, from: Remote) -> Result<(), Refused<SegmentMut>> {
        let checked = self.may_post().and_then(|()| bounded("an RDMA Read", sink.len()));
        let mut sink = Refused::unless(checked, sink)?;
        let prepared = self.established().and_then(|queues| match queues.limits.reads.asked {
            0 => Err(PostError::NoReads),
            _ => queues.memories.sink(&mut sink).map_err(|error| refused("register memory", &error)),
        });
        let posted = prepared.and_then(|(piece, regions)| {
            let order = Order::with(IBV_WR_RDMA_READ, from);
            // SAFETY: the sink belongs to this connection only, and is kept with the work below.
            unsafe { self.give(Line::Reads, Pieces::from_slice(&[piece]), order) }.map(|()| regions)
        });
        match posted {
            Ok(regions) => {
                self.push(Line::Reads, Work { id, kind: WorkKind::Read(sink), regions });
                Ok(())
            }
            Err(error) => Err(Refused { error, given: sink }),
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        self.next_completion()
    }

    fn disconnect(&mut self) {
        if !self.is_over() {
            self.end();
        }
    }
}
