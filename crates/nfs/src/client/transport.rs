//! Transports of the calls on one connection.

use super::config::Config;
use super::error::Error;
use crate::rpc::rdma::{self, RdmaError, Requester};
use crate::rpc::{Record, Splitter, Stream};
use onego_buf::{List, Segment, SegmentMut};
use onego_rdma::iwarp::{self, Connection, Entropy};
use onego_rdma::{AnyConnection, ConnectionEvent, Memory, Provider, QueuePair as _};
use onego_wire::{Action, ConnId, Landing, LocalPort, Time};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Maximum size of a reply's header in bytes, with the verifiers that known servers send.
const REPLY_HEADER: usize = 64;

/// The transport to a server.
#[derive(Debug, Clone, Default)]
pub enum Way {
    /// Records over TCP.
    #[default]
    Tcp,
    /// RPC over RDMA, with software iWARP over TCP.
    Rdma(Rdma),
    /// RPC over RDMA, on connections that a provider opens.
    Device(Device),
}

/// Shared configuration of software RDMA connections.
#[derive(Clone)]
pub struct Rdma {
    /// Configuration of iWARP.
    pub transport: Arc<iwarp::Config>,
    /// Configuration of RPC over RDMA.
    pub rpc: rdma::Config,
    /// Creates a random source for each connection's keys.
    pub entropy: fn() -> Entropy,
}

/// Shared configuration of RDMA connections that a provider opens.
#[derive(Debug, Clone)]
pub struct Device {
    /// Opens the connections.
    pub provider: Arc<dyn Provider>,
    /// Configuration of RPC over RDMA. Remote invalidation is never offered: a device does not let the peer invalidate
    /// a program's registrations.
    pub rpc: rdma::Config,
}

impl fmt::Debug for Rdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rdma").field("rpc", &self.rpc).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) enum Incoming {
    /// A reply, and the part of the sink that its payload does not fill.
    Reply(Record, Option<SegmentMut>),
    /// The xid of a call that the server cannot process, the error, and the call's sink.
    NotTaken(u32, RdmaError, Option<SegmentMut>),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a client has few connections, and they are of one kind")]
pub(super) enum Transport {
    Tcp(Stream),
    /// RPC over RDMA, which holds the calls' sinks.
    Rdma {
        requester: Requester<AnyConnection>,
        /// The server has accepted the connection.
        ready: bool,
    },
}

pub(super) enum Opening {
    Stream,
    /// The connection opens itself, and the driver watches its descriptor.
    Watched(OwnedFd),
}

impl Opening {
    pub(super) fn action(self, conn: ConnId, addr: SocketAddr, local: LocalPort) -> Action {
        match self {
            Self::Stream => Action::Connect { conn, addr, local },
            Self::Watched(descriptor) => Action::Watch { conn, descriptor },
        }
    }
}

impl Transport {
    pub(super) fn open(
        now: Time,
        way: &Way,
        addr: SocketAddr,
        config: &Config,
    ) -> io::Result<(Self, Opening)> {
        match way {
            Way::Tcp => {
                let stream = Stream::new(config.reply_max, config.pool.clone());
                Ok((Self::Tcp(stream), Opening::Stream))
            }
            Way::Rdma(Rdma { transport, rpc, entropy }) => {
                let private_data = rpc.parameters().encode();
                let connection = Connection::connect(now, transport.clone(), entropy(), &private_data);
                let connection = connection.expect("there is room for eight bytes of private data");
                Ok((Self::rdma(AnyConnection::Iwarp(connection), rpc.clone()), Opening::Stream))
            }
            Way::Device(Device { provider, rpc }) => {
                let rpc = rdma::Config { remote_invalidation: false, ..rpc.clone() };
                let endpoint = provider.connect(addr, &rpc.parameters().encode())?;
                let watched = Opening::Watched(endpoint.descriptor().try_clone_to_owned()?);
                Ok((Self::rdma(AnyConnection::Endpoint(endpoint), rpc), watched))
            }
        }
    }

    fn rdma(connection: AnyConnection, rpc: rdma::Config) -> Self {
        Self::Rdma { requester: Requester::new(connection, rpc), ready: false }
    }

    pub(super) fn opened(&mut self, now: Time) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().opened(now);
        }
    }

    pub(super) fn watched(&mut self) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().ready();
        }
    }

    /// Returns whether a call could not be sent. [`next`](Self::next) returns the error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Rdma { requester, .. } if requester.has_failed())
    }

    /// Returns whether the server has accepted the connection, where the transport has such a step.
    pub(super) fn is_accepted(&self) -> bool {
        matches!(self, Self::Rdma { ready: true, .. })
    }

    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            Self::Rdma { requester, ready } => *ready && requester.has_room(),
        }
    }

    pub(super) fn landing(&mut self) -> Landing {
        match self {
            Self::Tcp(stream) => stream.landing(),
            Self::Rdma { requester, .. } => requester.queue_pair_mut().landing(),
        }
    }

    pub(super) fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        match self {
            Self::Tcp(stream) => stream.landed(place, filled),
            Self::Rdma { requester, .. } => requester.queue_pair_mut().landed(now, place, filled),
        }
    }

    pub(super) fn received(&mut self, now: Time, bytes: Segment) {
        match self {
            Self::Tcp(stream) => stream.received(bytes),
            Self::Rdma { requester, .. } => requester.queue_pair_mut().received(now, bytes),
        }
    }

    #[inline]
    pub(super) fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Incoming>, Error> {
        let (requester, ready) = match self {
            Self::Tcp(stream) => {
                return Ok(stream.next(splitter)?.map(|record| Incoming::Reply(record, None)));
            }
            Self::Rdma { requester, ready } => (requester, ready),
        };
        let answer = requester.next(splitter)?;
        if let Some(rdma::Answer { xid, reply, rest }) = answer {
            return Ok(Some(match reply {
                Ok(record) => Incoming::Reply(record, rest),
                Err(error) => Incoming::NotTaken(xid, error, rest),
            }));
        }
        while let Some(event) = requester.queue_pair_mut().event() {
            match event {
                ConnectionEvent::Established(private_data) => {
                    requester.connected(&private_data);
                    *ready = true;
                }
                ConnectionEvent::Fault(error) => return Err(error.into()),
                ConnectionEvent::Requested(_) => {}
            }
        }
        Ok(None)
    }

    /// Returns whether receives may wait for a low-water mark. Over RDMA that would delay the server's reads.
    pub(super) fn has_low_water(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Returns whether the transport holds the sinks of calls until their reply or its own end.
    pub(super) fn holds_sinks(&self) -> bool {
        matches!(self, Self::Rdma { .. })
    }

    /// Takes the receive target of an interrupted payload, after the connection has ended.
    pub(super) fn take_place(&mut self) -> Option<SegmentMut> {
        match self {
            Self::Tcp(stream) => stream.take_place(),
            Self::Rdma { .. } => None,
        }
    }

    pub(super) fn into_sinks(self) -> Vec<(u32, SegmentMut)> {
        match self {
            Self::Tcp(_) => Vec::new(),
            Self::Rdma { mut requester, .. } => {
                requester.queue_pair_mut().disconnect();
                let calls = requester.unanswered().into_iter();
                calls.filter_map(|call| Some((call.xid, call.sink?))).collect()
            }
        }
    }

    /// Sends a call. `sink` receives the reply's payload, if the transport holds sinks; the other results have at most
    /// `results_max` bytes.
    pub(super) fn send(&mut self, front: &[u8], payload: List, sink: Option<Memory>, results_max: usize) {
        match self {
            Self::Tcp(stream) => stream.send(front, payload),
            Self::Rdma { requester, .. } => {
                requester.call(front, payload, sink, REPLY_HEADER + results_max);
            }
        }
    }

    /// Gives up a call that was sent. Returns its sink if the transport holds it and `take_sink` is set. On an error
    /// the connection must be closed.
    pub(super) fn give_up(&mut self, xid: u32, take_sink: bool) -> Result<Option<SegmentMut>, Error> {
        match self {
            Self::Tcp(_) => Ok(None),
            Self::Rdma { requester, .. } => Ok(requester.give_up(xid, take_sink)?),
        }
    }

    /// Returns whether the transport keeps state for the reply to a call that was given up.
    pub(super) fn waits_for(&self, xid: u32) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Rdma { requester, .. } => requester.is_under_way(xid),
        }
    }

    pub(super) fn has_output(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.unsent() > 0,
            Self::Rdma { requester, .. } => requester.queue_pair().has_output(),
        }
    }

    /// Bytes of calls to send, with their payloads. `None`: the server fetches payloads itself.
    pub(super) fn unsent(&self) -> Option<usize> {
        match self {
            Self::Tcp(stream) => Some(stream.unsent()),
            Self::Rdma { .. } => None,
        }
    }

    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        match self {
            Self::Tcp(stream) => stream.transmit(out, limit),
            Self::Rdma { requester, .. } => requester.queue_pair_mut().transmit(out, limit),
        }
    }

    /// Returns the error report to send to the server before closing, if any.
    pub(super) fn final_output(&mut self) -> Option<List> {
        let Self::Rdma { requester, .. } = self else { return None };
        let mut output = List::new();
        let connection = requester.queue_pair_mut();
        connection.disconnect();
        connection.transmit(&mut output, usize::MAX);
        (!output.is_empty()).then_some(output)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Tcp(_) => None,
            Self::Rdma { requester, .. } => requester.queue_pair().deadline(),
        }
    }

    pub(super) fn timeout(&mut self, now: Time) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().timeout(now);
        }
    }
}
