//! One end of a connection of any provider.

use crate::error::{PostError, Refused};
use crate::iwarp::{self, Connection};
use crate::memory::{Key, Memory, Remote};
use crate::provider::{Endpoint, EndpointError, EndpointEvent};
use crate::verbs::{Completion, QueuePair, SendFlags};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time};
use thiserror::Error;

/// One end of a connection: iWARP in software, whose bytes its owner moves, or a provider that moves them itself and
/// whose owner waits for its descriptor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "connections are few, and mostly of one kind")]
pub enum AnyConnection {
    /// iWARP in software.
    Iwarp(Connection),
    /// An end of another provider.
    Endpoint(Box<dyn Endpoint>),
}

/// Event of a connection, other than completions.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A client requests a connection by iWARP in software, with its user's private data: accept it. (Clients of other
    /// providers arrive at a [listener](crate::Listener).)
    Requested(Vec<u8>),
    /// The connection carries work from now on. Holds the server's private data for the client.
    Established(Vec<u8>),
    /// The connection has failed. All work and memory comes back by completions.
    Fault(ConnectionError),
}

/// Error that ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectionError {
    /// Error of iWARP in software.
    #[error(transparent)]
    Iwarp(#[from] iwarp::Error),
    /// Error of another provider.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

macro_rules! each {
    ($any:expr, $end:ident => $call:expr) => {
        match $any {
            AnyConnection::Iwarp($end) => $call,
            AnyConnection::Endpoint($end) => $call,
        }
    };
}

impl AnyConnection {
    /// Accepts the requesting client, and sends its user `private_data`.
    pub fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        each!(self, end => end.accept(private_data))
    }

    /// Returns the next event, if any.
    pub fn event(&mut self) -> Option<ConnectionEvent> {
        match self {
            Self::Iwarp(connection) => loop {
                return Some(match connection.event()? {
                    iwarp::Event::Requested(told) => ConnectionEvent::Requested(told),
                    iwarp::Event::Established(how) => ConnectionEvent::Established(how.private_data),
                    iwarp::Event::Fault(error) => ConnectionEvent::Fault(error.into()),
                    // A fault follows.
                    iwarp::Event::Rejected(_) => continue,
                });
            },
            Self::Endpoint(endpoint) => Some(match endpoint.event()? {
                EndpointEvent::Established(told) => ConnectionEvent::Established(told),
                EndpointEvent::Fault(error) => ConnectionEvent::Fault(error.into()),
            }),
        }
    }

    /// Handles a readable descriptor ([`Endpoint::ready`]).
    pub fn ready(&mut self) {
        if let Self::Endpoint(endpoint) = self {
            endpoint.ready();
        }
    }

    /// Handles the opening of the client's stream ([`Connection::opened`]).
    pub fn opened(&mut self, now: Time) {
        if let Self::Iwarp(connection) = self {
            connection.opened(now);
        }
    }

    /// Returns the destination of a stream's next bytes ([`Connection::landing`]).
    pub fn landing(&mut self) -> Landing {
        match self {
            Self::Iwarp(connection) => connection.landing(),
            Self::Endpoint(_) => Landing::default(),
        }
    }

    /// Takes back a buffer after a receive ([`Connection::landed`]).
    pub fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        if let Self::Iwarp(connection) = self {
            connection.landed(now, place, filled);
        }
    }

    /// Processes bytes received from a stream ([`Connection::received`]).
    pub fn received(&mut self, now: Time, bytes: Segment) {
        if let Self::Iwarp(connection) = self {
            connection.received(now, bytes);
        }
    }

    /// Returns whether there are bytes to send on a stream ([`Connection::has_output`]).
    pub fn has_output(&self) -> bool {
        matches!(self, Self::Iwarp(connection) if connection.has_output())
    }

    /// Appends the bytes to send on a stream ([`Connection::transmit`]).
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        if let Self::Iwarp(connection) = self {
            connection.transmit(out, limit);
        }
    }

    /// Returns when [`timeout`](Self::timeout) is due.
    pub fn deadline(&self) -> Option<Time> {
        match self {
            Self::Iwarp(connection) => connection.deadline(),
            Self::Endpoint(_) => None,
        }
    }

    /// Handles the passing of time ([`Connection::timeout`]).
    pub fn timeout(&mut self, now: Time) {
        if let Self::Iwarp(connection) = self {
            connection.timeout(now);
        }
    }
}

impl QueuePair for AnyConnection {
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        each!(self, end => end.register(memory))
    }

    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        each!(self, end => end.invalidate(key))
    }

    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        each!(self, end => end.withdraw(key))
    }

    fn post_receive(&mut self, id: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>> {
        each!(self, end => end.post_receive(id, buffer))
    }

    fn post_send(&mut self, id: u64, bytes: List, flags: SendFlags) -> Result<(), Refused<List>> {
        each!(self, end => end.post_send(id, bytes, flags))
    }

    fn post_write(&mut self, id: u64, bytes: List, to: Remote) -> Result<(), Refused<List>> {
        each!(self, end => end.post_write(id, bytes, to))
    }

    fn post_read(&mut self, id: u64, sink: SegmentMut, from: Remote) -> Result<(), Refused<SegmentMut>> {
        each!(self, end => end.post_read(id, sink, from))
    }

    fn poll(&mut self) -> Option<Completion> {
        each!(self, end => end.poll())
    }

    fn disconnect(&mut self) {
        each!(self, end => end.disconnect());
    }
}
