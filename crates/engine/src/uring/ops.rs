//! Operations that the kernel may be working on, with the memory it may be working in.
use crate::SocketId;
use crate::engine::RecvBufs;
use crate::socket::MAX_SLICES;
use onego_buf::List;
use slab::Slab;

/// A message header and its vectors, where the kernel can find them.
pub(super) struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside lead into the message's own vectors and into buffers that the same operation owns and
// that are `Send` themselves.
unsafe impl Send for Message {}

impl Message {
    fn new() -> Box<Self> {
        // SAFETY: a header of zeroes is one without name, vectors and control data.
        let header = unsafe { std::mem::zeroed() };
        Box::new(Self { header, vectors: Vec::new() })
    }

    fn set(&mut self, vectors: impl Iterator<Item = libc::iovec>) {
        self.vectors.clear();
        self.vectors.extend(vectors);
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
    }
}

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

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

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
        let limit = bufs.ahead_limit;
        let place = bufs.place.as_mut().map(|place| vector_mut(place));
        let ahead = bufs.ahead.as_mut().map(|ahead| {
            let len = ahead.len().min(limit);
            vector_mut(&mut ahead[..len])
        });
        message.set(place.into_iter().chain(ahead));
        let header = &raw mut message.header;
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
        message.set(list.segments().take(MAX_SLICES).map(|segment| vector(segment)));
        let header = &raw const message.header;
        (self.ops.insert(Op::Send(socket, list, message, patience)), header)
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
