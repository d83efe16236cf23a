//! The sockets of a host, as its engine uses them.

use super::Network;
use super::end::End;
use super::event::Happening;
use super::host::Socket;
use super::packet::What;
use super::stream::{Stream, StreamState};
use crate::faults::{happens, pick};
use onego_buf::List;
use onego_engine::{Event, Received, RecvBufs, Sent, SocketId};
use onego_wire::LocalPort;
use rand::Rng;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Copies `bytes` to where a receive wants them.
fn fill(bufs: &mut RecvBufs, mut bytes: List) {
    for slice in bufs.slices() {
        let n = bytes.len().min(slice.len());
        bytes.split_to(n).copy_to(slice);
    }
}

impl Network {
    pub(super) fn stream(&mut self, end: End) -> Option<&mut Stream> {
        match self.hosts.get_mut(&end.host)?.sockets.get_mut(end.socket)? {
            Socket::Stream(stream) => Some(stream),
            Socket::Listener(_) => None,
        }
    }

    pub(crate) fn connect(&mut self, host: IpAddr, addr: SocketAddr, local: LocalPort) -> SocketId {
        let local = SocketAddr::new(host, self.free_port(host, local));
        let stream = Stream::new(local, addr, StreamState::Connecting);
        let socket = self.host(host).sockets.insert(Socket::Stream(Box::new(stream)));
        let end = End { host, socket };
        self.post(end, addr.ip(), What::Open(local, addr));
        let key = self.at(self.now + self.faults.connect_timeout, Happening::ConnectTimeout(end));
        if let Some(stream) = self.stream(end) {
            stream.connect_timeout = Some(key);
        }
        socket
    }

    pub(super) fn fail_connect(&mut self, end: End, kind: io::ErrorKind) {
        if let Some(stream) = self.stream(end)
            && stream.state == StreamState::Connecting
        {
            stream.state = StreamState::Broken;
            let result = Err(kind.into());
            self.push(end.host, Event::Connected { socket: end.socket, result });
        }
    }

    /// The application hears of an accepted connection, and of what has arrived for it meanwhile.
    pub(super) fn announce(&mut self, end: End) {
        let Some(stream) = self.stream(end) else { return };
        let Some(listener) = stream.listener else { return };
        stream.announced = true;
        let (peer, local) = (stream.remote, stream.local);
        self.push(end.host, Event::Accepted { listener, socket: end.socket, peer, local });
        self.tell_readable(end);
    }

    /// Something has arrived for a stream.
    pub(super) fn hear(&mut self, end: End) {
        let delay = pick(&mut self.rng, &self.faults.receive_delay);
        self.at(self.now + delay, Happening::Readable(end));
    }

    pub(super) fn tell_readable(&mut self, end: End) {
        if let Some(stream) = self.stream(end)
            && stream.announced
            && !stream.told
            && stream.has_bytes(stream.low_water)
        {
            stream.told = true;
            self.push(end.host, Event::Readable(end.socket));
        }
    }

    pub(super) fn tell_writable(&mut self, end: End) {
        if let Some(stream) = self.stream(end)
            && stream.full
        {
            stream.full = false;
            self.push(end.host, Event::Writable(end.socket));
        }
    }

    pub(crate) fn recv(&mut self, host: IpAddr, socket: SocketId, mut bufs: RecvBufs) -> Received {
        let end = End { host, socket };
        let short = happens(&mut self.rng, self.faults.short_receive);
        let cut = self.rng.random::<u32>() as usize;
        let Some(stream) = self.stream(end) else {
            return Received { bufs, result: Err(io::ErrorKind::NotConnected.into()), drained: true };
        };
        let mut n = bufs.capacity().min(stream.inbox.len());
        if short && n > 0 {
            n = 1 + cut % n;
        }
        let result = match n {
            0 if stream.state == StreamState::Broken => Err(io::ErrorKind::ConnectionReset.into()),
            0 if stream.ended => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => {
                fill(&mut bufs, stream.inbox.split_to(n));
                Ok(n)
            }
        };
        let drained = n == 0 || !stream.has_something();
        stream.told = !drained;
        let (peer, remote) = (stream.peer, stream.remote.ip());
        self.trace.note([8, n as u64]);
        if let (1.., Some(peer)) = (n, peer) {
            self.post(end, remote, What::Taken(peer, n));
        }
        Received { bufs, result, drained }
    }

    pub(crate) fn send(&mut self, host: IpAddr, socket: SocketId, mut list: List) -> Sent {
        let end = End { host, socket };
        if happens(&mut self.rng, self.faults.reset_per_send) {
            self.reset(end);
        }
        let window = self.faults.window;
        let short = happens(&mut self.rng, self.faults.short_send);
        let cut = self.rng.random::<u32>() as usize;
        let fail = |rest, kind: io::ErrorKind| Sent { rest, result: Err(kind.into()), full: false };
        let Some(stream) = self.stream(end) else { return fail(list, io::ErrorKind::NotConnected) };
        match stream.state {
            StreamState::Connecting => return fail(list, io::ErrorKind::NotConnected),
            StreamState::Broken => return fail(list, io::ErrorKind::ConnectionReset),
            StreamState::Open if stream.shut => return fail(list, io::ErrorKind::BrokenPipe),
            StreamState::Open => {}
        }
        let room = window.saturating_sub(stream.under_way);
        if room == 0 {
            stream.full = true;
            return Sent { rest: list, result: Err(io::ErrorKind::WouldBlock.into()), full: true };
        }
        let mut n = list.len().min(room);
        if short {
            n = 1 + cut % n;
        }
        stream.under_way += n;
        stream.full = n < list.len();
        let full = stream.full;
        let (peer, remote) = (stream.peer, stream.remote.ip());
        if full && n < room {
            let soon = pick(&mut self.rng, &self.faults.latency);
            self.at(self.now + soon, Happening::Writable(end));
        }
        let mut bytes = list.split_to(n);
        while let (false, Some(peer)) = (bytes.is_empty(), peer) {
            let mut piece = bytes.len();
            if happens(&mut self.rng, self.faults.split) {
                piece = self.rng.random_range(1..=piece);
            }
            self.post(end, remote, What::Bytes(peer, bytes.split_to(piece)));
        }
        Sent { rest: list, result: Ok(n), full }
    }

    /// The application hears of bytes only once `bytes` of them are there.
    pub(crate) fn set_low_water(&mut self, host: IpAddr, socket: SocketId, bytes: usize) {
        let end = End { host, socket };
        if let Some(stream) = self.stream(end) {
            stream.low_water = bytes;
            self.tell_readable(end);
        }
    }

    pub(crate) fn shutdown(&mut self, host: IpAddr, socket: SocketId) {
        let end = End { host, socket };
        let Some(stream) = self.stream(end) else { return };
        if stream.state != StreamState::Open || stream.shut {
            return;
        }
        stream.shut = true;
        let (peer, remote) = (stream.peer, stream.remote.ip());
        if let Some(peer) = peer {
            self.post(end, remote, What::End(peer));
        }
    }

    /// Closes a socket. As in Linux, the peer hears of a reset if bytes were left unread.
    pub(crate) fn close(&mut self, host: IpAddr, socket: SocketId) {
        let end = End { host, socket };
        match self.stream(end) {
            Some(stream) if !stream.inbox.is_empty() => self.abort(end),
            Some(_) => {
                self.shutdown(host, socket);
                self.forget(end);
            }
            None => self.forget(end),
        }
    }

    /// Closes a socket with a reset.
    pub(super) fn abort(&mut self, end: End) {
        if let Some(stream) = self.stream(end)
            && stream.state == StreamState::Open
            && let Some(peer) = stream.peer
        {
            let remote = stream.remote.ip();
            self.post(end, remote, What::Reset(peer));
        }
        self.forget(end);
    }

    fn forget(&mut self, end: End) {
        self.stop_timers(end);
        let host = self.host(end.host);
        if let Some(Socket::Listener(addr)) = host.sockets.remove(end.socket) {
            host.listeners.remove(&addr);
        }
    }

    fn stop_timers(&mut self, end: End) {
        if let Some(stream) = self.stream(end) {
            let keys = [stream.connect_timeout.take(), stream.end_of_life.take()];
            for key in keys.into_iter().flatten() {
                self.events.remove(&key);
            }
        }
    }

    /// Breaks a connection here and now; what is under way to the other side is lost once it hears.
    pub(super) fn reset(&mut self, end: End) {
        let Some(stream) = self.stream(end) else { return };
        if stream.state != StreamState::Open {
            return;
        }
        let (peer, remote) = (stream.peer, stream.remote.ip());
        if let Some(peer) = peer {
            self.post(end, remote, What::Reset(peer));
        }
        self.break_stream(end);
    }

    /// This side of a connection is broken: receiver and sender hear.
    pub(super) fn break_stream(&mut self, end: End) {
        self.stop_timers(end);
        if let Some(stream) = self.stream(end) {
            stream.state = StreamState::Broken;
            self.tell_readable(end);
            self.tell_writable(end);
        }
    }

    /// Breaks all connections of a host.
    pub(crate) fn reset_all(&mut self, addr: IpAddr) {
        let sockets: Vec<SocketId> = self.host(addr).sockets.iter().map(|(id, _)| id).collect();
        for socket in sockets {
            self.reset(End { host: addr, socket });
        }
    }
}
