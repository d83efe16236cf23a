use crate::network::Network;
use onego_buf::List;
use onego_engine::{Engine, Event, Received, RecvBufs, Sent, SocketId, Stats, Wait, Waker};
use onego_wire::Time;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// An engine over the simulated network. It never sleeps: [`Sim::step`](crate::Sim::step) calls when there is
/// something.
pub struct SimEngine {
    network: Rc<RefCell<Network>>,
    addr: IpAddr,
    stats: Stats,
}

impl SimEngine {
    pub(crate) fn start(network: Rc<RefCell<Network>>, addr: IpAddr) -> Self {
        network.borrow_mut().start(addr);
        Self { network, addr, stats: Stats::default() }
    }

    /// The address of this node.
    pub fn addr(&self) -> IpAddr {
        self.addr
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

    fn connect(&mut self, addr: SocketAddr) -> io::Result<SocketId> {
        Ok(self.network.borrow_mut().connect(self.addr, addr))
    }

    fn recv(&mut self, socket: SocketId, bufs: RecvBufs) -> Option<Received> {
        self.stats.recvs += 1;
        let received = self.network.borrow_mut().recv(self.addr, socket, bufs);
        self.stats.received_bytes += *received.result.as_ref().unwrap_or(&0) as u64;
        Some(received)
    }

    fn send(&mut self, socket: SocketId, list: List) -> Option<Sent> {
        self.stats.sends += 1;
        let sent = self.network.borrow_mut().send(self.addr, socket, list);
        self.stats.sent_bytes += *sent.result.as_ref().unwrap_or(&0) as u64;
        Some(sent)
    }

    fn shutdown(&mut self, socket: SocketId) {
        self.network.borrow_mut().shutdown(self.addr, socket);
    }

    fn close(&mut self, socket: SocketId) {
        self.network.borrow_mut().close(self.addr, socket);
    }

    fn poll(&mut self, _wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        self.stats.waits += 1;
        let before = events.len();
        self.network.borrow_mut().take_events(self.addr, events);
        let accepted = events[before..].iter().filter(|event| matches!(event, Event::Accepted { .. }));
        self.stats.accepts += accepted.count() as u64;
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.network.borrow().waker(self.addr)
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}
