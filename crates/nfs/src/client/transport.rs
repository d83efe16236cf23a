//! What carries the calls of one connection.

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

/// Most bytes of the header of a reply: its words, and the verifiers that servers are known to give.
const REPLY_HEADER: usize = 64;

/// How a server is reached.
#[derive(Debug, Clone, Default)]
pub enum Way {
    /// Records on a connection of TCP.
    #[default]
    Tcp,
    /// RPC over RDMA, by iWARP in software on a connection of TCP.
    Rdma(Rdma),
    /// RPC over RDMA, by connections of a provider's own.
    Device(Device),
}

/// What connections over RDMA have in common.
#[derive(Clone)]
pub struct Rdma {
    /// For iWARP.
    pub transport: Arc<iwarp::Config>,
    /// For RPC.
    pub rpc: rdma::Config,
    /// Gives each connection a source of numbers for its keys.
    pub entropy: fn() -> Entropy,
}

/// What connections over RDMA have in common that a provider opens.
#[derive(Debug, Clone)]
pub struct Device {
    /// Opens them.
    pub provider: Arc<dyn Provider>,
    /// For RPC. No remote invalidation is offered: a device does not let the peer end registrations of a program's.
    pub rpc: rdma::Config,
}

impl fmt::Debug for Rdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rdma").field("rpc", &self.rpc).finish_non_exhaustive()
    }
}

/// What has come by a connection.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A reply, with what of a sink its payload is not in.
    Reply(Record, Option<SegmentMut>),
    /// The server cannot take a call, whose sink comes back.
    NotTaken(u32, RdmaError, Option<SegmentMut>),
}

/// The state of a connection's protocol below RPC.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a client has few connections, and they are of one kind")]
pub(super) enum Transport {
    /// Records on a stream.
    Tcp(Stream),
    /// RPC over RDMA. Sinks of calls are with it.
    Rdma {
        requester: Requester<AnyConnection>,
        /// The server has let us in.
        ready: bool,
    },
}

/// How a connection is opened.
pub(super) enum Opening {
    /// By the driver.
    Stream,
    /// By itself, and the driver watches it.
    Watched(OwnedFd),
}

impl Opening {
    /// What the driver has to do.
    pub(super) fn action(self, conn: ConnId, addr: SocketAddr, local: LocalPort) -> Action {
        match self {
            Self::Stream => Action::Connect { conn, addr, local },
            Self::Watched(descriptor) => Action::Watch { conn, descriptor },
        }
    }
}

impl Transport {
    /// Of a connection to `addr` that is being opened.
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
                let told = rpc.parameters().encode();
                let connection = Connection::connect(now, transport.clone(), entropy(), &told);
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

    /// The connection is open.
    pub(super) fn opened(&mut self, now: Time) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().opened(now);
        }
    }

    /// Its descriptor is readable.
    pub(super) fn watched(&mut self) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().ready();
        }
    }

    /// Was a call not sent that should have been? [`next`](Self::next) says why.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Rdma { requester, .. } if requester.has_failed())
    }

    /// Has the server let us in, where it is asked?
    pub(super) fn is_let_in(&self) -> bool {
        matches!(self, Self::Rdma { ready: true, .. })
    }

    /// May a call be sent?
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

    /// The next that has come.
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
                ConnectionEvent::Established(told) => {
                    requester.connected(&told);
                    *ready = true;
                }
                ConnectionEvent::Fault(error) => return Err(error.into()),
                ConnectionEvent::Requested(_) => {}
            }
        }
        Ok(None)
    }

    /// May it wait until there are many bytes to receive? Over RDMA that would hold up what the server wants to read.
    pub(super) fn has_low_water(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Do sinks of calls stay with it until its end, or the reply?
    pub(super) fn holds_sinks(&self) -> bool {
        matches!(self, Self::Rdma { .. })
    }

    /// The place of a payload that was coming in: the connection is over.
    pub(super) fn take_place(&mut self) -> Option<SegmentMut> {
        match self {
            Self::Tcp(stream) => stream.take_place(),
            Self::Rdma { .. } => None,
        }
    }

    /// The sinks of calls that have no reply: the connection is over.
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

    /// Sends a call. `sink` is where the payload of its reply goes, if the transport is to have it; beside that the results
    /// have at most `results_max` bytes.
    pub(super) fn send(&mut self, front: &[u8], payload: List, sink: Option<Memory>, results_max: usize) {
        match self {
            Self::Tcp(stream) => stream.send(front, payload),
            Self::Rdma { requester, .. } => {
                requester.call(front, payload, sink, REPLY_HEADER + results_max);
            }
        }
    }

    /// Gives up a call that was sent: its reply is of no use any more. The sink, if it is with the transport, comes back
    /// if it is to be taken. An error is one after which the connection is of no use.
    pub(super) fn give_up(&mut self, xid: u32, take_sink: bool) -> Result<Option<SegmentMut>, Error> {
        match self {
            Self::Tcp(_) => Ok(None),
            Self::Rdma { requester, .. } => Ok(requester.give_up(xid, take_sink)?),
        }
    }

    /// Is something kept for the reply to a call that was given up?
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

    /// Bytes of calls that wait to be sent, with what they write. `None`: the server asks for what they write.
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

    /// What the server is to be told at the end, if something has gone wrong with it.
    pub(super) fn last_words(&mut self) -> Option<List> {
        let Self::Rdma { requester, .. } = self else { return None };
        let mut words = List::new();
        let connection = requester.queue_pair_mut();
        connection.disconnect();
        connection.transmit(&mut words, usize::MAX);
        (!words.is_empty()).then_some(words)
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Tcp(_) => None,
            Self::Rdma { requester, .. } => requester.queue_pair().deadline(),
        }
    }

    /// Time has passed.
    pub(super) fn timeout(&mut self, now: Time) {
        if let Self::Rdma { requester, .. } = self {
            requester.queue_pair_mut().timeout(now);
        }
    }
}
