use crate::conns::ConnId;
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Names a listening address of a machine; the machine chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u32);

/// Something that a machine wants its driver to do.
#[derive(Debug)]
pub enum Action {
    /// Listen on `addr` (port 0: any). The driver answers with [`Machine::listening`].
    Listen {
        /// The machine's name for the listener.
        listener: ListenerId,
        /// Where to listen.
        addr: SocketAddr,
    },
    /// Listen on a stream socket of any family that the program has made, bound and set to listen. The driver answers with
    /// [`Machine::listening`]. A family other than IP has no addresses here: `0.0.0.0:0` stands for them, also for both sides of
    /// the connections.
    Adopt {
        /// The machine's name for the listener.
        listener: ListenerId,
        /// The socket. The driver sets it to non-blocking, which any duplicate of it shares, and closes it; a file that it is
        /// bound to stays.
        socket: OwnedFd,
    },
    /// Use a connected stream socket of any family that the program has made. The driver answers with [`Machine::connected`]
    /// (with `0.0.0.0:0` if the family is not IP) or [`Machine::disconnected`].
    Attach {
        /// The machine's name for the connection.
        conn: ConnId,
        /// The socket. The driver sets it to non-blocking, which any duplicate of it shares, and closes it.
        socket: OwnedFd,
    },
    /// Open a connection. The driver answers with [`Machine::connected`] or [`Machine::disconnected`].
    Connect {
        /// The machine's name for the connection.
        conn: ConnId,
        /// The peer.
        addr: SocketAddr,
        /// The port that it is opened from.
        local: LocalPort,
    },
    /// Watch a descriptor, of something that moves its bytes itself, under the name of a connection. Whenever it is
    /// readable the driver says so ([`Machine::ready`]), or once that it cannot be watched ([`Machine::disconnected`]).
    /// [`Action::Close`] ends it.
    Watch {
        /// The machine's name for it.
        conn: ConnId,
        /// What is watched. The driver closes it.
        descriptor: OwnedFd,
    },
    /// Watch an eventfd under the name of a connection, without reading it: each time that it is signalled, and once if it was
    /// before, the driver says so ([`Machine::ready`]), at least once for signals that come close together; or once that it
    /// cannot be watched ([`Machine::disconnected`]). [`Action::Close`] ends it.
    WatchSignals {
        /// The machine's name for it.
        conn: ConnId,
        /// The eventfd. The driver closes it.
        eventfd: OwnedFd,
    },
    /// Signal an eventfd that is non-blocking. It needs no answer: one that takes no signal has signals that were not taken.
    Signal {
        /// The eventfd.
        eventfd: Arc<OwnedFd>,
    },
    /// Send a message together with a descriptor on a connection over a Unix socket, after what was to be sent before. The
    /// peer reads what it is sent, so the driver keeps no such message: where the socket does not take it whole, the connection
    /// has failed ([`Machine::disconnected`]).
    SendDescriptor {
        /// The connection.
        conn: ConnId,
        /// The message.
        message: Vec<u8>,
        /// What goes along. The driver closes it.
        descriptor: OwnedFd,
    },
    /// There may be something to send: ask [`Machine::transmit`].
    Transmit {
        /// The connection.
        conn: ConnId,
    },
    /// There may be something to read again, on a connection that had asked for nothing: ask [`Machine::landing`].
    Resume {
        /// The connection.
        conn: ConnId,
    },
    /// Sets the receive low-water mark (`SO_RCVLOWAT`): fewer bytes of this connection are delivered only after a short
    /// delay. With 1, the initial mark, every byte is delivered at once. A driver without such a mark delivers bytes as they
    /// arrive. A driver may ask for bytes to send each time that it has delivered about as many as the mark.
    LowWater {
        /// The connection.
        conn: ConnId,
        /// The mark.
        bytes: usize,
    },
    /// Close the connection, after what [`Machine::transmit`] still gives is sent. Nothing more is delivered for
    /// `conn`, except that a buffer out for landing comes back by [`Machine::landed`] first. The slot of its name is free for
    /// another connection once the driver asks for the next action.
    Close {
        /// The connection.
        conn: ConnId,
    },
}

/// The port of this side that a connection is opened from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalPort {
    /// Any that the system gives.
    #[default]
    Any,
    /// One of 512 to 1023, or the connection fails: what a server takes for a sign that the system vouches for this
    /// process, because it takes a privilege.
    Reserved,
    /// One of these if this process may have it and one is free; else any.
    PreferReserved,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum Disconnect {
    /// The peer closed it in order.
    Closed,
    /// The transport failed, or the connection could not be opened.
    Failed(io::Error),
}

/// Where the next bytes of a connection go.
#[derive(Debug, Default)]
pub struct Landing {
    /// Receive the very next bytes into this buffer. It comes back by [`Machine::landed`] after any progress.
    pub place: Option<SegmentMut>,
    /// And the bytes after those of `place` into these, in this order: they come back in it, too, each by
    /// [`Machine::landed`]. None without a `place`; with it, [`PLACES_MAX`](Self::PLACES_MAX) at the most.
    pub further: Vec<SegmentMut>,
    /// The most bytes (after those of all places) that may be received into shared memory and handed over by
    /// [`Machine::received`]. With 0 and no `place` the driver stops reading: that is back-pressure.
    pub ahead: usize,
    /// The most descriptors of files that are taken along with these bytes, [`DESCRIPTORS_MAX`](Self::DESCRIPTORS_MAX) at most;
    /// they are handed over by [`Machine::descriptors`], and further ones are closed. Only for connections over Unix sockets: a
    /// driver that cannot take descriptors ends the connection.
    pub descriptors: usize,
}

impl Landing {
    /// Buffers that a driver can receive into at a time.
    pub const PLACES_MAX: usize = 63;

    /// Descriptors that a driver can take at a time.
    pub const DESCRIPTORS_MAX: usize = 8;

    /// Into shared memory only.
    pub fn shared(ahead: usize) -> Self {
        Self { ahead, ..Self::default() }
    }

    /// Into one buffer, and then into shared memory.
    pub fn at(place: SegmentMut, ahead: usize) -> Self {
        Self { place: Some(place), ahead, ..Self::default() }
    }

    /// All its buffers, in the order in which they are filled and come back.
    pub fn into_places(self) -> impl Iterator<Item = SegmentMut> {
        self.place.into_iter().chain(self.further)
    }

    /// How many buffers there are.
    pub fn places(&self) -> usize {
        usize::from(self.place.is_some()) + self.further.len()
    }
}

/// A protocol endpoint without I/O: any number of connections, all their state, no sockets and no clock.
///
/// The driver's loop, stated once:
/// 1. deliver what happened ([`accepted`](Self::accepted), [`connected`](Self::connected),
///    [`landed`](Self::landed), [`received`](Self::received), [`ready`](Self::ready),
///    [`half_closed`](Self::half_closed), [`disconnected`](Self::disconnected));
/// 2. if [`deadline`](Self::deadline) has passed, [`timeout`](Self::timeout);
/// 3. drain [`next_action`](Self::next_action) and carry each out; for [`Action::Transmit`] ask
///    [`transmit`](Self::transmit) for as long as the transport takes bytes, and again when it takes more;
/// 4. wait for the transport or the deadline.
///
/// A machine never fails: an error on a connection is recorded where it belongs and answered by
/// [`Action::Close`].
pub trait Machine {
    /// The next thing to do, until there is none.
    fn next_action(&mut self, now: Time) -> Option<Action>;

    /// A listener is up (at `Ok(addr)`) or could not be opened.
    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<SocketAddr>);

    /// A peer connected to a listener. `None`: refused, the driver closes it at once.
    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId>;

    /// A connection asked for is open. `local` is this side's address.
    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr);

    /// A connection is gone, and its name with it. Not called for a connection that the machine closed.
    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect);

    /// The peer has ended its direction of the stream (a half-close): nothing more is received, and all receive buffers are
    /// back. Returns whether the machine keeps the connection to send replies on it, until it closes it; otherwise
    /// [`disconnected`](Self::disconnected) follows. A peer that is gone altogether looks the same until something is sent.
    fn half_closed(&mut self, _now: Time, _conn: ConnId) -> bool {
        false
    }

    /// Where the next bytes of `conn` go. Each buffer that is handed out comes back by exactly one
    /// [`landed`](Self::landed) before this is called again.
    fn landing(&mut self, conn: ConnId) -> Landing;

    /// A buffer handed out by [`landing`](Self::landing) comes back, its first `filled` bytes received. It also
    /// comes back (with whatever was filled) when the connection ends.
    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize);

    /// Bytes arrived in shared memory. To keep them is to keep the whole block they lie in.
    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment);

    /// Descriptors of files came along with the bytes that are handed over next. A machine that does not keep them closes them.
    fn descriptors(&mut self, _now: Time, _conn: ConnId, _descriptors: Vec<OwnedFd>) {}

    /// Appends what is to be sent on `conn` to `out`, about `limit` bytes of it (whole messages, at least one if
    /// there is any). What is appended is the driver's; it is not asked for again. A machine that appends less although
    /// there will be more says so by [`Action::Transmit`]: the driver may sleep before it asks again. Once the transport has
    /// taken everything, the driver asks one more time, with an empty `out`.
    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize);

    /// A descriptor that is [watched](Action::Watch) is readable. It is told again and again for as long as it is. Or an eventfd
    /// that is [watched](Action::WatchSignals) was signalled.
    fn ready(&mut self, _now: Time, _conn: ConnId) {}

    /// When [`timeout`](Self::timeout) wants to be called, at the latest.
    fn deadline(&self) -> Option<Time>;

    /// The deadline has passed.
    fn timeout(&mut self, now: Time);

    /// The driver was woken from outside (see the engine's waker): look at what other threads left.
    fn woken(&mut self, _now: Time) {}
}
