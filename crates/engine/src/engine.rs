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

/// Buffers of one receive. The engine owns them until it returns them in a [`Received`].
#[derive(Debug, Default)]
pub struct RecvBufs {
    /// Destination of the bytes, and their limit.
    pub landing: Landing,
    /// Shared memory for bytes without a place of their own.
    pub ahead: Option<SegmentMut>,
    /// Descriptors that arrived with the bytes.
    pub descriptors: Vec<OwnedFd>,
}

impl RecvBufs {
    /// Returns the buffers in the order in which a receive fills them.
    pub fn slices(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let Landing { place, further, ahead: limit, .. } = &mut self.landing;
        let ahead = self.ahead.as_mut().map(|ahead| {
            let len = ahead.len().min(*limit);
            &mut ahead[..len]
        });
        place.iter_mut().chain(further).map(|place| &mut place[..]).chain(ahead)
    }

    /// Returns the number of bytes that a receive into these buffers may take.
    pub fn capacity(&self) -> usize {
        let Landing { place, further, ahead: limit, .. } = &self.landing;
        place.iter().chain(further).map(|place| place.len()).sum::<usize>()
            + self.ahead.as_ref().map_or(0, |ahead| ahead.len().min(*limit))
    }
}

/// A completed receive.
#[derive(Debug)]
pub struct Received {
    /// The buffers, returned to the caller.
    pub bufs: RecvBufs,
    /// Bytes received; buffers are filled in order. `Ok(0)`: the peer has finished sending.
    /// [`io::ErrorKind::WouldBlock`]: no bytes were available.
    pub result: io::Result<usize>,
    /// The socket is drained: wait for [`Event::Readable`] before the next receive.
    pub drained: bool,
}

/// A completed send.
#[derive(Debug)]
pub struct Sent {
    /// Bytes that were not sent.
    pub rest: List,
    /// Bytes sent.
    pub result: io::Result<usize>,
    /// The socket's buffer is full: wait for [`Event::Writable`] before the next send.
    pub full: bool,
}

/// Event reported by an engine.
#[derive(Debug)]
pub enum Event {
    /// A peer connected to a listener.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The new connection, already open.
        socket: SocketId,
        /// The peer's address.
        peer: SocketAddr,
        /// This side's address.
        local: SocketAddr,
    },
    /// A requested connection is open, or has failed and must be closed.
    Connected {
        /// The connection.
        socket: SocketId,
        /// This side's address.
        result: io::Result<SocketAddr>,
    },
    /// A receive will return bytes, the end of the stream, or an error.
    Readable(SocketId),
    /// A send can make progress again after one that was [`full`](Sent::full).
    Writable(SocketId),
    /// A pending receive has completed.
    Received(SocketId, Received),
    /// A pending send has completed. An engine may sleep before it reports a send that took everything.
    Sent(SocketId, Sent),
    /// A [`Waker`] was used.
    Woken,
}

/// Event engine: moves bytes between sockets and buffers. A buffer has one owner at a time: the engine returns every
/// buffer that it was given.
///
/// One interface serves two kinds of engines. A *readiness* engine (epoll, the simulator) runs an operation immediately
/// and answers with `Some`. A *completion* engine (io_uring) answers `None`, keeps the buffers, and returns them in
/// [`Event::Received`] or [`Event::Sent`]. A socket has at most one receive and one send in flight.
///
/// An idle connection holds no receive memory: an engine either announces bytes first ([`Event::Readable`]), or lends
/// its own memory once bytes have arrived.
pub trait Engine {
    /// Returns the engine's time.
    fn now(&self) -> Time;

    /// Opens a listener and returns its address. Port 0 selects any free port.
    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)>;

    /// Listens on a stream socket that the program has made and returns its address: `0.0.0.0:0` unless the socket's
    /// family is IP. The simulated network does not support this.
    fn adopt(&mut self, _socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Uses a connected stream socket that the program has made and returns its address: `0.0.0.0:0` unless the
    /// socket's family is IP. The simulated network does not support this.
    fn attach(&mut self, _socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a connection from a local port as `local` specifies; [`Event::Connected`] follows.
    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId>;

    /// Watches a descriptor that is not one of the engine's sockets: [`Event::Readable`] follows whenever it is
    /// readable, until it is [closed](Self::close). The simulated network has no descriptors.
    fn watch(&mut self, _descriptor: OwnedFd) -> io::Result<SocketId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Watches an eventfd without reading it: [`Event::Readable`] follows each signal, until it is
    /// [closed](Self::close). Not all engines support this.
    fn watch_signals(&mut self, _eventfd: OwnedFd) -> io::Result<SocketId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends a message with a descriptor immediately and in full. Fails if the socket does not take it, or if the
    /// engine does not support descriptors.
    fn send_descriptor(
        &mut self,
        _socket: SocketId,
        _message: &[u8],
        _descriptor: OwnedFd,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Receives the bytes available. `None`: the buffers come back in [`Event::Received`].
    ///
    /// With an engine that [lends](Self::lends), a receive without buffers waits for bytes and returns at most
    /// `ahead_limit` of them as `ahead`, in the engine's memory. It may wait forever; closing the socket ends it.
    fn recv(&mut self, socket: SocketId, bufs: RecvBufs) -> Option<Received>;

    /// Sends as much of `list` as the socket takes. `None`: the rest comes back in [`Event::Sent`].
    fn send(&mut self, socket: SocketId, list: List) -> Option<Sent>;

    /// Returns whether the engine has receive memory of its own. Such an engine reports [`Event::Readable`] only on
    /// [request](Self::await_readable).
    fn lends(&self) -> bool {
        false
    }

    /// Requests one [`Event::Readable`], for a receive with buffers, from an engine that [lends](Self::lends).
    fn await_readable(&mut self, _socket: SocketId) {}

    /// Ends a receive that waits in an engine that [lends](Self::lends) with the bytes available; [`Event::Received`]
    /// follows.
    fn recall(&mut self, _socket: SocketId) {}

    /// Delays [`Event::Readable`] until `bytes` bytes are available or the stream has ended, because fewer are not
    /// worth a wake-up. Returns `false` if the engine has no such mark and reports any byte.
    fn set_low_water(&mut self, _socket: SocketId, _bytes: usize) -> bool {
        false
    }

    /// Ends this side's direction of the stream; the peer's bytes may still be received.
    fn shutdown(&mut self, socket: SocketId);

    /// Closes a socket and forgets its name. No receive into given buffers may be pending. Any other pending operation
    /// is cancelled; the engine releases its memory once the kernel has.
    fn close(&mut self, socket: SocketId);

    /// Runs queued operations, sleeps as `wait` allows if there are no events, and appends the events.
    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()>;

    /// Runs queued operations and sleeps for `time`. Events do not end the sleep; the next [`poll`](Self::poll) reports
    /// them. In the simulated network no time passes.
    fn pause(&mut self, _time: Duration) -> io::Result<()> {
        Ok(())
    }

    /// Prepares for a sleep outside the engine: until the returned descriptor is readable, or at most for the returned
    /// time. The next [`poll`](Self::poll) ends it. `None`: there is work to do now. Fails if the engine does not
    /// support this.
    fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns a handle that makes a sleeping [`poll`](Self::poll) return, from any thread.
    fn waker(&self) -> Waker;

    /// Returns the engine's counters.
    fn stats(&self) -> Stats;
}

/// Counters of an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// System calls that wait, receive, send and accept. The few calls that open, set up and close connections are not
    /// counted.
    pub system_calls: u64,
    /// Calls that wait for events and, in a completion engine, run operations.
    pub waits: u64,
    /// Receives. In a completion engine they are not separate system calls.
    pub recvs: u64,
    /// Sends. In a completion engine they are not separate system calls.
    pub sends: u64,
    /// Calls to accept connections.
    pub accepts: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Zero-copy sends, and the reasons why other sends copied.
    pub zero_copy: Counters,
}
