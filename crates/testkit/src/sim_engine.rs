use crate::network::Network;
use onego_buf::List;
use onego_engine::{Engine, Event, Received, RecvBufs, Sent, SocketId, Stats, Wait, Waker};
use onego_wire::{LocalPort, Time};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// An engine over the simulated network. It never sleeps: [`Sim::step`](crate::Sim::step) calls when there is
/// something.
pub struct SimEngine {
    network: Rc<RefCell<Network>>,
    addr: IpAddr,
    /// Receives and sends that end in the next poll, or in a later one.
    receives: Vec<(SocketId, RecvBufs)>,
    sends: Vec<(SocketId, List)>,
    stats: Stats,
}

impl SimEngine {
    pub(crate) fn start(network: Rc<RefCell<Network>>, addr: IpAddr) -> Self {
        network.borrow_mut().start(addr);
        Self { network, addr, receives: Vec::new(), sends: Vec::new(), stats: Stats::default() }
    }

    /// The address of this node.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    fn receive(&mut self, socket: SocketId, bufs: RecvBufs) -> Received {
        let received = self.network.borrow_mut().recv(self.addr, socket, bufs);
        self.stats.received_bytes += *received.result.as_ref().unwrap_or(&0) as u64;
        received
    }

    fn transmit(&mut self, socket: SocketId, list: List) -> Sent {
        let sent = self.network.borrow_mut().send(self.addr, socket, list);
        self.stats.sent_bytes += *sent.result.as_ref().unwrap_or(&0) as u64;
        sent
    }

    /// Ends the operations that can end.
    fn complete(&mut self, events: &mut Vec<Event>) {
        for (socket, bufs) in std::mem::take(&mut self.receives) {
            let received = self.receive(socket, bufs);
            events.push(Event::Received(socket, received));
        }
        // A send that the socket takes nothing of waits in the engine, not at the caller.
        events.retain(|event| match event {
            Event::Writable(socket) => self.sends.iter().all(|send| send.0 != *socket),
            _ => true,
        });
        for (socket, list) in std::mem::take(&mut self.sends) {
            let sent = self.transmit(socket, list);
            if sent.full && sent.result.is_err() {
                self.sends.push((socket, sent.rest));
            } else {
                events.push(Event::Sent(socket, Sent { full: false, ..sent }));
            }
        }
    }
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        self.network.borrow_mut().stop(self.addr);
    }
}

impl Engine for SimEngine {
    fn now(&self) -> Time {
        self.network.borrow().now
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        self.network.borrow_mut().listen(self.addr, addr)
    }

    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId> {
        Ok(self.network.borrow_mut().connect(self.addr, addr, local))
    }

    fn recv(&mut self, socket: SocketId, bufs: RecvBufs) -> Option<Received> {
        self.stats.recvs += 1;
        if self.network.borrow_mut().completes_later(self.addr) {
            self.receives.push((socket, bufs));
            return None;
        }
        Some(self.receive(socket, bufs))
    }

    fn send(&mut self, socket: SocketId, list: List) -> Option<Sent> {
        self.stats.sends += 1;
        if self.network.borrow_mut().completes_later(self.addr) {
            self.sends.push((socket, list));
            return None;
        }
        Some(self.transmit(socket, list))
    }

    fn set_low_water(&mut self, socket: SocketId, bytes: usize) -> bool {
        self.network.borrow_mut().set_low_water(self.addr, socket, bytes);
        true
    }

    fn shutdown(&mut self, socket: SocketId) {
        self.network.borrow_mut().shutdown(self.addr, socket);
    }

    fn close(&mut self, socket: SocketId) {
        assert!(self.receives.iter().all(|receive| receive.0 != socket), "closed while a receive is pending");
        self.sends.retain(|send| send.0 != socket);
        self.network.borrow_mut().close(self.addr, socket);
    }

    fn poll(&mut self, _wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        self.stats.waits += 1;
        let before = events.len();
        self.network.borrow_mut().take_events(self.addr, events);
        let accepted = events[before..].iter().filter(|event| matches!(event, Event::Accepted { .. }));
        self.stats.accepts += accepted.count() as u64;
        self.complete(events);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.network.borrow().waker(self.addr)
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}
