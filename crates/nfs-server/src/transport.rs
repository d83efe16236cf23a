//! What messages come and go over, below RPC.

use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::rpc::rdma::{self, Responder};
use onego_nfs::rpc::{Record, RecordError, Splitter, Stream};
use onego_rdma::iwarp::{self, Connection, Entropy};
use onego_rdma::{
    AnyConnection, Asked, ConnectionError, ConnectionEvent, EndpointError, PostError, Provider,
    QueuePair as _,
};
use onego_wire::{Landing, Time, Unfinished};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;

/// Bytes that are read from the memory of one client at a time: some calls of the most bytes.
const READING_MAX: usize = 4 << 20;

/// Most bytes of a call before its payload. The longest has two names, and some hundred bytes beside: this leaves room for
/// names that are too long, so that their senders are told.
pub(super) const FRONT_MAX: usize = 64 << 10;

/// How a server is reached over RDMA. It is changed by the methods that begin with `with_`, or field by field.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rdma {
    /// Where it listens; port 0: any.
    pub listen: SocketAddr,
    /// Most bytes of a message, from 1 KiB to 64 KiB: what is longer is read and written in memory of the client. The
    /// client has a say in it, too.
    pub inline: u32,
    /// End the registration of a client's memory with the reply, if the client wants that.
    pub remote_invalidation: bool,
    /// Calls that a client may have under way.
    pub credits: u32,
    /// Gives each connection a source of numbers that nobody can guess, for its keys.
    pub entropy: fn() -> Entropy,
    /// Devices by which it is reached; without them it is by iWARP in software, on TCP connections.
    pub devices: Option<Arc<dyn Provider>>,
}

impl Rdma {
    /// The port where clients look for NFS over RDMA (RFC 8267, section 7).
    pub const PORT: u16 = 20049;

    /// What suits Linux's client: messages of 4 KiB, and 128 calls.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            inline: 4 << 10,
            remote_invalidation: true,
            credits: 128,
            entropy: system,
            devices: None,
        }
    }

    /// The same, with messages of at most this number of bytes, from 1 KiB to 64 KiB.
    pub fn with_inline(self, inline: u32) -> Self {
        Self { inline, ..self }
    }

    /// The same, ending the registration of a client's memory with the reply, or leaving that to the client.
    pub fn with_remote_invalidation(self, remote_invalidation: bool) -> Self {
        Self { remote_invalidation, ..self }
    }

    /// The same, with this number of calls that a client may have under way.
    pub fn with_credits(self, credits: u32) -> Self {
        Self { credits, ..self }
    }

    /// The same, with keys made of these numbers.
    pub fn with_entropy(self, entropy: fn() -> Entropy) -> Self {
        Self { entropy, ..self }
    }

    /// The same, reached by these devices.
    pub fn with_devices(self, devices: Arc<dyn Provider>) -> Self {
        Self { devices: Some(devices), ..self }
    }

    /// Bytes of the receives that are posted for one client.
    pub(super) fn receives_len(&self) -> usize {
        self.inline.max(1 << 10) as usize * self.credits.max(1) as usize
    }
}

/// Numbers of the system's.
fn system() -> Entropy {
    Box::new(onego_engine::random_words())
}

/// What connections over RDMA have in common.
pub(super) struct RdmaConfig {
    entropy: fn() -> Entropy,
    transport: Arc<iwarp::Config>,
    rpc: rdma::Config,
}

impl RdmaConfig {
    pub(super) fn new(rdma: &Rdma, record_max: usize, pool: &Pool) -> Self {
        let rpc = rdma::Config {
            inline: rdma.inline,
            credits: rdma.credits,
            remote_invalidation: rdma.remote_invalidation,
            message_max: record_max,
            reading_max: READING_MAX,
            ..rdma::Config::new(pool.clone())
        };
        Self { entropy: rdma.entropy, transport: Arc::new(iwarp::Config::new(pool.clone())), rpc }
    }
}

/// Why a connection cannot go on.
#[derive(Debug, Error)]
pub(super) enum Error {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the client cannot be let in: {0}")]
    Accept(#[from] PostError),
    #[error("the client's connection cannot be watched: {0}")]
    Watch(#[from] io::Error),
}

impl Error {
    /// Has the client just ended the connection?
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Connection(ConnectionError::Endpoint(EndpointError::Disconnected)))
    }
}

/// One end of a connection.
pub(super) enum Transport {
    Stream(Box<Stream>),
    Rdma(Box<Responder<AnyConnection>>),
}

impl Transport {
    pub(super) fn stream(record_max: usize, pool: &Pool) -> Self {
        Self::Stream(Box::new(Stream::for_server(record_max, FRONT_MAX, pool.clone())))
    }

    pub(super) fn rdma(now: Time, RdmaConfig { entropy, transport, rpc }: &RdmaConfig) -> Self {
        let connection = Connection::serve(now, Arc::clone(transport), entropy());
        Self::Rdma(Box::new(Responder::new(AnyConnection::Iwarp(connection), rpc.clone())))
    }

    /// Of a client that asks to connect by a device: lets it in. With what the driver is to watch.
    pub(super) fn device(asked: Asked, config: &RdmaConfig) -> Result<(Self, OwnedFd), Error> {
        let Asked { endpoint, private_data, .. } = asked;
        let descriptor = endpoint.descriptor().try_clone_to_owned()?;
        let mut responder = Responder::new(AnyConnection::Endpoint(endpoint), config.rpc.clone());
        let told = responder.requested(&private_data);
        responder.queue_pair_mut().accept(&told)?;
        Ok((Self::Rdma(Box::new(responder)), descriptor))
    }

    /// What the driver watches is readable: looks what has happened, but for calls that have come.
    pub(super) fn ready(&mut self) -> Result<(), Error> {
        let Self::Rdma(responder) = self else { return Ok(()) };
        responder.queue_pair_mut().ready();
        responder.taken();
        events(responder)
    }

    pub(super) fn landing(&mut self) -> Landing {
        match self {
            Self::Stream(stream) => stream.landing(),
            Self::Rdma(responder) => responder.queue_pair_mut().landing(),
        }
    }

    pub(super) fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        match self {
            Self::Stream(stream) => stream.landed(place, filled),
            Self::Rdma(responder) => responder.queue_pair_mut().landed(now, place, filled),
        }
    }

    pub(super) fn received(&mut self, now: Time, bytes: Segment) {
        match self {
            Self::Stream(stream) => stream.received(bytes),
            Self::Rdma(responder) => responder.queue_pair_mut().received(now, bytes),
        }
    }

    pub(super) fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Record>, Error> {
        let responder = match self {
            Self::Stream(stream) => return Ok(stream.next(splitter)?),
            Self::Rdma(responder) => responder,
        };
        if let Some(record) = responder.next(splitter)? {
            return Ok(Some(record));
        }
        events(responder)?;
        Ok(None)
    }

    /// The message of which a part has come and a part has not; of several that are read by RDMA, all of them.
    #[inline]
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        match self {
            Self::Stream(stream) => stream.unfinished(),
            Self::Rdma(responder) => responder.unfinished(),
        }
    }

    /// What was received is not taken for a while: lets go of memory that it shares with others.
    pub(super) fn settle(&mut self) {
        if let Self::Stream(stream) = self {
            stream.settle();
        }
    }

    pub(super) fn is_rdma(&self) -> bool {
        matches!(self, Self::Rdma(_))
    }

    pub(super) fn send(&mut self, front: &[u8], payload: List) {
        match self {
            Self::Stream(stream) => stream.send(front, payload),
            Self::Rdma(responder) => responder.reply(front, payload),
        }
    }

    /// Was a reply not sent that should have been? [`next`](Self::next) says why.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Rdma(responder) if responder.has_failed())
    }

    /// There will be no reply to the call of that number.
    pub(super) fn forget(&mut self, xid: u32) {
        if let Self::Rdma(responder) = self {
            responder.forget(xid);
        }
    }

    /// Bytes of replies that wait.
    pub(super) fn unsent(&self) -> usize {
        match self {
            Self::Stream(stream) => stream.unsent(),
            Self::Rdma(responder) => responder.unsent(),
        }
    }

    /// Does the driver ask for what is to be sent, by [`transmit`](Self::transmit)?
    pub(super) fn is_on_stream(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Rdma(responder) => matches!(responder.queue_pair(), AnyConnection::Iwarp(_)),
        }
    }

    /// Is there something to send?
    pub(super) fn has_output(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.unsent() > 0,
            Self::Rdma(responder) => responder.queue_pair().has_output(),
        }
    }

    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        match self {
            Self::Stream(stream) => stream.transmit(out, limit),
            Self::Rdma(responder) => {
                responder.queue_pair_mut().transmit(out, limit);
                responder.taken();
            }
        }
    }

    /// What is sent to the client before the connection is closed for an error.
    pub(super) fn last_words(&mut self) -> Option<List> {
        let Self::Rdma(responder) = self else { return None };
        let mut words = List::new();
        let connection = responder.queue_pair_mut();
        connection.disconnect();
        connection.transmit(&mut words, usize::MAX);
        (!words.is_empty()).then_some(words)
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Stream(_) => None,
            Self::Rdma(responder) => responder.queue_pair().deadline(),
        }
    }

    /// Time has passed.
    pub(super) fn timeout(&mut self, now: Time) {
        if let Self::Rdma(responder) = self {
            responder.queue_pair_mut().timeout(now);
        }
    }
}

/// Looks what has become of a connection.
fn events(responder: &mut Responder<AnyConnection>) -> Result<(), Error> {
    while let Some(event) = responder.queue_pair_mut().event() {
        match event {
            ConnectionEvent::Requested(told) => {
                let told = responder.requested(&told);
                responder.queue_pair_mut().accept(&told)?;
            }
            ConnectionEvent::Fault(error) => return Err(error.into()),
            ConnectionEvent::Established(_) => {}
        }
    }
    Ok(())
}
