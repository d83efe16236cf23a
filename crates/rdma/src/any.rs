//! One end of a connection, whichever provider it is of.

use crate::error::{PostError, Refused};
use crate::iwarp::{self, Connection};
use crate::memory::{Key, Memory, Remote};
use crate::provider::{Endpoint, EndpointError, EndpointEvent};
use crate::verbs::{Completion, QueuePair, SendFlags};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time};
use thiserror::Error;

/// One end of a connection: of iWARP in software, whose bytes its owner moves, or of a provider that moves them itself,
/// whose owner waits for its descriptor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "connections are few, and mostly of one kind")]
pub enum AnyConnection {
    /// iWARP in software.
    Iwarp(Connection),
    /// An end of another provider's.
    Endpoint(Box<dyn Endpoint>),
}

/// Something that a connection has for its owner, beside completions.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A client asks to connect by iWARP in software, with private data of its user: accept it. (Clients of other
    /// providers come by a [listener](crate::Listener).)
    Requested(Vec<u8>),
    /// Work is carried out from now on. With private data of the server's user, for the client.
    Established(Vec<u8>),
    /// The connection cannot go on. Everything comes back by completions.
    Fault(ConnectionError),
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectionError {
    /// iWARP in software says.
    #[error(transparent)]
    Iwarp(#[from] iwarp::Error),
    /// Another provider says.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// Hands a verb on to the end inside.
macro_rules! each {
    ($any:expr, $end:ident => $call:expr) => {
        match $any {
            AnyConnection::Iwarp($end) => $call,
            AnyConnection::Endpoint($end) => $call,
        }
    };
}

impl AnyConnection {
    /// Lets the client in that asks, and tells its user `private_data`.
    pub fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        each!(self, end => end.accept(private_data))
    }

    /// The next event, until there is none.
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

    /// The descriptor that is waited for is readable ([`Endpoint::ready`]).
    pub fn ready(&mut self) {
        if let Self::Endpoint(endpoint) = self {
            endpoint.ready();
        }
    }

    /// The client's stream is open ([`Connection::opened`]).
    pub fn opened(&mut self, now: Time) {
        if let Self::Iwarp(connection) = self {
            connection.opened(now);
        }
    }

    /// Where the next bytes of a stream go ([`Connection::landing`]).
    pub fn landing(&mut self) -> Landing {
        match self {
            Self::Iwarp(connection) => connection.landing(),
            Self::Endpoint(_) => Landing::default(),
        }
    }

    /// A buffer comes back ([`Connection::landed`]).
    pub fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        if let Self::Iwarp(connection) = self {
            connection.landed(now, place, filled);
        }
    }

    /// Bytes came by a stream ([`Connection::received`]).
    pub fn received(&mut self, now: Time, bytes: Segment) {
        if let Self::Iwarp(connection) = self {
            connection.received(now, bytes);
        }
    }

    /// Is there something to send on a stream ([`Connection::has_output`])?
    pub fn has_output(&self) -> bool {
        matches!(self, Self::Iwarp(connection) if connection.has_output())
    }

    /// What is to be sent on a stream ([`Connection::transmit`]).
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        if let Self::Iwarp(connection) = self {
            connection.transmit(out, limit);
        }
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        match self {
            Self::Iwarp(connection) => connection.deadline(),
            Self::Endpoint(_) => None,
        }
    }

    /// Time has passed ([`Connection::timeout`]).
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
