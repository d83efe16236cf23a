//! Readiness engine over an io_uring: epoll in user memory.
//!
//! Each connection has one edge-triggered multishot poll request in the kernel for its whole life. Readiness is posted
//! to the completion ring, which is mapped into this process: on a busy engine it costs no system call of its own.
//! Receives and sends are the plain system calls of [`readiness`](crate::readiness), and also refresh readiness: the
//! kernel posts pending events on the way out of any system call ([`Mode::Cooperative`]). Only when the ring is empty
//! does the engine enter the kernel, to sleep there.
//!
//! A multishot request ends when the ring is full and is then submitted again; a new request reports current readiness
//! at once, so no edge is lost. Listeners and descriptors watched for others have single-shot requests, resubmitted
//! after each event.
use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats};
use crate::readiness::{Kind, Listened, STREAM_INTEREST, Sockets};
use crate::ring::{self, Mode, Ring, RingSize, Setup};
use crate::socket;
use crate::socket::{Accepted, Protocol};
use crate::system::clock;
use crate::table::SocketId;
use crate::wait::{Wait, timeout};
use crate::waker::{Sleeper, Waker};
use crate::zero_copy::Settings;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode};
use onego_buf::List;
use onego_wire::{LocalPort, Time};
use rustix::event::PollFlags;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// `user_data` of requests that do not belong to a socket. No socket has these names.
const WAKER: u64 = u64::MAX;
const REMOVAL: u64 = u64::MAX - 1;

/// Readiness engine over an io_uring.
///
/// It may be built on any thread; the thread that polls it first owns it.
pub struct Uepoll {
    ring: Ring,
    sleeper: Sleeper,
    sockets: Sockets,
    /// Closed sockets whose poll requests may not have been submitted yet. The kernel looks up the descriptor number at
    /// submission; until then no other socket may reuse it.
    closing: Vec<OwnedFd>,
    lost: u32,
}

impl Uepoll {
    /// Opens an engine.
    pub fn open() -> io::Result<Self> {
        Self::with(RingSize::default(), &ring::setup)
    }

    pub(crate) fn with(size: RingSize, setup: Setup<'_>) -> io::Result<Self> {
        let mut engine = Self {
            ring: Ring::open(Mode::Cooperative, size, setup)?,
            sleeper: Sleeper::new()?,
            sockets: Sockets::default(),
            closing: Vec::new(),
            lost: 0,
        };
        engine.watch_waker();
        Ok(engine)
    }

    /// Sets the zero-copy policy for sends of future connections.
    pub fn set_zero_copy(&mut self, settings: Settings) {
        self.sockets.set_zero_copy(settings);
    }

    fn watch_waker(&mut self) {
        let Some(eventfd) = self.sleeper.eventfd() else { return };
        // A multishot poll request completes once for each write to the eventfd, which is never read.
        let poll = opcode::PollAdd::new(Fd(eventfd.as_raw_fd()), libc::POLLIN as u32).multi(true);
        // SAFETY: a poll request uses no memory, and the eventfd lives as long as the engine.
        unsafe { self.ring.push(&poll.build().user_data(WAKER)) };
    }

    fn add(&mut self, fd: OwnedFd, kind: Kind, protocol: Protocol) -> SocketId {
        let id = self.sockets.insert(fd, kind, protocol);
        self.watch(id);
        id
    }

    /// Polls a socket's readiness: reports its current state at once, and each later edge.
    fn watch(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.table.get(id) else { return };
        let fd = Fd(socket.fd.as_raw_fd());
        let poll = match socket.kind {
            Kind::Listener | Kind::Watched => opcode::PollAdd::new(fd, PollFlags::IN.bits().into()),
            // Each signal is an edge, so the eventfd is never read.
            Kind::Signals => opcode::PollAdd::new(fd, PollFlags::IN.bits().into()).multi(true),
            Kind::Connecting | Kind::Stream => {
                opcode::PollAdd::new(fd, STREAM_INTEREST.bits().into()).multi(true)
            }
        };
        // SAFETY: a poll request uses no memory; the descriptor stays open until it is submitted.
        unsafe { self.ring.push(&poll.build().user_data(id.to_bits())) };
    }

    fn remove(&mut self, user_data: u64) {
        let remove = opcode::PollRemove::new(user_data).build().user_data(REMOVAL);
        // SAFETY: a removal uses no memory.
        unsafe { self.ring.push(&remove) };
    }

    fn complete(&mut self, entry: &cqueue::Entry, events: &mut Vec<Event>) {
        let more = cqueue::more(entry.flags());
        match entry.user_data() {
            WAKER if !more && entry.result() != -libc::ECANCELED => self.watch_waker(),
            WAKER | REMOVAL => {}
            bits => self.polled(SocketId::from_bits(bits), entry.result(), more, events),
        }
    }

    fn polled(&mut self, id: SocketId, result: i32, more: bool, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.table.get(id) else { return };
        if result == -libc::ECANCELED {
            // Another request has replaced this one.
            return;
        }
        match socket.kind {
            Kind::Listener => return self.accept(id, events),
            Kind::Watched => {
                events.push(Event::Readable(id));
                // Submitted after the event's receiver has read the descriptor.
                return self.watch(id);
            }
            Kind::Signals => {
                events.push(Event::Readable(id));
                if !more && result >= 0 {
                    self.watch(id);
                }
                return;
            }
            Kind::Connecting | Kind::Stream => {}
        }
        let flags = u16::try_from(result).map_or(PollFlags::ERR, PollFlags::from_bits_retain);
        self.sockets.ready(id, flags, events);
        // A failed request would fail again; its error is the last event.
        if !more && result >= 0 {
            self.watch(id);
        }
    }

    fn accept(&mut self, listener: SocketId, events: &mut Vec<Event>) {
        let accepted = match self.sockets.accept(listener) {
            Listened::Accepted(accepted) => {
                self.watch(listener);
                accepted
            }
            Listened::Paused(accepted) => accepted,
        };
        for Accepted { fd, protocol, peer, local } in accepted {
            let socket = self.add(fd, Kind::Stream, protocol);
            events.push(Event::Accepted { listener, socket, peer, local });
        }
    }

    /// Resubmits all poll requests after the kernel has dropped completions, which may have been any socket's. The new
    /// ones report current readiness.
    fn start_over(&mut self) {
        tracing::warn!(
            "the kernel dropped io_uring completions for lack of memory: polling all sockets again"
        );
        for id in self.sockets.table.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.remove(id.to_bits());
            if !self.sockets.is_resting(id) {
                self.watch(id);
            }
        }
        self.remove(WAKER);
        self.watch_waker();
    }
}

impl Engine for Uepoll {
    fn now(&self) -> Time {
        clock::now()
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        let (fd, local) = socket::listen(addr)?;
        Ok((self.add(fd, Kind::Listener, Protocol::Tcp), local))
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        let (local, protocol) = socket::adopt(&socket)?;
        Ok((self.add(socket, Kind::Listener, protocol), local))
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

    fn watch_signals(&mut self, eventfd: OwnedFd) -> io::Result<SocketId> {
        Ok(self.add(eventfd, Kind::Signals, Protocol::Other))
    }

    fn send_descriptor(&mut self, socket: SocketId, message: &[u8], descriptor: OwnedFd) -> io::Result<()> {
        self.sockets.send_descriptor(socket, message, &descriptor)
    }

    fn recv(&mut self, id: SocketId, bufs: RecvBufs) -> Option<Received> {
        Some(self.sockets.recv(id, bufs))
    }

    fn send(&mut self, id: SocketId, list: List) -> Option<Sent> {
        Some(self.sockets.send(id, list))
    }

    fn set_low_water(&mut self, id: SocketId, bytes: usize) -> bool {
        self.sockets.set_low_water(id, bytes)
    }

    fn shutdown(&mut self, id: SocketId) {
        self.sockets.shutdown(id);
    }

    fn close(&mut self, id: SocketId) {
        if self.sockets.table.get(id).is_none() {
            return;
        }
        // The request keeps the socket open; the socket closes once the request is gone.
        self.remove(id.to_bits());
        self.closing.extend(self.sockets.close(id));
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        while let Some(listener) = self.sockets.rested() {
            self.watch(listener);
        }
        let mut timeout = timeout(wait, self.sockets.resting());
        if timeout != Some(Duration::ZERO) && (self.ring.has_completions() || !self.sleeper.fall_asleep()) {
            timeout = Some(Duration::ZERO);
        }
        let result = self.ring.enter(timeout);
        if self.sleeper.wake_up() {
            events.push(Event::Woken);
        }
        result?;
        if !self.closing.is_empty() && self.ring.all_submitted() {
            self.closing.clear();
        }
        let mut completions = self.ring.take_completions();
        for entry in completions.drain(..) {
            self.complete(&entry, events);
        }
        self.ring.recycle(completions);
        let lost = self.ring.lost();
        if lost != self.lost {
            self.lost = lost;
            self.start_over();
        }
        Ok(())
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        clock::pause(time);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    fn stats(&self) -> Stats {
        self.sockets.stats(self.ring.calls())
    }
}

#[cfg(test)]
impl Uepoll {
    pub(crate) fn socket_descriptor(&self, id: SocketId) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.sockets.table.get(id)?.fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pump;
    use onego_testkit::{FrameEvent, Frames};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn server() -> (Pump<Uepoll, Frames>, SocketAddr) {
        let mut machine = Frames::echo();
        machine.listen(0, "127.0.0.1:0".parse().unwrap());
        let mut server = Pump::new(Uepoll::open().unwrap(), machine);
        server.turn(Wait::Poll).unwrap();
        match server.machine_mut().events.pop_front() {
            Some(FrameEvent::Listening(_, Ok(addr))) => (server, addr),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn readiness_that_is_in_the_ring_takes_no_system_call() {
        let (mut server, addr) = server();
        let mut peer = TcpStream::connect(addr).unwrap();
        while server.connections() == 0 {
            server.turn(Wait::Poll).unwrap();
        }
        // Submits the request that polls the new connection.
        server.turn(Wait::Poll).unwrap();
        let before = server.stats();
        for _ in 0..1000 {
            server.turn(Wait::Poll).unwrap();
        }
        assert_eq!(server.stats(), before, "an empty ring is looked at in memory");
        peer.write_all(&[1, 0, 0, 0, 7]).unwrap();
        while server.stats().sends == before.sends {
            server.turn(Wait::Poll).unwrap();
        }
        let stats = server.stats();
        assert_eq!((stats.recvs - before.recvs, stats.sends - before.sends), (1, 1));
        assert!(stats.waits - before.waits <= 1, "{stats:?}, before {before:?}");
        peer.read_exact(&mut [0; 5]).unwrap();
    }

    #[test]
    fn lost_completions_cause_a_new_poll_of_every_socket() {
        let (mut server, addr) = server();
        let mut peers = [TcpStream::connect(addr).unwrap(), TcpStream::connect(addr).unwrap()];
        for round in 0..3 {
            for peer in &mut peers {
                peer.write_all(&[1, 0, 0, 0, round]).unwrap();
            }
            server.turn(Wait::Poll).unwrap();
            // All completions so far are lost; the next call reports that.
            server.engine_mut().ring.lose_completions();
            server.turn(Wait::Until(clock::now() + Duration::from_millis(10))).unwrap();
            let want = 5 * 2 * (u64::from(round) + 1);
            while server.stats().sent_bytes < want {
                server.turn(Wait::Poll).unwrap();
            }
            let waker = server.waker();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                waker.wake();
            });
            let wakes = server.machine().wakes;
            while server.machine().wakes == wakes {
                server.turn(Wait::Forever).unwrap();
            }
            thread.join().unwrap();
            for peer in &mut peers {
                peer.read_exact(&mut [0; 5]).unwrap();
            }
        }
        assert_eq!(server.connections(), 2);
    }
}
