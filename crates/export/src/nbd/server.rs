//! The server as one state machine: its listeners, its exports, and the connections to them.

use super::config::Config;
use super::connections::NbdConnections;
use super::counters::Counters;
use super::exports::{Export, ExportError, Exports};
use onego_buf::{List, Segment, SegmentMut};
use onego_metrics::OperationsSnapshot;
use onego_wire::{Action, ConnId, Disconnect, Landing, ListenerId, Machine, Time};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// An address to listen on: what is asked for, until it is there.
#[derive(Debug, Clone, Copy)]
struct Listener {
    addr: SocketAddr,
    up: bool,
}

/// A server of NBD as a state machine: no thread, no socket, no clock. Drive it as [`Machine`] says.
///
/// Devices answer to it by [`onego_block::Completions`]; it takes what has come of requests whenever it is asked for its
/// [next action](Machine::next_action). Its [deadline](Machine::deadline) is at most that of its devices, and it calls those
/// whose time has come.
///
/// ```
/// use onego_block::{Geometry, Memory};
/// use onego_export::nbd::{Config, Export, Server};
/// use std::rc::Rc;
///
/// let mut server = Server::new(Config::default());
/// server.listen("127.0.0.1:10809".parse().unwrap());
/// let device = Rc::new(Memory::new(Geometry::new(1 << 30)));
/// let export = Export { name: "disk".into(), description: String::new(), device, read_only: false };
/// server.add_export(export).unwrap();
/// ```
pub struct Server {
    listeners: Vec<Listener>,
    failure: Option<io::Error>,
    exports: Exports,
    connections: NbdConnections,
}

impl Server {
    /// A server that listens nowhere and has no exports yet.
    pub fn new(config: Config) -> Self {
        let exports = Exports::new(config.slow);
        let connections = NbdConnections::new(config);
        Self { listeners: Vec::new(), failure: None, exports, connections }
    }

    /// Listens at an address, too; port 0: any.
    pub fn listen(&mut self, addr: SocketAddr) {
        let listener = ListenerId(self.listeners.len() as u32);
        self.listeners.push(Listener { addr, up: false });
        self.connections.push_action(Action::Listen { listener, addr });
    }

    /// Listens on a socket that the program has made and bound, too: a Unix socket, or one that came with the process. The
    /// driver closes it.
    pub fn adopt(&mut self, socket: OwnedFd) {
        let listener = ListenerId(self.listeners.len() as u32);
        let addr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.listeners.push(Listener { addr, up: false });
        self.connections.push_action(Action::Adopt { listener, socket });
    }

    /// Serves a connected socket, too, whose peer uses that export without any handshake, with simple replies: the kernel's client
    /// is given a socket, and is told the [`ExportInfo`] by the program that gives it. `false`: there is no such export, or there
    /// are too many connections.
    ///
    /// [`ExportInfo`]: onego_nbd::codec::ExportInfo
    pub fn attach(&mut self, socket: OwnedFd, export: &str) -> bool {
        self.exports.find(export.as_bytes()).is_some_and(|export| self.connections.attach(socket, export))
    }

    /// Where clients reach it, once it listens everywhere.
    pub fn addresses(&self) -> Option<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.up.then_some(listener.addr)).collect()
    }

    /// Why it cannot listen; told once.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Serves a device, too.
    pub fn add_export(&mut self, export: Export) -> Result<(), ExportError> {
        self.exports.add(export)
    }

    /// Serves an export no longer. Requests that come for it are refused with the error that the server is shut down; those
    /// that are in flight are carried out. `false`: there is none of that name.
    pub fn remove_export(&mut self, name: &str) -> bool {
        self.exports.remove(name)
    }

    /// Names of all exports, in the order in which they were added.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        self.exports.names()
    }

    /// Requests to each export, with those of one that was removed and is still in use, by its name.
    pub fn operations(&self) -> impl Iterator<Item = (&str, OperationsSnapshot)> {
        self.exports.iter().map(|served| (served.name(), served.operations.snapshot()))
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.connections.counters
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }

    /// Requests that are at the devices, with those of connections that are gone.
    pub fn in_flight(&self) -> usize {
        self.connections.in_flight()
    }
}

impl onego_block::Export for Server {
    fn has_completions(&self) -> bool {
        self.connections.has_completions()
    }
}

impl Machine for Server {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        let next = self.connections.next_action(now, &self.exports);
        if next.is_none() {
            self.exports.forget_unused();
        }
        next
    }

    fn listening(&mut self, _: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        let Some(listener) = self.listeners.get_mut(listener.0 as usize) else { return };
        match result {
            Ok(addr) => *listener = Listener { addr, up: true },
            Err(error) => {
                let text = format!("cannot listen on {}: {error}", listener.addr);
                self.failure = Some(io::Error::new(error.kind(), text));
            }
        }
    }

    fn accepted(&mut self, now: Time, _: ListenerId, peer: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        self.connections.accept(now, peer.ip())
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {
        // It was attached, and may have requests already.
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        tracing::debug!(?conn, ?cause, "a client is gone");
        self.connections.end(now, conn);
    }

    fn half_closed(&mut self, now: Time, conn: ConnId) -> bool {
        self.connections.half_closed(now, conn, &self.exports)
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.connections.landing(conn)
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        self.connections.landed(now, conn, place, filled, &self.exports);
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        self.connections.received(now, conn, bytes, &self.exports);
    }

    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        self.connections.transmit(now, conn, out, limit, &self.exports);
    }

    fn deadline(&self) -> Option<Time> {
        self.connections.deadline().into_iter().chain(self.exports.due_at()).min()
    }

    fn timeout(&mut self, now: Time) {
        self.exports.due(now);
        self.connections.timeout(now, &self.exports);
    }
}
