//! The verbs: what a user of remote direct memory access sees of one end of a connection.

use crate::error::{PostError, Refused};
use crate::memory::{Key, Memory, Remote};
use onego_buf::{List, SegmentMut};

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// The peer invalidates this region of its own when the message arrives (Send with Invalidate). A device that
    /// knows no such message sends a plain one: the peer is told what was invalidated, and does it itself if nothing was.
    pub invalidate: Option<Key>,
    /// The peer's user wants to be woken for it (Send with Solicited Event).
    pub solicited: bool,
}

/// How work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Success,
    /// The connection ended before it was done. Nothing is known of what the peer saw of it; memory that was to be
    /// written may be written in part.
    Flushed,
}

/// Something that was posted is done, or memory comes back.
#[derive(Debug)]
pub struct Completion {
    /// What the caller named it. Memory that is [`CompletedWork::Released`] has the number of its key.
    pub id: u64,
    /// How it ended.
    pub status: Status,
    /// What it was, and what comes back.
    pub done: CompletedWork,
}

/// What a [`Completion`] is about.
#[derive(Debug)]
pub enum CompletedWork {
    /// The whole message is with the transport, which holds its memory for as long as it needs it.
    Sent,
    /// The same for an RDMA Write. That the peer has it is known when it answers a later message.
    Written,
    /// The sink of an RDMA Read, filled.
    Read(SegmentMut),
    /// A message, or what a flushed receive was posted with.
    Received {
        /// The buffer that was posted, as long as it was.
        buffer: SegmentMut,
        /// Bytes at its start that are the message.
        len: usize,
        /// Did the sender ask for the receiver to be woken?
        solicited: bool,
        /// The region that the sender invalidated with it.
        invalidated: Option<(Key, Memory)>,
    },
    /// Registered memory comes back: it was invalidated while bytes for it were being received, or the connection
    /// ended (then it is flushed).
    Released(Key, Memory),
}

/// One end of a connection, as its user sees it.
///
/// Sends, RDMA Writes and RDMA Reads go out in the order in which they were posted, and the peer sees a message after
/// everything that was sent or written before it (RFC 5040, section 5.5). There are two exceptions, as the RFC has it:
/// an RDMA Read waits while as many are under way as the peer allows, and what was posted after it passes it; and what
/// is posted after an RDMA Read does not wait for its answer.
///
/// Reads complete in their order; sends and writes complete in theirs; receives complete in the order in which they
/// were posted. Receives may be posted before the connection is established, and should be: a message that finds no
/// receive posted ends the connection. Whether memory may be registered and work be posted before depends on the provider
/// ([`PostError::NotEstablished`]).
pub trait QueuePair {
    /// Registers memory for the peer and says where its first byte is for it, to be told to the peer. The provider
    /// chooses the offset: 0 in software, and an address of this process where a device counts so.
    ///
    /// A part of a buffer is offered by splitting it off before and joining it again afterwards
    /// ([`SegmentMut::split_to`], [`SegmentMut::try_join`]).
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>>;

    /// Takes memory back: from now on the peer cannot get at it. (What it asked to read before is still sent: that
    /// memory is shared.)
    ///
    /// `None`: bytes that the peer writes to it are being received at this moment. The memory comes by
    /// [`CompletedWork::Released`] as soon as they have landed, and the connection ends, because the peer writes to what is no
    /// longer there.
    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError>;

    /// Takes a sink back where nobody wants what the peer may still write to it. A provider that can leaves the key as it
    /// is, so that such a write harms nothing: it is dropped, until the key is [invalidated](Self::invalidate), by either
    /// side. One that cannot invalidates the key: then a write to it ends the connection.
    ///
    /// `None`: as with [`invalidate`](Self::invalidate).
    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError>;

    /// Gives a buffer for one message of the peer. Buffers are used in the order in which they were given.
    fn post_receive(&mut self, id: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>>;

    /// Sends a message, gathered from all segments of `bytes`.
    fn post_send(&mut self, id: u64, bytes: List, flags: SendFlags) -> Result<(), Refused<List>>;

    /// Writes `bytes` to the peer's memory.
    fn post_write(&mut self, id: u64, bytes: List, to: Remote) -> Result<(), Refused<List>>;

    /// Reads as many bytes from the peer's memory as `sink` has. Only once the connection is established: before,
    /// nobody knows how many reads the peer allows.
    fn post_read(&mut self, id: u64, sink: SegmentMut, from: Remote) -> Result<(), Refused<SegmentMut>>;

    /// The next completion, until there is none. Completions that are not polled count as work in their queue, so
    /// that these bound them too.
    fn poll(&mut self) -> Option<Completion>;

    /// Ends the connection: what was not handed to the transport is not sent, and everything comes back, flushed.
    fn disconnect(&mut self);
}
