//! Completion engine over io_uring.
//!
//! All requests of a turn enter the kernel in one call, the same that waits for events.
//!
//! *Receives.* A receive that waits for bytes would pin its buffer for as long as a connection is idle. So waiting
//! receives have no buffer: once bytes arrive the kernel takes memory from a ring that all connections share
//! ([`Loans`]), and the completion delivers the data. Only where the machine has a place for the next bytes does a
//! receive target that place: with `MSG_DONTWAIT`, so that it always ends within the call that submits it, preceded by
//! a poll request if no bytes were available. Given receive buffers never stay in the kernel, and never need to be
//! cancelled.
//!
//! *Sends* are submitted with `MSG_DONTWAIT`, too, and complete only if the socket did not take everything
//! (`IOSQE_CQE_SKIP_SUCCESS`): a send without a completion is done with the call that submits it, and that same call
//! can sleep until the peer replies. After a completion, the rest is sent with a request that waits in the kernel until
//! the socket has taken all of it (`MSG_WAITALL`).
//!
//! *Connections* are opened and accepted by plain system calls once the kernel reports readiness: this is rare, and the
//! addresses would take system calls anyway.
//!
//! *Buffers* belong to [`Ops`] from submission to completion, whatever happens to the socket or the engine meanwhile.
//!
//! # When an operation is done
//!
//! An operation is done only when the kernel has reported it, or when it provably must be. Until then its memory is the
//! kernel's; after that it comes back exactly once. Names of operations have a [generation](OpKey), so that a
//! completion ends the operation that it belongs to or nothing.
//!
//! The kernel *reports* it with the last completion that carries the name: the only one, or, for a zero-copy send, the
//! notification after the one with `IORING_CQE_F_MORE`.
//!
//! A send with `IOSQE_CQE_SKIP_SUCCESS` *must* have sent everything if all of this holds ([`Uring::settles_silence`]
//! checks the conditions that can change from turn to turn):
//! 1. *The kernel has taken the request*: the submission queue was empty after the call, and no request waits to enter
//!    it.
//! 2. *The request ended within that call*: `MSG_DONTWAIT` keeps it from waiting for the socket, and no flag that would
//!    hand it to a worker (a link, a drain, `IOSQE_ASYNC`) is ever set.
//! 3. *Ending without a completion means that every byte was sent*: with `MSG_WAITALL`, the kernel treats a short send
//!    as a failure, and failures always complete. The request covers the whole list, because the list is within the
//!    limits of one request: [`MAX_SLICES`] segments and [`MAX_BYTES`] bytes. The kernel would truncate a longer one
//!    before it counts.
//! 4. *Every completion of that call has been seen*: none waits for room in the completion queue
//!    (`IORING_SQ_CQ_OVERFLOW`, checked between the call and the taking of completions: those posted before are then in
//!    the queue), and none was dropped for lack of memory (the queue's overflow counter).
//! 5. *The kernel has copied the bytes*: zero-copy sends always complete.
//!
//! If completions were dropped, it is unknown which operations are done: see [`recovery`].
mod loans;
mod ops;
mod recovery;
#[cfg(test)]
mod tests;
mod uncopied;

use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats};
use crate::ring::{self, Missing, Mode, Ring, RingSize, Setup};
use crate::socket;
use crate::socket::{ACCEPT_PAUSE, Accepted, MAX_BYTES, MAX_SLICES, Protocol};
use crate::system::clock;
use crate::table::{SocketId, SocketTable};
use crate::wait::{Wait, timeout};
use crate::waker::{Sleeper, Waker};
use crate::zero_copy::request::{Completion, Transfer};
use crate::zero_copy::{Policy, Registry, Settings};
use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use loans::Loans;
use onego_buf::List;
use onego_wire::{Landing, LocalPort, Time};
use ops::{OpKey, Ops, RingOp, SendKind};
use rustix::io::Errno;
use rustix::net::{self, Shutdown};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// `user_data` of requests that do not belong to a [`RingOp`].
const WAKER: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// Time after which a quiet engine releases sent buffers. Traffic releases them as a side effect.
const TIDY: Duration = Duration::from_millis(100);

const RECVSEND_POLL_FIRST: u16 = 1;

/// Maximum time that dropping an engine waits for the kernel to return its memory, which is leaked otherwise.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Listener {
        paused_until: Option<Time>,
    },
    Connecting,
    Stream,
    /// A descriptor that is not a connection and is watched for its user.
    Watched,
}

struct Socket {
    fd: OwnedFd,
    kind: Kind,
    protocol: Protocol,
    poll: Option<OpKey>,
    send: Option<OpKey>,
    lent: Option<OpKey>,
    /// The last such receive drained the socket.
    drained: bool,
    /// The end of the stream or an error was seen: a short receive does not mean that the socket is drained.
    ended: bool,
    policy: Option<Box<Policy>>,
}

/// Completion engine over io_uring.
///
/// It may be built on any thread; the thread that polls it first owns it.
pub struct Uring {
    ring: Ring,
    sleeper: Sleeper,
    sockets: SocketTable<Socket>,
    ops: Ops,
    loans: Option<Loans>,
    /// Successful sends need no completion.
    silent: bool,
    /// Queued sends that are done once submitted, unless the kernel completes them.
    silent_sends: Vec<OpKey>,
    lost: u32,
    /// Closed sockets that unsubmitted requests may refer to. The kernel looks up the descriptor number at submission;
    /// until then no other socket may reuse it.
    closing: Vec<OwnedFd>,
    paused: Vec<SocketId>,
    zero_copy: Settings,
    registry: Registry,
    stats: Stats,
}

impl Uring {
    /// Opens an engine with the best features that the kernel has.
    pub fn open() -> io::Result<Self> {
        Self::with(Mode::Deferred, RingSize::default(), &ring::setup)
    }

    pub(crate) fn with(mode: Mode, size: RingSize, setup: Setup<'_>) -> io::Result<Self> {
        let ring = Ring::open(mode, size, setup)?;
        let loans = match Loans::new(&ring.submitter()) {
            Ok(loans) => Some(loans),
            Err(error) => {
                tracing::warn!(%error, "{}: receives cost more", Missing::IncrementalBuffers);
                None
            }
        };
        let silent = ring.skips_success();
        if !silent {
            tracing::warn!("{}: sends cost more", Missing::SkipSuccess);
        }
        let mut engine = Self {
            ring,
            silent,
            sleeper: Sleeper::new()?,
            sockets: SocketTable::default(),
            ops: Ops::default(),
            loans,
            silent_sends: Vec::new(),
            lost: 0,
            closing: Vec::new(),
            paused: Vec::new(),
            zero_copy: Settings::default(),
            registry: Registry::new(),
            stats: Stats::default(),
        };
        engine.watch_waker();
        Ok(engine)
    }

    fn watch_waker(&mut self) {
        let Some(eventfd) = self.sleeper.eventfd() else { return };
        // A multishot poll request completes once for each write to the eventfd, which is never read.
        let poll = opcode::PollAdd::new(Fd(eventfd.as_raw_fd()), libc::POLLIN as u32).multi(true);
        // SAFETY: a poll request uses no memory, and the eventfd lives as long as the engine.
        unsafe { self.ring.push(&poll.build().user_data(WAKER)) };
    }

    fn add(&mut self, fd: OwnedFd, kind: Kind, protocol: Protocol) -> SocketId {
        let id = self.sockets.insert(Socket {
            fd,
            kind,
            protocol,
            poll: None,
            send: None,
            lent: None,
            drained: false,
            ended: false,
            policy: if protocol == Protocol::Tcp { self.policy() } else { None },
        });
        // The waiting receive watches a stream.
        if kind != Kind::Stream || self.loans.is_none() {
            self.watch(id);
        }
        id
    }

    /// Polls a socket once for the readiness that it needs next.
    fn watch(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        if socket.poll.is_some() {
            return;
        }
        let interest = match socket.kind {
            Kind::Listener { .. } | Kind::Watched => libc::POLLIN,
            Kind::Connecting => libc::POLLOUT,
            Kind::Stream => libc::POLLIN | libc::POLLRDHUP,
        };
        let key = self.ops.poll(id);
        socket.poll = Some(key);
        let poll = opcode::PollAdd::new(Fd(socket.fd.as_raw_fd()), interest as u32);
        // SAFETY: a poll request uses no memory; the descriptor stays open until it is submitted.
        unsafe { self.ring.push(&poll.build().user_data(key.to_bits())) };
    }

    fn complete(&mut self, entry: &cqueue::Entry, events: &mut Vec<Event>) {
        if let Completion::Freed { copied } = Completion::of(entry) {
            return self.freed(OpKey::from_bits(entry.user_data()), copied);
        }
        let result = u32::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
        match entry.user_data() {
            WAKER => {
                if !cqueue::more(entry.flags()) {
                    self.watch_waker();
                }
            }
            CANCEL => {}
            // Only a zero-copy send completes more than once.
            bits if cqueue::more(entry.flags()) => self.accepted(OpKey::from_bits(bits), result, events),
            bits => match self.ops.finish(OpKey::from_bits(bits)) {
                Some(RingOp::Poll(id)) => self.polled(id, result, events),
                Some(RingOp::Recv(id, bufs, message)) => {
                    self.ops.recycle(message);
                    self.received(id, bufs, result, events);
                }
                Some(RingOp::Lent(id, limit)) => self.came(id, limit, result, entry.flags(), events),
                Some(RingOp::Send(id, list, message, kind)) => {
                    self.ops.recycle(message);
                    self.sent(id, list, result, kind, events);
                }
                Some(RingOp::Uncopied(id, list, message)) => {
                    self.ops.recycle(message);
                    self.refused(id, list, result, events);
                }
                Some(RingOp::InUse(..)) | None => {
                    tracing::error!(bits, "a completion of an unknown operation");
                }
            },
        }
    }

    fn polled(&mut self, id: SocketId, result: Result<u32, Errno>, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.poll = None;
        let ready = result.unwrap_or(libc::POLLERR as u32) as libc::c_short;
        match socket.kind {
            Kind::Listener { .. } => self.accept(id, events),
            Kind::Connecting => {
                socket.kind = Kind::Stream;
                let result = socket::connected(&socket.fd);
                let open = result.is_ok();
                events.push(Event::Connected { socket: id, result });
                if open && self.loans.is_none() {
                    self.watch(id);
                }
            }
            Kind::Watched => {
                events.push(Event::Readable(id));
                // Submitted after the event's receiver has read the descriptor.
                self.watch(id);
            }
            Kind::Stream => {
                socket.ended |= ready & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0;
                events.push(Event::Readable(id));
            }
        }
    }

    fn accept(&mut self, listener: SocketId, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.get(listener) else { return };
        let mut accepted = Vec::new();
        let pause = socket::accept(&socket.fd, socket.protocol, &mut self.stats.accepts, &mut accepted);
        for Accepted { fd, protocol, peer, local } in accepted {
            let socket = self.add(fd, Kind::Stream, protocol);
            events.push(Event::Accepted { listener, socket, peer, local });
        }
        if !pause {
            return self.watch(listener);
        }
        let until = self.now() + ACCEPT_PAUSE;
        if let Some(socket) = self.sockets.get_mut(listener) {
            socket.kind = Kind::Listener { paused_until: Some(until) };
            self.paused.push(listener);
        }
    }

    fn resume_paused(&mut self) {
        let now = self.now();
        for listener in std::mem::take(&mut self.paused) {
            match self.sockets.get(listener).map(|socket| socket.kind) {
                Some(Kind::Listener { paused_until: Some(until) }) if until > now => {
                    self.paused.push(listener);
                }
                Some(_) => self.watch(listener),
                None => {}
            }
        }
    }

    fn received(
        &mut self,
        id: SocketId,
        bufs: RecvBufs,
        result: Result<u32, Errno>,
        events: &mut Vec<Event>,
    ) {
        let n = result.unwrap_or(0) as usize;
        self.stats.received_bytes += n as u64;
        let ended = self.sockets.get(id).is_none_or(|socket| socket.ended);
        let drained = match result {
            Ok(_) => n < bufs.capacity().min(MAX_BYTES) && (n == 0 || !ended),
            Err(error) => error != Errno::INTR,
        };
        // After the end or an error, a poll request would complete at once, again and again.
        if self.loans.is_none() && drained && (n > 0 || result == Err(Errno::WOULDBLOCK)) {
            self.watch(id);
        }
        let result = result.map(|_| n).map_err(Into::into);
        events.push(Event::Received(id, Received { bufs, result, drained }));
    }

    fn lend(&mut self, id: SocketId, limit: usize) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let key = self.ops.lent(id, limit);
        socket.lent = Some(key);
        let fd = Fd(socket.fd.as_raw_fd());
        let len = limit.min(loans::BUFFER) as u32;
        // If the last receive drained the socket, an attempt before waiting is futile.
        let poll_first = if socket.drained { RECVSEND_POLL_FIRST } else { 0 };
        let recv =
            opcode::Recv::new(fd, std::ptr::null_mut(), len).buf_group(loans::GROUP).ioprio(poll_first);
        let recv = recv.build().flags(squeue::Flags::BUFFER_SELECT).user_data(key.to_bits());
        // SAFETY: the memory that the kernel may take belongs to `self.loans`; the descriptor stays open until the
        // request is submitted.
        unsafe { self.ring.push(&recv) };
    }

    fn came(
        &mut self,
        id: SocketId,
        limit: usize,
        result: Result<u32, Errno>,
        flags: u32,
        events: &mut Vec<Event>,
    ) {
        let n = result.unwrap_or(0) as usize;
        // Also for a closed socket: the kernel fills the buffer after these bytes.
        let ahead = self.loans.as_mut().and_then(|loans| loans.take(flags, n));
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.lent = None;
        socket.drained = !cqueue::sock_nonempty(flags);
        let result = match result {
            // All lent memory was in use by others, and has been replaced meanwhile.
            Err(Errno::NOBUFS) => return self.lend(id, limit),
            // It was recalled.
            Err(Errno::CANCELED) => Err(Errno::WOULDBLOCK),
            Ok(1..) if ahead.is_none() => Err(Errno::IO),
            result => result,
        };
        let drained = socket.drained;
        self.stats.recvs += 1;
        self.stats.received_bytes += n as u64;
        let bufs = RecvBufs { landing: Landing::shared(limit), ahead, ..RecvBufs::default() };
        let result = result.map(|_| n).map_err(Into::into);
        events.push(Event::Received(id, Received { bufs, result, drained }));
    }

    fn sent(
        &mut self,
        id: SocketId,
        mut rest: List,
        result: Result<u32, Errno>,
        kind: SendKind,
        events: &mut Vec<Event>,
    ) {
        let n = result.unwrap_or(0) as usize;
        rest.advance(n);
        let before = match kind {
            SendKind::Answered { before } => before,
            SendKind::Silent => {
                let full = matches!(result, Ok(_) | Err(Errno::WOULDBLOCK));
                if full && !rest.is_empty() && self.sockets.get(id).is_some() {
                    self.stats.sent_bytes += n as u64;
                    return self.push_send(id, rest, SendKind::Answered { before: n });
                }
                0
            }
        };
        self.finish_send(id, rest, result, before, events);
    }

    /// Reports the end of a send, of which an earlier request sent the first bytes.
    fn finish_send(
        &mut self,
        id: SocketId,
        rest: List,
        result: Result<u32, Errno>,
        before: usize,
        events: &mut Vec<Event>,
    ) {
        self.stats.sent_bytes += u64::from(result.unwrap_or(0));
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.send = None;
        let result = match result {
            // The kernel gives up on a request after many spurious wake-ups, as with a tiny send buffer.
            Err(Errno::WOULDBLOCK) if before > 0 => Ok(before),
            result => result.map(|n| before + n as usize).map_err(Into::into),
        };
        events.push(Event::Sent(id, Sent { rest, result, full: false }));
    }

    /// Returns whether silence means success once the completions in the queue are processed. To be called between the
    /// system call and their processing.
    fn settles_silence(&mut self) -> bool {
        !self.silent_sends.is_empty() && self.ring.all_submitted() && !self.ring.overflows()
    }

    fn finish_silent(&mut self, events: &mut Vec<Event>) {
        let mut sends = std::mem::take(&mut self.silent_sends);
        for key in sends.drain(..) {
            // One with a completion is gone: the request that sends the rest has another name.
            if let Some(RingOp::Send(id, list, message, kind)) = self.ops.finish(key) {
                self.ops.recycle(message);
                // At most `MAX_BYTES`.
                let n = list.len() as u32;
                self.sent(id, list, Ok(n), kind, events);
            }
        }
        self.silent_sends = sends;
    }

    fn push_send(&mut self, id: SocketId, list: List, kind: SendKind) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let fd = Fd(socket.fd.as_raw_fd());
        let (key, header) = self.ops.send(id, list, kind);
        socket.send = Some(key);
        let send = opcode::SendMsg::new(fd, header);
        let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32;
        let send = match kind {
            SendKind::Answered { .. } => send.flags(flags).build(),
            SendKind::Silent => {
                self.silent_sends.push(key);
                let send = send.flags(flags | libc::MSG_DONTWAIT as u32).build();
                send.flags(squeue::Flags::SKIP_SUCCESS)
            }
        };
        // SAFETY: header, vectors and buffers belong to `self.ops` until the completion, and the kernel only reads; the
        // descriptor stays open until the request is submitted.
        unsafe { self.ring.push(&send.user_data(key.to_bits())) };
    }

    fn cancel(&mut self, key: OpKey) {
        let cancel = opcode::AsyncCancel::new(key.to_bits()).build().user_data(CANCEL);
        // SAFETY: a cancellation uses no memory.
        unsafe { self.ring.push(&cancel) };
    }
}

impl Engine for Uring {
    fn now(&self) -> Time {
        clock::now()
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        let (fd, local) = socket::listen(addr)?;
        Ok((self.add(fd, Kind::Listener { paused_until: None }, Protocol::Tcp), local))
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        let (local, protocol) = socket::adopt(&socket)?;
        Ok((self.add(socket, Kind::Listener { paused_until: None }, protocol), local))
    }

    fn attach(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        let (local, protocol) = socket::attach(&socket)?;
        Ok((self.add(socket, Kind::Stream, protocol), local))
    }

    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId> {
        let fd = socket::connect(addr, local)?;
        Ok(self.add(fd, Kind::Connecting, Protocol::Tcp))
    }

    fn watch(&mut self, descriptor: OwnedFd) -> io::Result<SocketId> {
        Ok(self.add(descriptor, Kind::Watched, Protocol::Other))
    }

    fn recv(&mut self, id: SocketId, bufs: RecvBufs) -> Option<Received> {
        let Some(socket) = self.sockets.get(id) else {
            return Some(Received { bufs, result: Err(Errno::BADF.into()), drained: true });
        };
        if bufs.landing.descriptors > 0 {
            let reason = "the uring engine does not receive descriptors with bytes: use epoll or uepoll";
            let result = Err(io::Error::new(io::ErrorKind::Unsupported, reason));
            return Some(Received { bufs, result, drained: true });
        }
        if bufs.landing.place.is_none() && bufs.ahead.is_none() {
            self.lend(id, bufs.landing.ahead);
            return None;
        }
        self.stats.recvs += 1;
        let (key, header) = self.ops.recv(id, bufs);
        let recv = opcode::RecvMsg::new(Fd(socket.fd.as_raw_fd()), header).flags(libc::MSG_DONTWAIT as u32);
        // SAFETY: header, vectors and buffers belong to `self.ops` until the completion; the descriptor stays open
        // until the request is submitted.
        unsafe { self.ring.push(&recv.build().user_data(key.to_bits())) };
        None
    }

    fn send(&mut self, id: SocketId, list: List) -> Option<Sent> {
        if self.sockets.get(id).is_none() {
            return Some(Sent { rest: list, result: Err(Errno::BADF.into()), full: true });
        }
        self.stats.sends += 1;
        match self.transfer(id, &list) {
            (Transfer::Copy, _) => {}
            (transfer, bytes) => {
                self.push_uncopied(id, list, transfer, bytes);
                return None;
            }
        }
        // A list beyond the limits of one request is sent in several, each of which needs a completion.
        let long = list.len() > MAX_BYTES || list.segments().len() > MAX_SLICES;
        let silent = self.silent && !long;
        self.push_send(id, list, if silent { SendKind::Silent } else { SendKind::Answered { before: 0 } });
        None
    }

    fn lends(&self) -> bool {
        self.loans.is_some()
    }

    fn await_readable(&mut self, id: SocketId) {
        self.watch(id);
    }

    fn recall(&mut self, id: SocketId) {
        if let Some(key) = self.sockets.get(id).and_then(|socket| socket.lent) {
            self.cancel(key);
        }
    }

    fn shutdown(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get(id) {
            // Fails if the peer has reset the connection, which needs no notice then.
            let _ = net::shutdown(&socket.fd, Shutdown::Write);
        }
    }

    fn close(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.remove(id) else { return };
        // Requests keep the socket open; it closes once they are all gone.
        for key in [socket.poll, socket.send, socket.lent].into_iter().flatten() {
            self.cancel(key);
        }
        self.stats.zero_copy += socket.policy.map(|policy| policy.counters()).unwrap_or_default();
        self.closing.push(socket.fd);
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.paused.is_empty() {
            self.resume_paused();
        }
        let mut timeout = timeout(wait, !self.paused.is_empty());
        if timeout != Some(Duration::ZERO) && (self.ring.has_completions() || !self.sleeper.fall_asleep()) {
            timeout = Some(Duration::ZERO);
        }
        if !self.silent_sends.is_empty() {
            timeout = Some(timeout.map_or(TIDY, |timeout| timeout.min(TIDY)));
        }
        let result = self.ring.enter(timeout);
        if self.sleeper.wake_up() {
            events.push(Event::Woken);
        }
        result?;
        if !self.closing.is_empty() && self.ring.all_submitted() {
            self.closing.clear();
        }
        let settled = self.settles_silence();
        let mut completions = self.ring.take_completions();
        for entry in completions.drain(..) {
            self.complete(&entry, events);
        }
        self.ring.recycle(completions);
        if self.ring.lost() != self.lost {
            return self.start_over(events);
        }
        if settled {
            self.finish_silent(events);
        }
        Ok(())
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        self.ring.enter(Some(Duration::ZERO))?;
        clock::pause(time);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    fn stats(&self) -> Stats {
        let waits = self.ring.calls();
        let mut zero_copy = self.stats.zero_copy;
        let policies = self.sockets.iter().filter_map(|(_, socket)| socket.policy.as_ref());
        policies.for_each(|policy| zero_copy += policy.counters());
        Stats { waits, system_calls: waits + self.stats.accepts, zero_copy, ..self.stats }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // A closed socket can no longer be aborted.
        let mut events = Vec::new();
        let end = self.now() + DROP_PATIENCE;
        while !self.ops.sending_uncopied().is_empty()
            && self.now() < end
            && self.poll(Wait::Until(end), &mut events).is_ok()
        {
            events.clear();
        }
        self.abort_uncopied();
        let end = self.now() + DROP_PATIENCE;
        for id in self.sockets.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.close(id);
        }
        while !self.ops.hold_no_memory() {
            let now = self.now();
            if now >= end || self.poll(Wait::Until(end), &mut events).is_err() {
                // The dropping thread is not the ring's, or the kernel does not answer: a leak is better than
                // overwritten memory.
                tracing::error!("io_uring did not return its buffers in time: leaking them");
                std::mem::forget((std::mem::take(&mut self.ops), self.loans.take()));
                return;
            }
            events.clear();
        }
    }
}

#[cfg(test)]
impl Uring {
    pub(crate) fn socket_descriptor(&self, id: SocketId) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.sockets.get(id)?.fd))
    }

    /// Disables buffer rings and silent sends, as with an older kernel.
    pub(crate) fn of_old(mut self) -> Self {
        self.loans = None;
        self.silent = false;
        self
    }
}
