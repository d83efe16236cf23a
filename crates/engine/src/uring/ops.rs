//! Operations that the kernel may be working on, with the memory it may be working in.
use crate::engine::RecvBufs;
use crate::message::{Message, vectors};
use crate::table::SocketId;
use onego_buf::List;
use slab::Slab;

/// Something that the kernel was asked for.
pub(super) enum RingOp {
    /// Readiness of a socket.
    Poll(SocketId),
    /// A receive. The kernel writes to the buffers.
    Recv(SocketId, RecvBufs, Box<Message>),
    /// A receive into lent memory, with the most bytes. The kernel takes the memory that it needs when something arrives.
    Lent(SocketId, usize),
    /// A send. The kernel reads from the list.
    Send(SocketId, List, Box<Message>, SendKind),
    /// A send without a copy, which waits until all is taken.
    Uncopied(SocketId, List, Box<Message>),
    /// What the socket has taken of such a send. The kernel reads from the list.
    InUse(SocketId, List),
}

/// What a send does when the socket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendKind {
    /// It ends, short. The kernel answers only if it did: see the engine's proof of when it is done.
    Silent,
    /// It waits until all is sent, and is answered. It is the rest of a send, of which `before` bytes are already sent.
    Answered { before: usize },
}

/// Names an operation; its bits are the `user_data` of its requests.
///
/// No two operations of an engine have one name (until 2^32 others came in between), so that a late completion finds
/// nothing, and not another operation in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpKey {
    index: u32,
    generation: u32,
}

impl OpKey {
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

struct OpEntry {
    generation: u32,
    op: RingOp,
}

/// All operations that the kernel has not answered yet.
///
/// This owns every buffer that the kernel may read or write: nothing leaves it but by [`finish`](Self::finish) and
/// [`keep`](Self::keep), when the operation is done.
#[derive(Default)]
pub(super) struct Ops {
    ops: Slab<OpEntry>,
    /// Of the next operation.
    generation: u32,
    /// Headers and vectors to be used again: no memory is taken for an operation.
    #[expect(clippy::vec_box, reason = "a header must not move while the kernel may look at it")]
    spare: Vec<Box<Message>>,
}

/// Spare headers that are kept: as many as operations go well into one submission.
const MAX_SPARE: usize = 256;

fn vector_mut(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

impl Ops {
    #[inline]
    fn insert(&mut self, op: RingOp) -> OpKey {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        let index = self.ops.insert(OpEntry { generation, op });
        OpKey { index: u32::try_from(index).expect("operations are far fewer than 2^32"), generation }
    }

    fn get_mut(&mut self, key: OpKey) -> Option<&mut RingOp> {
        let entry = self.ops.get_mut(key.index as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.op)
    }

    pub(super) fn poll(&mut self, socket: SocketId) -> OpKey {
        self.insert(RingOp::Poll(socket))
    }

    /// Keeps the buffers of a receive. The header stays where it is until the operation is finished.
    pub(super) fn recv(&mut self, socket: SocketId, mut bufs: RecvBufs) -> (OpKey, *mut libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(bufs.slices().map(vector_mut));
        (self.insert(RingOp::Recv(socket, bufs, message)), header)
    }

    pub(super) fn lent(&mut self, socket: SocketId, limit: usize) -> OpKey {
        self.insert(RingOp::Lent(socket, limit))
    }

    /// Keeps the list of a send. The header stays where it is until the operation is finished.
    pub(super) fn send(
        &mut self,
        socket: SocketId,
        list: List,
        kind: SendKind,
    ) -> (OpKey, *const libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(vectors(&list, usize::MAX));
        (self.insert(RingOp::Send(socket, list, message, kind)), header)
    }

    /// Keeps the list of which the first `bytes` are sent without a copy, until the kernel has let go of it.
    pub(super) fn uncopied(
        &mut self,
        socket: SocketId,
        list: List,
        bytes: usize,
    ) -> (OpKey, *const libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(vectors(&list, bytes));
        (self.insert(RingOp::Uncopied(socket, list, message)), header)
    }

    /// The socket has taken the first `n` bytes of a send without a copy: they are kept on, and the rest is ours again.
    pub(super) fn keep(&mut self, key: OpKey, n: usize) -> Option<(SocketId, List, Box<Message>)> {
        let op = self.get_mut(key)?;
        let RingOp::Uncopied(id, list, _) = op else { return None };
        let (id, taken) = (*id, list.split_to(n));
        match std::mem::replace(op, RingOp::InUse(id, taken)) {
            RingOp::Uncopied(_, rest, message) => Some((id, rest, message)),
            _ => None,
        }
    }

    /// Sockets whose sends the kernel uses memory of.
    pub(super) fn sending_uncopied(&self) -> Vec<SocketId> {
        let in_use = |(_, entry): (usize, &OpEntry)| match &entry.op {
            RingOp::Uncopied(id, ..) | RingOp::InUse(id, _) => Some(*id),
            _ => None,
        };
        self.ops.iter().filter_map(in_use).collect()
    }

    /// The operation is done: its memory is ours again. `None`: it was done before.
    #[inline]
    pub(super) fn finish(&mut self, key: OpKey) -> Option<RingOp> {
        self.get_mut(key)?;
        self.ops.try_remove(key.index as usize).map(|entry| entry.op)
    }

    /// All operations. The caller takes them over and knows what the kernel still does with their memory.
    pub(super) fn drain(&mut self) -> Vec<RingOp> {
        self.ops.drain().map(|entry| entry.op).collect()
    }

    /// Takes a header back for later use.
    pub(super) fn recycle(&mut self, message: Box<Message>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(message);
        }
    }

    /// Has the kernel answered everything that it uses memory for?
    pub(super) fn hold_no_memory(&self) -> bool {
        self.ops.iter().all(|(_, entry)| matches!(entry.op, RingOp::Poll(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketTable;

    #[test]
    fn a_late_completion_does_not_end_another_operation() {
        let mut sockets = SocketTable::default();
        let (a, b) = (sockets.insert(()), sockets.insert(()));
        let mut ops = Ops::default();
        let (old, _) = ops.uncopied(a, vec![1; 10].into(), 10);
        assert!(ops.finish(old).is_some());
        let (new, _) = ops.uncopied(b, vec![2; 10].into(), 10);
        assert_eq!((new.index, OpKey::from_bits(new.to_bits())), (old.index, new));
        assert!(ops.finish(old).is_none() && ops.keep(old, 5).is_none());
        let (id, rest, _) = ops.keep(new, 4).unwrap();
        assert_eq!((id, rest.to_vec()), (b, vec![2; 6]));
        assert!(matches!(ops.finish(new), Some(RingOp::InUse(id, taken)) if id == b && taken.len() == 4));
        assert!(ops.finish(new).is_none() && ops.hold_no_memory());
    }

    #[test]
    fn names_of_operations_are_none_of_the_engine_s_own() {
        let mut ops = Ops { generation: u32::MAX, ..Ops::default() };
        let mut sockets = SocketTable::default();
        let socket = sockets.insert(());
        for _ in 0..2 {
            let key = ops.poll(socket);
            assert!(key.to_bits() < super::super::CANCEL);
            assert!(matches!(ops.finish(key), Some(RingOp::Poll(_))));
        }
    }
}
