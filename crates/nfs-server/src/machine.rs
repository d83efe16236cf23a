//! The server as one state machine: its listeners, the connections to them, and the programs behind.

use super::connections::NfsConnections;
use super::export::Export;
use super::file_system::FileSystem;
use super::job::{Done, Job};
use super::program::{Execution, Program};
use super::transport::Rdma;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_metrics::OperationsSnapshot;
use onego_rdma::Provider;
use onego_wire::{Action, ConnId, Disconnect, Landing, ListenerId, Machine, Time};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// An address to listen on: what is asked for, until it is there.
#[derive(Debug, Clone, Copy)]
struct Listener {
    addr: SocketAddr,
    /// Are connections to it for RDMA?
    rdma: bool,
    up: bool,
}

/// A server of NFS as a state machine: no thread, no socket, no clock. Drive it as [`Machine`] says.
pub struct ServerMachine {
    listeners: Vec<Listener>,
    failure: Option<io::Error>,
    connections: NfsConnections,
    program: Program,
}

impl ServerMachine {
    /// Serves a file system at these addresses over TCP, and perhaps over RDMA, and carries calls out as they come. Memory
    /// for what is small comes from `pool`.
    pub fn new(
        addrs: Vec<SocketAddr>,
        rdma: Option<&Rdma>,
        export: Export,
        fs: Box<dyn FileSystem>,
        pool: Pool,
    ) -> Self {
        Self::with(addrs, rdma, export, Execution::Inline(fs), pool)
    }

    /// The same where calls may take long: they are to be carried out elsewhere (see [`next_job`](Self::next_job)).
    pub fn with_jobs(addrs: Vec<SocketAddr>, rdma: Option<&Rdma>, export: Export, pool: Pool) -> Self {
        Self::with(addrs, rdma, export, Execution::Jobs(pool.clone()), pool)
    }

    fn with(
        addrs: Vec<SocketAddr>,
        rdma: Option<&Rdma>,
        export: Export,
        place: Execution,
        pool: Pool,
    ) -> Self {
        let connections = NfsConnections::new(pool, rdma);
        let tcp = addrs.into_iter().map(|addr| Listener { addr, rdma: false, up: false });
        let devices = rdma.and_then(|rdma| rdma.devices.as_deref());
        let rdma = rdma.map(|rdma| Listener { addr: rdma.listen, rdma: true, up: false });
        let listeners = tcp.chain(rdma).collect();
        let mut this = Self { listeners, failure: None, connections, program: Program::new(place, export) };
        for id in 0..this.listeners.len() {
            let (listener, Listener { addr, rdma, .. }) = (ListenerId(id as u32), this.listeners[id]);
            match devices.filter(|_| rdma) {
                Some(devices) => {
                    let result = this.listen_by_device(devices, addr);
                    this.listens(listener, result);
                }
                None => this.connections.push_action(Action::Listen { listener, addr }),
            }
        }
        this
    }

    fn listen_by_device(&mut self, devices: &dyn Provider, addr: SocketAddr) -> io::Result<SocketAddr> {
        let listener = devices.listen(addr)?;
        let addr = listener.local_addr();
        self.connections.listen_by_device(listener)?;
        Ok(addr)
    }

    /// A listener is there, or cannot be.
    fn listens(&mut self, listener: ListenerId, result: io::Result<SocketAddr>) {
        let Some(listener) = self.listeners.get_mut(listener.0 as usize) else { return };
        match result {
            Ok(addr) => (listener.addr, listener.up) = (addr, true),
            Err(error) => {
                let text = format!("cannot listen on {}: {error}", listener.addr);
                self.failure = Some(io::Error::new(error.kind(), text));
            }
        }
    }

    /// Sets how many connections there may be at a time, if that is fewer than there may be anyhow.
    pub fn limit_connections(&mut self, most: usize) {
        self.connections.limit_connections(most);
    }

    /// May a client connect?
    fn lets_in(&mut self, now: Time, peer: SocketAddr, rdma: bool) -> bool {
        if !self.program.export().lets_in(peer.ip()) {
            self.program.log_refused_host(peer.ip());
            return false;
        }
        if !self.connections.make_room(now, peer.ip(), rdma) {
            tracing::warn!(%peer, "a connection is refused: there are too many");
            return false;
        }
        true
    }

    /// Clients ask to connect by a device.
    fn asked(&mut self, now: Time) {
        while let Some(mut asked) = self.connections.next_asked() {
            if self.lets_in(now, asked.client, true) {
                self.connections.add_asked(now, asked);
            } else if let Err(error) = asked.endpoint.reject(&[]) {
                tracing::info!(%error, "a client is not told that it is refused");
            }
        }
    }

    /// Where clients reach it, once it listens everywhere: the addresses for TCP, then that for RDMA.
    pub fn addresses(&self) -> Option<Vec<SocketAddr>> {
        self.listeners.iter().map(|listener| listener.up.then_some(listener.addr)).collect()
    }

    /// Why it cannot listen; told once.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The next call to be carried out. They may be done in any order, and at the same time.
    pub fn next_job(&mut self) -> Option<Job> {
        self.connections.next_job()
    }

    /// Is there a call to be carried out?
    pub fn has_job(&self) -> bool {
        self.connections.has_job()
    }

    /// A call has been carried out: it is answered.
    pub fn done(&mut self, now: Time, done: Done) {
        self.connections.done(now, done, &mut self.program);
    }

    /// Calls that were answered so far.
    pub fn calls(&self) -> u64 {
        self.program.calls()
    }

    /// Calls that were carried out so far, by procedure.
    pub fn operations(&self) -> OperationsSnapshot {
        self.program.operations.snapshot()
    }

    /// Tells of calls that take as long by an event of `tracing` with the target `onego::slow`.
    pub fn set_slow(&mut self, slow: Duration) {
        self.program.operations.set_slow(slow);
    }

    /// Bytes of buffers that are kept for payloads to come.
    pub(super) fn idle_buffers(&self) -> u64 {
        self.connections.idle_buffers()
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.connections.open()
    }
}

impl Machine for ServerMachine {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.connections.next_action()
    }

    fn listening(&mut self, _: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        self.listens(listener, result);
    }

    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        _: SocketAddr,
    ) -> Option<ConnId> {
        let rdma = self.listeners.get(listener.0 as usize)?.rdma;
        if !self.lets_in(now, peer, rdma) {
            return None;
        }
        match rdma {
            true => self.connections.add_rdma(now, peer),
            false => Some(self.connections.add(now, peer)),
        }
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {
        // A server opens no connections.
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        if self.connections.is_device(conn) {
            tracing::error!(?cause, "no clients can come by devices any more");
        }
        tracing::debug!(?conn, ?cause, "a client is gone");
        self.connections.end(now, conn);
    }

    fn half_closed(&mut self, now: Time, conn: ConnId) -> bool {
        self.connections.half_closed(now, conn, &mut self.program)
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.connections.landing(conn)
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        self.connections.landed(now, conn, place, filled, &mut self.program);
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        self.connections.received(now, conn, bytes, &mut self.program);
    }

    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        self.connections.transmit(now, conn, out, limit, &mut self.program);
    }

    fn ready(&mut self, now: Time, conn: ConnId) {
        match self.connections.is_device(conn) {
            true => self.asked(now),
            false => self.connections.ready(now, conn, &mut self.program),
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.connections.deadline()
    }

    fn timeout(&mut self, now: Time) {
        self.connections.timeout(now, &mut self.program);
    }
}
