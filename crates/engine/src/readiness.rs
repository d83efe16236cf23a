//! Sockets of a readiness engine, used by plain system calls once they are ready. Only the source of readiness differs
//! between the engines.
//!
//! Readiness is edge-triggered, registered once for reading and writing: no system call changes interest. The
//! obligations of edge triggering:
//! - A receive that fills its buffers may have left bytes behind; the caller continues. One that returns *less* than
//!   the buffers' size found the queue of a stream socket empty, and later bytes make a new edge (epoll(7), question
//!   9). So a short receive ends the reading without another call that would only return `EAGAIN`.
//! - The exception is the end of the stream: it may have arrived before the receive, together with its data, and then
//!   there is no further edge. `POLLRDHUP`, `POLLHUP` or `POLLERR` in the event report it; from then on only the end
//!   itself, or an error, ends the reading. An end that arrives after the event was read makes its own edge.
//! - A short send found the send buffer full; the kernel then makes an edge once a third of it is free again.
//!
//! (A receive also stops short at urgent data. It is not used here; a peer that uses it delays only itself.)
//!
//! Unix sockets are the other exception: a receive stops short at descriptors or credentials of a sender, with more in
//! the queue. On sockets other than TCP, only `EAGAIN` ends the reading.
use crate::descriptors;
use crate::engine::{Event, Received, RecvBufs, Sent, Stats};
use crate::socket;
use crate::socket::{ACCEPT_PAUSE, Accepted, MAX_BYTES, MAX_SLICES, Protocol};
use crate::system::clock;
use crate::table::{SocketId, SocketTable};
use crate::zero_copy::{Closing, Settings, Stream};
use onego_buf::List;
use onego_wire::{Landing, Time};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

pub(crate) const STREAM_INTEREST: PollFlags = PollFlags::IN.union(PollFlags::OUT).union(PollFlags::RDHUP);

/// Flags of a stream that has ended, or will after the bytes available.
const END: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Listener,
    Connecting,
    Stream,
    /// A descriptor that is not a connection and is watched for its user.
    Watched,
    Signals,
}

pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: Kind,
    protocol: Protocol,
    /// The end of the stream or an error was seen: a short receive does not mean that the socket is drained.
    may_stop_short: bool,
    /// The last send was short: report when the socket is writable again.
    full: bool,
    zero_copy: Option<Box<Stream>>,
}

pub(crate) enum Listened {
    Accepted(Vec<Accepted>),
    /// Connections to watch; ignore the listener until it is [rested](Sockets::rested).
    Paused(Vec<Accepted>),
}

#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) table: SocketTable<Socket>,
    paused: Vec<(SocketId, Time)>,
    zero_copy: Settings,
    closing: Closing,
    stats: Stats,
}

impl Sockets {
    /// Returns the counters; `waits` counts the calls that waited.
    pub(crate) fn stats(&self, waits: u64) -> Stats {
        let mut stats = self.stats;
        let streams = self.table.iter().filter_map(|(_, socket)| socket.zero_copy.as_deref());
        streams.for_each(|stream| count(&mut stats, stream));
        // Counts notifications received so far.
        let Stats { recvs, sends, accepts, system_calls, .. } = stats;
        Stats { waits, system_calls: system_calls + waits + recvs + sends + accepts, ..stats }
    }

    pub(crate) fn insert(&mut self, fd: OwnedFd, kind: Kind, protocol: Protocol) -> SocketId {
        let is_tcp = protocol == Protocol::Tcp;
        let zero_copy = match kind {
            Kind::Connecting | Kind::Stream if is_tcp => Stream::new(&fd, self.zero_copy),
            _ => None,
        };
        self.table.insert(Socket { fd, kind, protocol, may_stop_short: false, full: false, zero_copy })
    }

    pub(crate) fn ready(&mut self, id: SocketId, mut flags: PollFlags, events: &mut Vec<Event>) {
        let Some(socket) = self.table.get_mut(id) else { return };
        if flags.contains(PollFlags::ERR)
            && socket.kind == Kind::Stream
            && let Some(zero_copy) = &mut socket.zero_copy
        {
            // Notifications are reported as an error, even if an earlier reap has taken them already; a failed
            // connection is hung up as well.
            zero_copy.reap(&socket.fd);
            if !flags.intersects(PollFlags::HUP | PollFlags::RDHUP) {
                flags.remove(PollFlags::ERR);
            }
        }
        let writable = flags.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP);
        if socket.kind == Kind::Connecting {
            if !writable {
                return;
            }
            let result = socket::connected(&socket.fd);
            socket.kind = Kind::Stream;
            events.push(Event::Connected { socket: id, result });
        }
        socket.may_stop_short |= flags.intersects(END);
        if flags.intersects(PollFlags::IN | END) {
            events.push(Event::Readable(id));
        }
        if socket.full && writable {
            socket.full = false;
            events.push(Event::Writable(id));
        }
    }

    pub(crate) fn accept(&mut self, listener: SocketId) -> Listened {
        let mut accepted = Vec::new();
        let Some(socket) = self.table.get(listener) else { return Listened::Accepted(accepted) };
        if socket::accept(&socket.fd, socket.protocol, &mut self.stats.accepts, &mut accepted) {
            self.paused.push((listener, clock::now() + ACCEPT_PAUSE));
            Listened::Paused(accepted)
        } else {
            Listened::Accepted(accepted)
        }
    }

    /// Returns whether a paused listener or a closing socket needs attention before long.
    pub(crate) fn resting(&self) -> bool {
        !self.paused.is_empty() || !self.closing.is_empty()
    }

    pub(crate) fn is_resting(&self, id: SocketId) -> bool {
        self.paused.iter().any(|&(listener, _)| listener == id)
    }

    /// Returns a listener whose pause has ended, to be watched again. Also drives sockets that are closing.
    pub(crate) fn rested(&mut self) -> Option<SocketId> {
        self.closing.turn();
        if self.paused.is_empty() {
            return None;
        }
        let now = clock::now();
        let index = self.paused.iter().position(|&(_, until)| until <= now)?;
        Some(self.paused.swap_remove(index).0)
    }

    pub(crate) fn recv(&mut self, id: SocketId, mut bufs: RecvBufs) -> Received {
        let Some(socket) = self.table.get(id) else {
            return Received { bufs, result: Err(Errno::BADF.into()), drained: true };
        };
        self.stats.recvs += 1;
        let mut may_stop_short = socket.may_stop_short;
        let result = match socket.protocol {
            Protocol::Tcp => recv_into(&socket.fd, &mut bufs),
            Protocol::Other => descriptors::receive(&socket.fd, &mut bufs).map(|(n, came_along)| {
                may_stop_short |= came_along;
                n
            }),
        };
        let drained = match result {
            Ok(n) => n < bufs.capacity().min(MAX_BYTES) && (n == 0 || !may_stop_short),
            Err(Errno::INTR) => false,
            Err(_) => true,
        };
        self.stats.received_bytes += result.unwrap_or(0) as u64;
        Received { bufs, result: result.map_err(Into::into), drained }
    }

    pub(crate) fn send(&mut self, id: SocketId, mut list: List) -> Sent {
        let Some(socket) = self.table.get_mut(id) else {
            return Sent { rest: list, result: Err(Errno::BADF.into()), full: true };
        };
        self.stats.sends += 1;
        let Socket { fd, zero_copy, .. } = socket;
        let sent = zero_copy.as_mut().and_then(|zero_copy| zero_copy.send(fd, &mut list));
        let (asked, result) = sent.unwrap_or_else(|| send_some(fd, &mut list));
        match result {
            Ok(n) => {
                self.stats.sent_bytes += n as u64;
                socket.full = n < asked;
            }
            Err(Errno::WOULDBLOCK) => socket.full = true,
            Err(_) => {}
        }
        Sent { rest: list, full: socket.full, result: result.map_err(io::Error::from) }
    }

    pub(crate) fn send_descriptor(
        &self,
        id: SocketId,
        message: &[u8],
        descriptor: &OwnedFd,
    ) -> io::Result<()> {
        let socket = self.table.get(id).ok_or(Errno::BADF)?;
        descriptors::send(&socket.fd, message, descriptor)
    }

    pub(crate) fn set_zero_copy(&mut self, settings: Settings) {
        self.zero_copy = settings;
    }

    /// Sets how many bytes make the socket readable. The kernel reports readiness immediately if a lower mark is
    /// already reached, and reports fewer bytes if its buffer takes no more.
    pub(crate) fn set_low_water(&mut self, id: SocketId, bytes: usize) -> bool {
        let Some(socket) = self.table.get(id).filter(|socket| socket.protocol == Protocol::Tcp) else {
            return false;
        };
        let result = socket::set_low_water(&socket.fd, bytes);
        result.inspect_err(|error| tracing::debug!(%error, "a socket has no low-water mark")).is_ok()
    }

    /// Removes a socket. Returns its descriptor; `None` if it is closed later because the kernel still uses memory.
    pub(crate) fn close(&mut self, id: SocketId) -> Option<OwnedFd> {
        let Socket { fd, zero_copy, .. } = self.table.remove(id)?;
        let Some(stream) = zero_copy else { return Some(fd) };
        count(&mut self.stats, &stream);
        self.closing.close(fd, stream)
    }

    pub(crate) fn shutdown(&mut self, id: SocketId) {
        if let Some(socket) = self.table.get(id) {
            // Fails if the peer has reset the connection, which needs no notice then.
            let _ = net::shutdown(&socket.fd, Shutdown::Write);
        }
    }
}

fn count(stats: &mut Stats, stream: &Stream) {
    stats.system_calls += stream.calls();
    stats.zero_copy += stream.counters();
}

/// Takes all memory back from the kernel before it is freed.
impl Drop for Sockets {
    fn drop(&mut self) {
        for id in self.table.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.close(id);
        }
    }
}

fn recv_into(fd: &OwnedFd, bufs: &mut RecvBufs) -> Result<usize, Errno> {
    let mut slices = bufs.slices();
    match (slices.next(), slices.next()) {
        (None, _) => Err(Errno::INVAL),
        (Some(only), None) => net::recv(fd, only, RecvFlags::empty()).map(|received| received.1),
        (Some(first), Some(second)) => {
            let mut vectors = Vectors::new();
            vectors.extend([first, second].into_iter().chain(slices).map(IoSliceMut::new));
            rustix::io::readv(fd, &mut vectors)
        }
    }
}

type Vectors<'a> = SmallVec<[IoSliceMut<'a>; Landing::PLACES_MAX + 1]>;

/// Sends once, as much as a call takes, and cuts it off `list`. Returns the bytes offered, and those that the socket
/// took.
fn send_some(fd: &OwnedFd, list: &mut List) -> (usize, Result<usize, Errno>) {
    let (asked, result) = offer(fd, list);
    if let Ok(n) = result {
        list.advance(n);
    }
    (asked, result)
}

fn offer(fd: &OwnedFd, list: &List) -> (usize, Result<usize, Errno>) {
    if list.len() > MAX_BYTES {
        return offer(fd, &list.slice(0, MAX_BYTES));
    }
    let mut segments = list.segments();
    if let (Some(only), None) = (segments.next(), segments.next()) {
        return (only.len(), net::send(fd, only, SendFlags::NOSIGNAL));
    }
    // Filled in place: collecting would move 16 KiB.
    let mut slices = SmallVec::<[IoSlice<'_>; MAX_SLICES]>::new();
    slices.extend(list.io_slices(MAX_SLICES));
    let asked =
        if slices.len() == MAX_SLICES { slices.iter().map(|slice| slice.len()).sum() } else { list.len() };
    (asked, net::sendmsg(fd, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL))
}
