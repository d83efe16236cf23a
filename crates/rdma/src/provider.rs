//! Providers that have connections of their own: devices, and whatever else does its I/O itself.
//!
//! A connection of [`iwarp`](crate::iwarp) is a state machine whose bytes somebody else moves. A device moves them itself:
//! all that its user has to do is to wait for a descriptor, and to look what has happened. These traits are what such a
//! provider is seen by, so that nobody above needs to know it.

use crate::error::PostError;
use crate::verbs::QueuePair;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use thiserror::Error;

/// Opens and accepts connections.
pub trait Provider: Debug + Send + Sync {
    /// Begins to open a connection, and tells the server's user `private_data`. How that goes is told by
    /// [`Endpoint::event`].
    fn connect(&self, server: SocketAddr, private_data: &[u8]) -> io::Result<Box<dyn Endpoint>>;

    /// Listens on an address; port 0: any.
    fn listen(&self, addr: SocketAddr) -> io::Result<Box<dyn Listener>>;
}

/// Takes connections of clients.
pub trait Listener: Debug + Send {
    /// Where it listens.
    fn local_addr(&self) -> SocketAddr;

    /// To be waited for: when it is readable, call [`accept`](Self::accept) until it gives nothing.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// The next client that asks to connect, if there is one. An error is one of that client's connection.
    fn accept(&mut self) -> Option<io::Result<Asked>>;
}

/// A client asks to connect.
#[derive(Debug)]
pub struct Asked {
    /// Its connection: [accept](Endpoint::accept) or [reject](Endpoint::reject) it.
    pub endpoint: Box<dyn Endpoint>,
    /// Its address.
    pub client: SocketAddr,
    /// What its user tells. The connection manager may have filled it up with zeros.
    pub private_data: Vec<u8>,
}

/// One end of a connection.
///
/// It works by itself. Before waiting for it, [poll](QueuePair::poll) until there is nothing: that makes the device report
/// the next completion.
pub trait Endpoint: QueuePair + Debug + Send {
    /// To be waited for: when it is readable, call [`ready`](Self::ready).
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Something may have happened. After this there may be [events](Self::event) and
    /// [completions](QueuePair::poll).
    fn ready(&mut self);

    /// The next event, until there is none.
    fn event(&mut self) -> Option<EndpointEvent>;

    /// Lets the client in that asks, and tells its user `private_data`. Receives should be posted before.
    fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError>;

    /// Refuses the client that asks, and tells its user `private_data`. The connection is over.
    fn reject(&mut self, private_data: &[u8]) -> Result<(), PostError>;
}

/// Something that an endpoint has for its owner, beside completions.
#[derive(Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// Work may be posted from now on. With private data of the server's user, for the client; it may have been filled
    /// up with zeros.
    Established(Vec<u8>),
    /// The connection is over. Everything comes back by completions.
    Fault(EndpointError),
}

/// Why the connection of an endpoint is over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// There is no way to the server, or nobody there.
    #[error("the peer cannot be reached: {0}")]
    Unreachable(String),
    /// The server's user refused the connection, with private data of its own, which may have been filled up with zeros.
    #[error("the peer refused the connection")]
    Rejected(Vec<u8>),
    /// The peer ended the connection, or broke its rules: then the device has told it.
    #[error("the peer ended the connection")]
    Disconnected,
    /// Work failed: because of what the peer did or says, or because it cannot be reached any more.
    #[error("{what} failed: {why}")]
    Work {
        /// The kind of work.
        what: &'static str,
        /// What the device says.
        why: String,
    },
    /// The device does not go on.
    #[error("the device failed: {0}")]
    Device(String),
}
