//! The file systems that a fuzzed server serves: all that differs between them.

use onego_buf::Pool;
use onego_nfs_server::{Export, Limits, Memory, Rdma, ServerMachine};
use onego_wire::Time;
use std::net::SocketAddr;

/// A file system whose server is fuzzed.
pub trait Backend: Sized {
    /// An empty file system.
    fn new() -> Self;

    /// A server of it.
    fn serve(&self, addrs: Vec<SocketAddr>, rdma: &Rdma, export: Export, now: Time) -> ServerMachine;

    /// Carries out the jobs of the server; `true`: there was one.
    fn carry_out(&self, _: &mut ServerMachine, _: Time) -> bool {
        false
    }

    /// Some time has passed.
    fn pass(&self) {}

    /// A local user does something with a name in the file system.
    fn act(&self, _what: u8, _name: u8) {}

    /// Ends it, and checks what it leaves behind.
    fn check(self) {}
}

/// Little, so that it gets full.
const LIMITS: Limits = Limits { bytes: 1 << 20, files: 20 };

/// A file system in memory. The server carries calls out as they arrive.
pub struct InMemory;

impl Backend for InMemory {
    fn new() -> Self {
        Self
    }

    fn serve(&self, addrs: Vec<SocketAddr>, rdma: &Rdma, export: Export, now: Time) -> ServerMachine {
        let pool = Pool::new(1 << 20);
        let fs = Box::new(Memory::new(LIMITS, 7, pool.clone(), now));
        ServerMachine::new(addrs, Some(rdma), export, fs, pool)
    }
}
