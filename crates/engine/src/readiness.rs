//! Sockets that are used by plain system calls once they are ready: everything of a readiness engine but how it
//! learns of readiness.
//!
//! Readiness comes edge-triggered, once for reading and writing: no system call is spent on changing interest. What
//! edge triggering asks for in return:
//! - A receive that fills its buffers may have left bytes behind; the caller goes on. One that returns *less* than
//!   it asked for found the queue of a stream socket empty, and whatever arrives later makes a new edge (epoll(7),
//!   question 9). So a short receive ends the reading without one more call just to see `EAGAIN`.
//! - The exception is the end of the stream: it may have come before the receive, together with its data, and then
//!   there is no further edge. `POLLRDHUP`, `POLLHUP` or `POLLERR` in the event tell; from then on only the end
//!   itself, or an error, ends the reading. If it comes after the event was read, it makes an edge of its own.
//! - A short send found the send buffer full; the kernel then makes an edge once a third of it is free again.
//!
//! (A receive also stops short at urgent data. Nothing here uses it; a peer that does delays itself only.)
//!
//! Unix sockets are the other exception: a receive stops short where descriptors or credentials of a sender come along, with
//! more in the queue. On what is not TCP, only `EAGAIN` ends the reading.
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

/// What a stream is watched for.
pub(crate) const STREAM_INTEREST: PollFlags = PollFlags::IN.union(PollFlags::OUT).union(PollFlags::RDHUP);

/// What tells that the stream has ended, or will with what is there.
const END: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Listener,
    Connecting,
    Stream,
    /// No socket, but something that is watched for its user.
    Watched,
    /// An eventfd whose signals are told.
    Signals,
}

pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: Kind,
    protocol: Protocol,
    /// A short receive does not mean that there is no more: the end of the stream was seen, or an error.
    may_stop_short: bool,
    /// The last send was short: tell when there is room.
    full: bool,
    /// Its sends without a copy, once it has been asked for them.
    zero_copy: Option<Box<Stream>>,
}

/// What an engine has to do for a listener that was ready.
pub(crate) enum Listened {
    /// Watch these.
    Accepted(Vec<Accepted>),
    /// Watch these, and leave the listener alone until it is [rested](Sockets::rested).
    Paused(Vec<Accepted>),
}

/// The sockets of a readiness engine.
#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) table: SocketTable<Socket>,
    /// Listeners that rest, and until when; there are few, and hardly ever any.
    paused: Vec<(SocketId, Time)>,
    zero_copy: Settings,
    closing: Closing,
    stats: Stats,
}

impl Sockets {
    /// What was done; `waits` are the calls that waited.
    pub(crate) fn stats(&self, waits: u64) -> Stats {
        let mut stats = self.stats;
        let streams = self.table.iter().filter_map(|(_, socket)| socket.zero_copy.as_deref());
        streams.for_each(|stream| count(&mut stats, stream));
        // Of notifications so far.
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

    /// A connection is ready for something: tells what that means.
    pub(crate) fn ready(&mut self, id: SocketId, mut flags: PollFlags, events: &mut Vec<Event>) {
        let Some(socket) = self.table.get_mut(id) else { return };
        if flags.contains(PollFlags::ERR)
            && socket.kind == Kind::Stream
            && let Some(zero_copy) = &mut socket.zero_copy
        {
            // Notifications are told as an error, also when an earlier look has taken them already; a connection that
            // has failed is hung up as well.
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

    /// A listener is ready: accepts what is there, or some of it.
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

    /// Is something to be looked at before long: a listener that rests, or a socket that is closing?
    pub(crate) fn resting(&self) -> bool {
        !self.paused.is_empty() || !self.closing.is_empty()
    }

    /// Does this listener rest?
    pub(crate) fn is_resting(&self, id: SocketId) -> bool {
        self.paused.iter().any(|&(listener, _)| listener == id)
    }

    /// A listener that has rested long enough, to be watched again. Looks at sockets that are closing on the way.
    pub(crate) fn rested(&mut self) -> Option<SocketId> {
        self.closing.turn();
        if self.paused.is_empty() {
            return None;
        }
        let now = clock::now();
        let index = self.paused.iter().position(|&(_, until)| until <= now)?;
        Some(self.paused.swap_remove(index).0)
    }

    /// Receives what is there.
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

    /// Sends as much as the socket takes.
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

    /// Sends a message with a descriptor, at once and whole.
    pub(crate) fn send_descriptor(
        &self,
        id: SocketId,
        message: &[u8],
        descriptor: &OwnedFd,
    ) -> io::Result<()> {
        let socket = self.table.get(id).ok_or(Errno::BADF)?;
        descriptors::send(&socket.fd, message, descriptor)
    }

    /// Which sends of connections that are made from now on are without a copy.
    pub(crate) fn set_zero_copy(&mut self, settings: Settings) {
        self.zero_copy = settings;
    }

    /// Sets how many bytes make the socket readable. The kernel reports readiness immediately if a lower mark is already
    /// reached, and reports fewer bytes if its buffer takes no more.
    pub(crate) fn set_low_water(&mut self, id: SocketId, bytes: usize) -> bool {
        let Some(socket) = self.table.get(id).filter(|socket| socket.protocol == Protocol::Tcp) else {
            return false;
        };
        let result = socket::set_low_water(&socket.fd, bytes);
        result.inspect_err(|error| tracing::debug!(%error, "a socket has no low-water mark")).is_ok()
    }

    /// Forgets a socket. It is closed when it is dropped, or later: `None`.
    pub(crate) fn close(&mut self, id: SocketId) -> Option<OwnedFd> {
        let Socket { fd, zero_copy, .. } = self.table.remove(id)?;
        let Some(stream) = zero_copy else { return Some(fd) };
        count(&mut self.stats, &stream);
        self.closing.close(fd, stream)
    }

    pub(crate) fn shutdown(&mut self, id: SocketId) {
        if let Some(socket) = self.table.get(id) {
            // It fails if the peer has reset the connection; then there is nobody to tell.
            let _ = net::shutdown(&socket.fd, Shutdown::Write);
        }
    }
}

/// Adds what a connection's sends without a copy were.
fn count(stats: &mut Stats, stream: &Stream) {
    stats.system_calls += stream.calls();
    stats.zero_copy += stream.counters();
}

/// What is in the kernel's hands comes back before it is freed.
impl Drop for Sockets {
    fn drop(&mut self) {
        for id in self.table.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.close(id);
        }
    }
}

/// One receive.
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

/// The buffers of a receive.
type Vectors<'a> = SmallVec<[IoSliceMut<'a>; Landing::PLACES_MAX + 1]>;

/// One send of as much as a call takes, which is cut off: how many bytes were offered, and how many the socket took.
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
    // Filled where it stands: to collect it would be to move 16 KiB.
    let mut slices = SmallVec::<[IoSlice<'_>; MAX_SLICES]>::new();
    slices.extend(list.io_slices(MAX_SLICES));
    let asked =
        if slices.len() == MAX_SLICES { slices.iter().map(|slice| slice.len()).sum() } else { list.len() };
    (asked, net::sendmsg(fd, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL))
}
