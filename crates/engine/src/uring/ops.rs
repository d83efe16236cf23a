//! Operations in the kernel's hands, with the memory that they use.
use crate::engine::RecvBufs;
use crate::message::{Message, vectors};
use crate::table::SocketId;
use onego_buf::List;
use slab::Slab;

pub(super) enum RingOp {
    Poll(SocketId),
    /// A receive. The kernel writes to the buffers.
    Recv(SocketId, RecvBufs, Box<Message>),
    /// A receive into lent memory, with its maximum number of bytes. The kernel takes memory once bytes arrive.
    Lent(SocketId, usize),
    Send(SocketId, List, Box<Message>, SendKind),
    /// A zero-copy send, which waits until the socket has taken everything.
    Uncopied(SocketId, List, Box<Message>),
    /// The part of a zero-copy send that the socket has taken. The kernel reads from the list.
    InUse(SocketId, List),
}

/// Behaviour of a send when the socket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendKind {
    /// Ends short. It has a completion only in that case: see the engine's proof of when it is done.
    Silent,
    /// Waits until everything is sent, and has a completion. It is the rest of a send of which `before` bytes are
    /// already sent.
    Answered { before: usize },
}

/// Name of an operation; its bits are the `user_data` of its requests.
///
/// No two operations of an engine share a name (within 2^32 operations), so a late completion finds nothing rather than
/// another operation in the same slot.
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

/// All operations without a final completion.
///
/// Owns every buffer that the kernel may read or write: they leave it only through [`finish`](Self::finish) and
/// [`keep`](Self::keep), when the operation is done.
#[derive(Default)]
pub(super) struct Ops {
    ops: Slab<OpEntry>,
    generation: u32,
    #[expect(clippy::vec_box, reason = "a header must not move while the kernel may look at it")]
    spare: Vec<Box<Message>>,
}

/// Limit on spare headers: as many as a submission usually has operations.
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

    pub(super) fn recv(&mut self, socket: SocketId, mut bufs: RecvBufs) -> (OpKey, *mut libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(bufs.slices().map(vector_mut));
        (self.insert(RingOp::Recv(socket, bufs, message)), header)
    }

    pub(super) fn lent(&mut self, socket: SocketId, limit: usize) -> OpKey {
        self.insert(RingOp::Lent(socket, limit))
    }

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

    /// Keeps the first `n` bytes of a zero-copy send, which the socket has taken, and returns the rest.
    pub(super) fn keep(&mut self, key: OpKey, n: usize) -> Option<(SocketId, List, Box<Message>)> {
        let op = self.get_mut(key)?;
        let RingOp::Uncopied(id, list, _) = op else { return None };
        let (id, taken) = (*id, list.split_to(n));
        match std::mem::replace(op, RingOp::InUse(id, taken)) {
            RingOp::Uncopied(_, rest, message) => Some((id, rest, message)),
            _ => None,
        }
    }

    pub(super) fn sending_uncopied(&self) -> Vec<SocketId> {
        let in_use = |(_, entry): (usize, &OpEntry)| match &entry.op {
            RingOp::Uncopied(id, ..) | RingOp::InUse(id, _) => Some(*id),
            _ => None,
        };
        self.ops.iter().filter_map(in_use).collect()
    }

    /// Removes an operation that is done, with its memory. Returns `None` if it was done before.
    #[inline]
    pub(super) fn finish(&mut self, key: OpKey) -> Option<RingOp> {
        self.get_mut(key)?;
        self.ops.try_remove(key.index as usize).map(|entry| entry.op)
    }

    /// Removes all operations. The caller must know which memory the kernel still uses.
    pub(super) fn drain(&mut self) -> Vec<RingOp> {
        self.ops.drain().map(|entry| entry.op).collect()
    }

    pub(super) fn recycle(&mut self, message: Box<Message>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(message);
        }
    }

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
