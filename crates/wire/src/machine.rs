use crate::conns::ConnId;
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Identifies a listening address of a machine, which chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u32);

/// Request of a machine to its driver.
#[derive(Debug)]
pub enum Action {
    /// Listen on `addr` (port 0: any). The driver answers with [`Machine::listening`].
    Listen {
        /// Id of the listener, chosen by the machine.
        listener: ListenerId,
        /// Address to listen on.
        addr: SocketAddr,
    },
    /// Listen on a stream socket of any family that the program has already bound and set to listen. The driver answers
    /// with [`Machine::listening`]. Families other than IP have no addresses here: `0.0.0.0:0` stands for them, also
    /// for both sides of their connections.
    Adopt {
        /// Id of the listener, chosen by the machine.
        listener: ListenerId,
        /// Socket. The driver makes it non-blocking, which its duplicates share, and closes it. A file that it is bound
        /// to stays.
        socket: OwnedFd,
    },
    /// Use a connected stream socket of any family that the program has created. The driver answers with
    /// [`Machine::connected`] (with `0.0.0.0:0` if the family is not IP) or [`Machine::disconnected`].
    Attach {
        /// Id of the connection, chosen by the machine.
        conn: ConnId,
        /// Socket. The driver makes it non-blocking, which its duplicates share, and closes it.
        socket: OwnedFd,
    },
    /// Open a connection. The driver answers with [`Machine::connected`] or [`Machine::disconnected`].
    Connect {
        /// Id of the connection, chosen by the machine.
        conn: ConnId,
        /// Peer.
        addr: SocketAddr,
        /// Local port.
        local: LocalPort,
    },
    /// Watch a descriptor, whose owner moves its bytes itself, under a connection id. The driver calls
    /// [`Machine::ready`] whenever it is readable, or [`Machine::disconnected`] once if it cannot be watched.
    /// [`Action::Close`] ends the watch.
    Watch {
        /// Id chosen by the machine.
        conn: ConnId,
        /// Descriptor. The driver closes it.
        descriptor: OwnedFd,
    },
    /// Watch an eventfd under a connection id, without reading it. The driver calls [`Machine::ready`] for each signal,
    /// and once for earlier signals; signals close together may be combined. It calls [`Machine::disconnected`] once if
    /// the eventfd cannot be watched. [`Action::Close`] ends the watch.
    WatchSignals {
        /// Id chosen by the machine.
        conn: ConnId,
        /// Eventfd. The driver closes it.
        eventfd: OwnedFd,
    },
    /// Signal a non-blocking eventfd. There is no answer: if it accepts no signal, earlier signals are still pending.
    Signal {
        /// Eventfd.
        eventfd: Arc<OwnedFd>,
    },
    /// Send a message with a descriptor on a Unix socket connection, after earlier output. The peer reads what it is
    /// sent, so the driver does not buffer such messages: if the socket does not accept one completely, the connection
    /// has failed ([`Machine::disconnected`]).
    SendDescriptor {
        /// Connection.
        conn: ConnId,
        /// Message.
        message: Vec<u8>,
        /// Descriptor to send along. The driver closes it.
        descriptor: OwnedFd,
    },
    /// Output may be available: call [`Machine::transmit`].
    Transmit {
        /// Connection.
        conn: ConnId,
    },
    /// A connection that requested no bytes may request some again: call [`Machine::landing`].
    Resume {
        /// Connection.
        conn: ConnId,
    },
    /// Set the receive low-water mark (`SO_RCVLOWAT`): fewer bytes are delivered only after a short delay. With 1, the
    /// initial mark, every byte is delivered at once. A driver without such a mark delivers bytes as they arrive. A
    /// driver may ask for output each time that it has delivered about as many bytes as the mark.
    LowWater {
        /// Connection.
        conn: ConnId,
        /// Mark in bytes.
        bytes: usize,
    },
    /// Close the connection after sending its remaining output ([`Machine::transmit`]). Nothing more is delivered for
    /// `conn`, except that outstanding receive buffers are returned by [`Machine::landed`] first. The slot of its id is
    /// free for another connection once the driver asks for the next action.
    Close {
        /// Connection.
        conn: ConnId,
    },
}

/// Local port of an outgoing connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalPort {
    /// Chosen by the system.
    #[default]
    Any,
    /// One of 512 to 1023, or the connection fails. These ports require a privilege, so servers trust the system to
    /// vouch for the process.
    Reserved,
    /// A reserved port if permitted and available, otherwise any.
    PreferReserved,
}

/// Reason for the end of a connection.
#[derive(Debug)]
pub enum Disconnect {
    /// The peer closed it in order.
    Closed,
    /// The transport failed, or the connection could not be opened.
    Failed(io::Error),
}

/// Destination of the next bytes of a connection.
#[derive(Debug, Default)]
pub struct Landing {
    /// Buffer for the very next bytes. It is returned by [`Machine::landed`] after any progress.
    pub place: Option<SegmentMut>,
    /// Buffers for the bytes after `place`, filled and returned in this order, each by [`Machine::landed`]. Empty
    /// without a `place`, and at most [`PLACES_MAX`](Self::PLACES_MAX) with it.
    pub further: Vec<SegmentMut>,
    /// Maximum number of bytes, after those of all places, that may be received into shared memory and passed to
    /// [`Machine::received`]. With 0 and no `place`, the driver stops reading: back-pressure.
    pub ahead: usize,
    /// Maximum number of file descriptors accepted along with these bytes, at most
    /// [`DESCRIPTORS_MAX`](Self::DESCRIPTORS_MAX). They are passed to [`Machine::descriptors`]; others are closed. Only
    /// for Unix socket connections: a driver that cannot receive descriptors ends the connection.
    pub descriptors: usize,
}

impl Landing {
    /// Maximum number of buffers that a driver can receive into at a time.
    pub const PLACES_MAX: usize = 63;

    /// Maximum number of descriptors that a driver can receive at a time.
    pub const DESCRIPTORS_MAX: usize = 8;

    /// Receives only into shared memory.
    pub fn shared(ahead: usize) -> Self {
        Self { ahead, ..Self::default() }
    }

    /// Receives into one buffer, then into shared memory.
    pub fn at(place: SegmentMut, ahead: usize) -> Self {
        Self { place: Some(place), ahead, ..Self::default() }
    }

    /// Returns all buffers in the order in which they are filled and returned.
    pub fn into_places(self) -> impl Iterator<Item = SegmentMut> {
        self.place.into_iter().chain(self.further)
    }

    /// Returns the number of buffers.
    pub fn places(&self) -> usize {
        usize::from(self.place.is_some()) + self.further.len()
    }
}

/// A protocol endpoint without I/O: any number of connections with all their state, but no sockets and no clock.
///
/// The driver's loop:
/// 1. Deliver events ([`accepted`](Self::accepted), [`connected`](Self::connected), [`landed`](Self::landed),
///    [`received`](Self::received), [`ready`](Self::ready), [`half_closed`](Self::half_closed),
///    [`disconnected`](Self::disconnected)).
/// 2. If [`deadline`](Self::deadline) has passed, call [`timeout`](Self::timeout).
/// 3. Drain [`next_action`](Self::next_action) and perform each action. For [`Action::Transmit`], call
///    [`transmit`](Self::transmit) as long as the transport accepts bytes, and again when it accepts more.
/// 4. Wait for the transport or the deadline.
///
/// A machine never fails: it records a connection's error with the connection and answers with [`Action::Close`].
pub trait Machine {
    /// Returns the next action, or `None` when idle.
    fn next_action(&mut self, now: Time) -> Option<Action>;

    /// A listener is listening at `Ok(addr)`, or could not be opened.
    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<SocketAddr>);

    /// A peer connected to a listener. Returns `None` to refuse; the driver closes the connection at once.
    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId>;

    /// A requested connection is open. `local` is this side's address.
    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr);

    /// A connection is gone, and its id with it. Not called for connections that the machine closed.
    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect);

    /// The peer ended its direction of the stream (half-close): nothing more is received, and all receive buffers have
    /// been returned. Returns whether the machine keeps the connection to send replies until it closes it. Otherwise
    /// [`disconnected`](Self::disconnected) follows. A peer that is gone looks the same until something is sent.
    fn half_closed(&mut self, _now: Time, _conn: ConnId) -> bool {
        false
    }

    /// Returns the destination of the next bytes of `conn`. Each buffer handed out is returned by exactly one
    /// [`landed`](Self::landed) before the next call.
    fn landing(&mut self, conn: ConnId) -> Landing;

    /// Takes back a buffer handed out by [`landing`](Self::landing), its first `filled` bytes received. Also called
    /// when the connection ends.
    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize);

    /// Bytes arrived in shared memory. Keeping them keeps their whole block.
    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment);

    /// File descriptors arrived along with the bytes delivered next. A machine that does not keep them closes them.
    fn descriptors(&mut self, _now: Time, _conn: ConnId, _descriptors: Vec<OwnedFd>) {}

    /// Appends about `limit` bytes of output for `conn` to `out`: whole messages, at least one if any is queued. The
    /// driver takes over appended bytes and does not ask for them again. A machine that appends less although more will
    /// follow announces it with [`Action::Transmit`], because the driver may sleep before it asks again. Once the
    /// transport has accepted everything, the driver asks once more with an empty `out`.
    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize);

    /// A [watched](Action::Watch) descriptor is readable, reported repeatedly as long as it is, or a
    /// [watched](Action::WatchSignals) eventfd was signalled.
    fn ready(&mut self, _now: Time, _conn: ConnId) {}

    /// Returns when to call [`timeout`](Self::timeout), at the latest.
    fn deadline(&self) -> Option<Time>;

    /// Handles an expired deadline.
    fn timeout(&mut self, now: Time);

    /// The driver was woken from outside (see the engine's waker): process work from other threads.
    fn woken(&mut self, _now: Time) {}
}
