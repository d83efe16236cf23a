//! Sends packets, and delivers them.

use super::Network;
use super::end::End;
use super::event::Happening;
use super::host::Socket;
use super::packet::{Packet, What};
use super::stream::{Stream, StreamState};
use crate::faults::{happens, pick};
use onego_buf::List;
use onego_engine::Event;
use rand::Rng;
use std::io;
use std::net::{IpAddr, SocketAddr};

impl Network {
    /// Sends something to the other host.
    pub(super) fn post(&mut self, from: End, to: IpAddr, what: What) {
        what.note(&mut self.trace);
        let mut arrival = self.now + pick(&mut self.rng, &self.faults.latency);
        if what.in_order()
            && let Some(stream) = self.stream(from)
        {
            arrival = arrival.max(stream.last_arrival);
            stream.last_arrival = arrival;
        }
        self.at(arrival, Happening::Arrive(Packet { from, to, what }));
    }

    pub(super) fn arrive(&mut self, packet: Packet) {
        let Packet { from, to, what } = packet;
        if self.cuts.contains(&(from.host, to)) {
            self.held.push(Packet { from, to, what });
            return;
        }
        let end = |socket| End { host: to, socket };
        match what {
            What::Open(peer, addr) => self.arrive_open(from, peer, addr),
            What::Refuse(socket) => self.fail_connect(end(socket), io::ErrorKind::ConnectionRefused),
            What::Accept(socket) => self.arrive_accept(from, end(socket)),
            What::Bytes(socket, bytes) => self.arrive_bytes(from, end(socket), bytes),
            What::End(socket) => {
                if let Some(stream) = self.stream(end(socket)) {
                    stream.ended = true;
                    self.hear(end(socket));
                }
            }
            What::Taken(socket, n) => {
                if let Some(stream) = self.stream(end(socket)) {
                    stream.under_way -= n;
                    self.tell_writable(end(socket));
                }
            }
            What::Reset(socket) => self.arrive_reset(end(socket)),
        }
    }

    fn arrive_open(&mut self, from: End, peer: SocketAddr, addr: SocketAddr) {
        let refused = happens(&mut self.rng, self.faults.refuse);
        let listener = self.hosts.get(&addr.ip()).and_then(|host| {
            let any = match addr.ip() {
                IpAddr::V4(_) => IpAddr::from([0u8; 4]),
                IpAddr::V6(_) => IpAddr::from([0u8; 16]),
            };
            host.listeners.get(&addr).or_else(|| host.listeners.get(&SocketAddr::new(any, addr.port())))
        });
        let Some(&listener) = listener.filter(|_| !refused) else {
            let nobody = End { host: addr.ip(), socket: from.socket };
            return self.post(nobody, from.host, What::Refuse(from.socket));
        };
        let mut stream = Stream::new(addr, peer, StreamState::Open);
        stream.peer = Some(from.socket);
        stream.listener = Some(listener);
        let socket = self.host(addr.ip()).sockets.insert(Socket::Stream(Box::new(stream)));
        let end = End { host: addr.ip(), socket };
        self.post(end, from.host, What::Accept(from.socket));
        let delay = pick(&mut self.rng, &self.faults.accept_delay);
        self.at(self.now + delay, Happening::Announce(end));
        if let Some(mean) = self.faults.lifetime {
            // The lifetime of what may break at any moment: exponentially distributed.
            let life = mean.mul_f64(-(1.0 - self.rng.random::<f64>()).ln());
            let key = self.at(self.now + life, Happening::EndOfLife(end));
            if let Some(stream) = self.stream(end) {
                stream.end_of_life = Some(key);
            }
        }
    }

    fn arrive_accept(&mut self, from: End, end: End) {
        let timeout = match self.stream(end) {
            Some(stream) if stream.state == StreamState::Connecting => {
                stream.state = StreamState::Open;
                stream.peer = Some(from.socket);
                stream.announced = true;
                stream.connect_timeout.take()
            }
            // The caller has given up meanwhile.
            _ => return self.post(end, from.host, What::Reset(from.socket)),
        };
        if let Some(key) = timeout {
            self.events.remove(&key);
        }
        let local = self.stream(end).map(|stream| stream.local).expect("it is there");
        self.push(end.host, Event::Connected { socket: end.socket, result: Ok(local) });
    }

    fn arrive_bytes(&mut self, from: End, end: End, bytes: List) {
        match self.stream(end) {
            Some(stream) if stream.state == StreamState::Open => {
                stream.inbox.append(bytes);
                self.hear(end);
            }
            // Broken on this side: the other side will hear, or has caused it.
            Some(_) => {}
            None => self.post(end, from.host, What::Reset(from.socket)),
        }
    }

    fn arrive_reset(&mut self, end: End) {
        match self.stream(end).map(|stream| stream.state) {
            Some(StreamState::Open) => self.break_stream(end),
            Some(StreamState::Connecting) => self.fail_connect(end, io::ErrorKind::ConnectionReset),
            Some(StreamState::Broken) | None => {}
        }
    }

    pub(super) fn push(&mut self, host: IpAddr, event: Event) {
        self.host(host).ready.push_back(event);
    }
}
