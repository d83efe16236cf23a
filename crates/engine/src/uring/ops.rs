//! Operations that the kernel may be working on, with the memory it may be working in.
use crate::SocketId;
use crate::engine::RecvBufs;
use crate::message::{Message, vectors};
use onego_buf::List;
use slab::Slab;

/// Something that the kernel was asked for.
pub(super) enum Op {
    /// Readiness of a socket.
    Poll(SocketId),
    /// A receive. The kernel writes to the buffers.
    Recv(SocketId, RecvBufs, Box<Message>),
    /// A receive of at most so many bytes into lent memory. The kernel takes what it needs when something comes.
    Lent(SocketId, usize),
    /// A send. The kernel reads from the list.
    Send(SocketId, List, Box<Message>, Patience),
    /// A send without a copy, which waits until all is taken.
    Uncopied(SocketId, List, Box<Message>),
    /// What the socket has taken of such a send. The kernel reads from the list.
    InUse(SocketId, List),
}

/// What a send does when the socket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It ends, short. The kernel answers only if it did: when it is submitted and not answered, all was sent.
    None,
    /// It waits until all is sent.
    Waits,
}

/// All operations that the kernel has not answered yet.
///
/// This owns every buffer that the kernel may read or write: nothing leaves it but by [`finish`](Self::finish), when
/// the kernel has answered.
#[derive(Default)]
pub(super) struct Ops {
    ops: Slab<Op>,
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
    pub(super) fn poll(&mut self, socket: SocketId) -> usize {
        self.ops.insert(Op::Poll(socket))
    }

    /// Keeps the buffers of a receive. The header stays where it is until the operation is finished.
    pub(super) fn recv(&mut self, socket: SocketId, mut bufs: RecvBufs) -> (usize, *mut libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(bufs.slices().map(vector_mut));
        (self.ops.insert(Op::Recv(socket, bufs, message)), header)
    }

    pub(super) fn lent(&mut self, socket: SocketId, limit: usize) -> usize {
        self.ops.insert(Op::Lent(socket, limit))
    }

    /// Keeps the list of a send. The header stays where it is until the operation is finished.
    pub(super) fn send(
        &mut self,
        socket: SocketId,
        list: List,
        patience: Patience,
    ) -> (usize, *const libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(vectors(&list, usize::MAX));
        (self.ops.insert(Op::Send(socket, list, message, patience)), header)
    }

    /// Keeps the list of which the first `bytes` are sent without a copy, until the kernel has let go of it.
    pub(super) fn uncopied(
        &mut self,
        socket: SocketId,
        list: List,
        bytes: usize,
    ) -> (usize, *const libc::msghdr) {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        let header = message.set(vectors(&list, bytes));
        (self.ops.insert(Op::Uncopied(socket, list, message)), header)
    }

    /// The socket has taken the first `n` bytes of a send without a copy: they are kept on, and the rest is ours again.
    pub(super) fn keep(&mut self, key: usize, n: usize) -> Option<(SocketId, List, Box<Message>)> {
        let op = self.ops.get_mut(key)?;
        let Op::Uncopied(id, list, _) = op else { return None };
        let (id, taken) = (*id, list.split_to(n));
        match std::mem::replace(op, Op::InUse(id, taken)) {
            Op::Uncopied(_, rest, message) => Some((id, rest, message)),
            _ => None,
        }
    }

    /// Sockets whose sends the kernel uses memory of.
    pub(super) fn sending_uncopied(&self) -> Vec<SocketId> {
        let in_use = |(_, op): (usize, &Op)| match op {
            Op::Uncopied(id, ..) | Op::InUse(id, _) => Some(*id),
            _ => None,
        };
        self.ops.iter().filter_map(in_use).collect()
    }

    /// The kernel has answered: the operation's memory is ours again.
    pub(super) fn finish(&mut self, key: usize) -> Option<Op> {
        self.ops.try_remove(key)
    }

    /// Is this a send without patience?
    pub(super) fn is_hasty_send(&self, key: usize) -> bool {
        matches!(self.ops.get(key), Some(Op::Send(.., Patience::None)))
    }

    /// Takes a header back for later use.
    pub(super) fn recycle(&mut self, message: Box<Message>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(message);
        }
    }

    /// Has the kernel answered everything that it uses memory for?
    pub(super) fn hold_no_memory(&self) -> bool {
        self.ops.iter().all(|(_, op)| matches!(op, Op::Poll(_)))
    }
}
