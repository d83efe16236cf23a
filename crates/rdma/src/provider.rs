//! Interface of providers that do their own I/O, as devices do.
//!
//! A connection of [`iwarp`](crate::iwarp) is a state machine whose bytes its owner moves. A device moves them itself:
//! its user only waits for a descriptor and then polls. These traits hide the device from the layers above.

use crate::error::PostError;
use crate::verbs::QueuePair;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use thiserror::Error;

/// Opens and accepts connections.
pub trait Provider: Debug + Send + Sync {
    /// Starts to open a connection, and sends the server's user `private_data`. [`Endpoint::event`] reports the
    /// outcome.
    fn connect(&self, server: SocketAddr, private_data: &[u8]) -> io::Result<Box<dyn Endpoint>>;

    /// Listens on an address; port 0 selects any free port.
    fn listen(&self, addr: SocketAddr) -> io::Result<Box<dyn Listener>>;
}

/// Listener for clients' connections.
pub trait Listener: Debug + Send {
    /// Returns the listening address.
    fn local_addr(&self) -> SocketAddr;

    /// Returns the descriptor to wait for: when it is readable, call [`accept`](Self::accept) until it returns `None`.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns the next client that requests a connection, if any. An error concerns only that client's connection.
    fn accept(&mut self) -> Option<io::Result<Asked>>;
}

/// A client's request for a connection.
#[derive(Debug)]
pub struct Asked {
    /// The connection: [accept](Endpoint::accept) or [reject](Endpoint::reject) it.
    pub endpoint: Box<dyn Endpoint>,
    /// The client's address.
    pub client: SocketAddr,
    /// The private data of the client's user. The connection manager may have padded it with zeros.
    pub private_data: Vec<u8>,
}

/// One end of a connection that does its own I/O.
///
/// Before waiting for its descriptor, [poll](QueuePair::poll) until there is no completion: only then does the device
/// report the next one.
pub trait Endpoint: QueuePair + Debug + Send {
    /// Returns the descriptor to wait for: when it is readable, call [`ready`](Self::ready).
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Processes what made the descriptor readable. Afterwards there may be [events](Self::event) and
    /// [completions](QueuePair::poll).
    fn ready(&mut self);

    /// Returns the next event, if any.
    fn event(&mut self) -> Option<EndpointEvent>;

    /// Accepts the requesting client, and sends its user `private_data`. Post receives before the call.
    fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError>;

    /// Rejects the requesting client, and sends its user `private_data`. The connection has ended.
    fn reject(&mut self, private_data: &[u8]) -> Result<(), PostError>;
}

/// Event of an endpoint, other than completions.
#[derive(Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// Work may be posted from now on. Holds the server's private data for the client, possibly padded with zeros.
    Established(Vec<u8>),
    /// The connection has ended. All work and memory comes back by completions.
    Fault(EndpointError),
}

/// Error that ended an endpoint's connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// There is no route to the server, or it does not respond.
    #[error("the peer cannot be reached: {0}")]
    Unreachable(String),
    /// The server's user rejected the connection, with its private data, possibly padded with zeros.
    #[error("the peer refused the connection")]
    Rejected(Vec<u8>),
    /// The peer ended the connection, or violated the protocol; in that case the device has notified it.
    #[error("the peer ended the connection")]
    Disconnected,
    /// Work failed because of the peer, or because the peer is unreachable.
    #[error("{what} failed: {why}")]
    Work {
        /// Kind of work.
        what: &'static str,
        /// The device's explanation.
        why: String,
    },
    /// The device has failed.
    #[error("the device failed: {0}")]
    Device(String),
}
