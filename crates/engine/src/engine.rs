mod figures;

use crate::table::SocketId;
use crate::wait::Wait;
use crate::waker::Waker;
use crate::zero_copy::Counters;
use onego_buf::{List, SegmentMut};
use onego_wire::{Landing, LocalPort, Time};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Buffers of one receive. The engine owns them until it gives them back in a [`Received`].
#[derive(Debug, Default)]
pub struct RecvBufs {
    /// Where bytes go, and how many.
    pub landing: Landing,
    /// Shared memory for what goes to no place.
    pub ahead: Option<SegmentMut>,
    /// What came along with the bytes, once the receive has ended.
    pub descriptors: Vec<OwnedFd>,
}

impl RecvBufs {
    /// What is filled, in this order.
    pub fn slices(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let Landing { place, further, ahead: limit, .. } = &mut self.landing;
        let ahead = self.ahead.as_mut().map(|ahead| {
            let len = ahead.len().min(*limit);
            &mut ahead[..len]
        });
        place.iter_mut().chain(further).map(|place| &mut place[..]).chain(ahead)
    }

    /// Bytes that a receive into these buffers may take.
    pub fn capacity(&self) -> usize {
        let Landing { place, further, ahead: limit, .. } = &self.landing;
        place.iter().chain(further).map(|place| place.len()).sum::<usize>()
            + self.ahead.as_ref().map_or(0, |ahead| ahead.len().min(*limit))
    }
}

/// A receive that has ended.
#[derive(Debug)]
pub struct Received {
    /// The buffers, again.
    pub bufs: RecvBufs,
    /// Bytes received: one buffer is filled after the other. `Ok(0)`: the peer sends no more.
    /// [`io::ErrorKind::WouldBlock`]: there was nothing.
    pub result: io::Result<usize>,
    /// There is nothing more for now: wait for [`Event::Readable`] before the next receive.
    pub drained: bool,
}

/// A send that has ended.
#[derive(Debug)]
pub struct Sent {
    /// What was not sent.
    pub rest: List,
    /// Bytes sent.
    pub result: io::Result<usize>,
    /// The socket takes no more for now: wait for [`Event::Writable`] before the next send.
    pub full: bool,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A peer connected to a listener.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The new connection, open.
        socket: SocketId,
        /// The peer's address.
        peer: SocketAddr,
        /// This side's address.
        local: SocketAddr,
    },
    /// A connection asked for is open, with this local address, or has failed and is to be closed.
    Connected {
        /// The connection.
        socket: SocketId,
        /// This side's address.
        result: io::Result<SocketAddr>,
    },
    /// A receive will find bytes, the end, or an error.
    Readable(SocketId),
    /// A send will take bytes again, after one that was [`full`](Sent::full).
    Writable(SocketId),
    /// A pending receive has ended.
    Received(SocketId, Received),
    /// A pending send has ended. An engine may sleep before it tells that all was sent.
    Sent(SocketId, Sent),
    /// A [`Waker`] was used.
    Woken,
}

/// Moves bytes. A buffer has one owner at a time: what is given to an engine comes back from it.
///
/// One interface serves two kinds of engines. A *readiness* engine (epoll, the simulator) does an operation on the
/// spot and answers with `Some`. A *completion* engine (io_uring) answers `None`, keeps the buffers, and gives them
/// back in [`Event::Received`] or [`Event::Sent`]. On a socket there is at most one receive and one send at a time.
///
/// An idle connection holds no receive memory: either kind tells first that a receive is worth while
/// ([`Event::Readable`]), or lends memory of its own once something has come.
pub trait Engine {
    /// The time.
    fn now(&self) -> Time;

    /// Opens a listener and says at which address (port 0 asks for any).
    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)>;

    /// Listens on a stream socket that the program has made, and says at which address: `0.0.0.0:0` unless its family is IP. The
    /// simulated network has no such sockets.
    fn adopt(&mut self, _socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Uses a connected stream socket that the program has made, and says which address it has: `0.0.0.0:0` unless its family is
    /// IP. The simulated network has no such sockets.
    fn attach(&mut self, _socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a connection from such a port; [`Event::Connected`] follows.
    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId>;

    /// Watches a descriptor that is none of its sockets: [`Event::Readable`] comes whenever it is readable, until it is
    /// [closed](Self::close). The simulated network has no descriptors.
    fn watch(&mut self, _descriptor: OwnedFd) -> io::Result<SocketId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Watches an eventfd without reading it: [`Event::Readable`] comes after it was signalled, until it is
    /// [closed](Self::close). Not every engine can.
    fn watch_signals(&mut self, _eventfd: OwnedFd) -> io::Result<SocketId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends a message with a descriptor, at once and whole. An error: the socket does not take it, or this engine cannot do
    /// that.
    fn send_descriptor(
        &mut self,
        _socket: SocketId,
        _message: &[u8],
        _descriptor: OwnedFd,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Receives what is there. `None`: the buffers come back in [`Event::Received`].
    ///
    /// With an engine that [lends](Self::lends), a receive without buffers waits until something comes, and gives at
    /// most `ahead_limit` bytes of it as `ahead`, in memory of the engine. It may wait for ever: closing ends it.
    fn recv(&mut self, socket: SocketId, bufs: RecvBufs) -> Option<Received>;

    /// Sends as much of `list` as the socket takes. `None`: the rest comes back in [`Event::Sent`].
    fn send(&mut self, socket: SocketId, list: List) -> Option<Sent>;

    /// Has the engine receive memory of its own? Then [`Event::Readable`] comes only when it is
    /// [asked for](Self::await_readable).
    fn lends(&self) -> bool {
        false
    }

    /// Asks an engine that [lends](Self::lends) for one [`Event::Readable`], for a receive that has buffers.
    fn await_readable(&mut self, _socket: SocketId) {}

    /// Ends a receive that waits in an engine that [lends](Self::lends), with what is there: [`Event::Received`]
    /// follows.
    fn recall(&mut self, _socket: SocketId) {}

    /// Asks for [`Event::Readable`] only once that many bytes are there (or the stream has ended): waking up for fewer is
    /// not worth while. `false`: this engine tells of any byte.
    fn set_low_water(&mut self, _socket: SocketId, _bytes: usize) -> bool {
        false
    }

    /// Tells the peer that no more is sent; what it sends may still be received.
    fn shutdown(&mut self, socket: SocketId);

    /// Closes a socket and forgets its name. No receive into given buffers may be pending. What else is pending is
    /// cancelled; the engine lets go of its memory once the kernel has.
    fn close(&mut self, socket: SocketId);

    /// Carries out what is queued, sleeps as `wait` says if nothing has happened, and appends what has.
    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()>;

    /// Carries out what is queued and lets that time pass. What happens meanwhile wakes nobody; the next [`poll`](Self::poll)
    /// finds it. In the simulated network no time passes.
    fn pause(&mut self, _time: Duration) -> io::Result<()> {
        Ok(())
    }

    /// Prepares for a sleep that somebody else sleeps: until the descriptor is readable, or for as long as is said at most.
    /// The next [`poll`](Self::poll) ends it. `None`: there is something to do now. An error: this
    /// engine cannot do that.
    fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A handle that makes a sleeping [`poll`](Self::poll) return, from any thread.
    fn waker(&self) -> Waker;

    /// What the engine has done so far.
    fn stats(&self) -> Stats;
}

/// What an engine has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// System calls to wait, to receive, to send and to accept: what it takes to move bytes. To open, to set up and to
    /// close a connection takes a few more, which are not counted.
    pub system_calls: u64,
    /// Calls that wait for events (and, in a completion engine, carry out operations).
    pub waits: u64,
    /// Receives. In a completion engine they are no system calls of their own.
    pub recvs: u64,
    /// Sends. In a completion engine they are no system calls of their own.
    pub sends: u64,
    /// Calls to accept connections.
    pub accepts: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Sends without a copy, and why others were not.
    pub zero_copy: Counters,
}
