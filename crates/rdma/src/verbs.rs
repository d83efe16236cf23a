//! The verbs: a user's interface to one end of a connection.

use crate::error::{PostError, Refused};
use crate::memory::{Key, Memory, Remote};
use onego_buf::{List, SegmentMut};

/// Options of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// Region of the peer that it invalidates when the message arrives (Send with Invalidate). A device without such
    /// messages sends a plain one: the peer then sees that nothing was invalidated, and does it itself.
    pub invalidate: Option<Key>,
    /// Wakes the peer's user (Send with Solicited Event).
    pub solicited: bool,
}

/// Outcome of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Success,
    /// The connection ended before the work was done. It is unknown how much of it the peer has seen; memory to be
    /// written may be written in part.
    Flushed,
}

/// Completion of posted work, or return of memory.
#[derive(Debug)]
pub struct Completion {
    /// The caller's id of the work. For [`CompletedWork::Released`], the number of the key.
    pub id: u64,
    /// Outcome.
    pub status: Status,
    /// The work, with the memory that comes back.
    pub done: CompletedWork,
}

/// Work of a [`Completion`].
#[derive(Debug)]
pub enum CompletedWork {
    /// The transport has the whole message, and holds its memory for as long as necessary.
    Sent,
    /// The same for an RDMA Write. The peer has received it once it replies to a later message.
    Written,
    /// The filled sink of an RDMA Read.
    Read(SegmentMut),
    /// A message, or the buffer of a flushed receive.
    Received {
        /// The posted buffer, at its full length.
        buffer: SegmentMut,
        /// Length of the message at the start of the buffer.
        len: usize,
        /// The sender requested to wake the receiver.
        solicited: bool,
        /// The region that the sender invalidated with it.
        invalidated: Option<(Key, Memory)>,
    },
    /// Registered memory comes back: it was invalidated while bytes for it were being received, or the connection ended
    /// (then it is flushed).
    Released(Key, Memory),
}

/// One end of a connection, as seen by its user.
///
/// Sends, RDMA Writes and RDMA Reads go out in the order in which they were posted, and the peer sees a message after
/// everything that was sent or written before it (RFC 5040, section 5.5). The RFC has two exceptions: an RDMA Read
/// waits while the peer's limit of reads is in flight, and later work overtakes it; and work posted after an RDMA Read
/// does not wait for its response.
///
/// Reads complete in order; sends and writes complete in order; receives complete in the order in which they were
/// posted. Receives may be posted before the connection is established, and should be: a message that finds no posted
/// receive ends the connection. Whether memory may be registered and work be posted before then depends on the provider
/// ([`PostError::NotEstablished`]).
pub trait QueuePair {
    /// Registers memory for the peer and returns the address of its first byte, to be sent to the peer. The provider
    /// chooses the offset: 0 in software, an address of this process for devices that number regions so.
    ///
    /// To offer part of a buffer, split it off before and join it again afterwards ([`SegmentMut::split_to`],
    /// [`SegmentMut::try_join`]).
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>>;

    /// Takes memory back: from now on the peer has no access to it. (Data of earlier read requests is still sent: that
    /// memory is shared.)
    ///
    /// `None`: bytes that the peer writes to it are being received at this moment. The memory comes back by
    /// [`CompletedWork::Released`] once they have arrived, and the connection ends, because the peer writes to an
    /// invalid region.
    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError>;

    /// Takes a sink back, making later writes of the peer harmless if the provider can. Such a provider keeps the key
    /// and drops the writes, until either side [invalidates](Self::invalidate) the key. Others invalidate the key: then
    /// a write to it ends the connection.
    ///
    /// `None`: as with [`invalidate`](Self::invalidate).
    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError>;

    /// Posts a buffer for one message of the peer. Buffers are used in the order in which they were posted.
    fn post_receive(&mut self, id: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>>;

    /// Sends a message, gathered from all segments of `bytes`.
    fn post_send(&mut self, id: u64, bytes: List, flags: SendFlags) -> Result<(), Refused<List>>;

    /// Writes `bytes` to the peer's memory.
    fn post_write(&mut self, id: u64, bytes: List, to: Remote) -> Result<(), Refused<List>>;

    /// Reads as many bytes from the peer's memory as `sink` holds. Fails before the connection is established: until
    /// then it is unknown how many reads the peer allows.
    fn post_read(&mut self, id: u64, sink: SegmentMut, from: Remote) -> Result<(), Refused<SegmentMut>>;

    /// Returns the next completion, if any. Completions count towards their queue's limit until they are polled, so
    /// that the limits bound them, too.
    fn poll(&mut self) -> Option<Completion>;

    /// Ends the connection: work that the transport does not have is not sent, and everything comes back flushed.
    fn disconnect(&mut self);
}
