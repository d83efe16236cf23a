//! A small protocol to test engines with: frames of a 32-bit length and as many bytes.
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Frames from here on are received straight into memory of their own.
const PLACE_MIN: usize = 8 << 10;

/// The largest frame that is taken.
const MAX_FRAME: usize = 64 << 20;

/// Something that happened to a [`Frames`].
#[derive(Debug)]
pub enum FrameEvent {
    /// A listener is up, or not.
    Listening(ListenerId, io::Result<SocketAddr>),
    /// A connection asked for is open; this is its local address.
    Connected(ConnId, SocketAddr),
    /// A peer connected.
    Accepted(ConnId, SocketAddr),
    /// A frame arrived.
    Frame(ConnId, List),
    /// The peer has ended its direction of the stream.
    HalfClosed(ConnId),
    /// A connection is gone.
    Disconnected(ConnId, Disconnect),
}

/// One side of the protocol, or both: sends frames, and gives those that come to the caller or echoes them.
#[derive(Debug, Default)]
pub struct Frames {
    conns: ConnTable<Conn>,
    actions: VecDeque<Action>,
    /// What happened, for the caller to take.
    pub events: VecDeque<FrameEvent>,
    /// Send each frame back to where it came from, instead of telling.
    pub echo: bool,
    /// Keep connections whose peers have ended their direction of the stream.
    pub keeps_half_closed: bool,
    /// Take no bytes from connections: back-pressure. Undone by [`Self::resume`].
    pub deaf: bool,
    /// Wanted [`Machine::deadline`].
    pub alarm: Option<Time>,
    /// When alarms went off.
    pub alarms: Vec<Time>,
    /// How often [`Machine::woken`] was called.
    pub wakes: u64,
    /// Buffers out for landing.
    pub places_out: usize,
}

#[derive(Debug, Default)]
struct Conn {
    /// Received, not yet a whole frame.
    inbox: List,
    /// A large frame that is being received.
    large: Option<Large>,
    /// Frames to be sent.
    outbox: VecDeque<List>,
    /// Forgotten once its frames are handed over.
    closing: bool,
}

#[derive(Debug)]
struct Large {
    filled: SegmentMut,
    /// None while it is out.
    rest: Option<SegmentMut>,
}

impl Frames {
    /// One that echoes.
    pub fn echo() -> Self {
        Self { echo: true, ..Self::default() }
    }

    /// Listens.
    pub fn listen(&mut self, listener: u32, addr: SocketAddr) {
        self.actions.push_back(Action::Listen { listener: ListenerId(listener), addr });
    }

    /// Listens on a socket that the caller has made.
    pub fn adopt(&mut self, listener: u32, socket: impl Into<OwnedFd>) {
        self.actions.push_back(Action::Adopt { listener: ListenerId(listener), socket: socket.into() });
    }

    /// Uses a connected socket that the caller has made.
    pub fn attach(&mut self, socket: impl Into<OwnedFd>) -> ConnId {
        let conn = self.conns.insert(Conn::default());
        self.actions.push_back(Action::Attach { conn, socket: socket.into() });
        conn
    }

    /// Opens a connection.
    pub fn connect(&mut self, addr: SocketAddr) -> ConnId {
        self.connect_from(LocalPort::Any, addr)
    }

    /// Opens a connection from such a port.
    pub fn connect_from(&mut self, local: LocalPort, addr: SocketAddr) -> ConnId {
        let conn = self.conns.insert(Conn::default());
        self.actions.push_back(Action::Connect { conn, addr, local });
        conn
    }

    /// Sends a frame.
    pub fn send(&mut self, id: ConnId, frame: impl Into<List>) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.outbox.is_empty() {
            self.actions.push_back(Action::Transmit { conn: id });
        }
        conn.outbox.push_back(frame.into());
    }

    /// Closes a connection after what was sent.
    pub fn close(&mut self, id: ConnId) {
        self.actions.push_back(Action::Close { conn: id });
    }

    /// Sets the receive low-water mark, bytes.
    pub fn set_low_water(&mut self, id: ConnId, bytes: usize) {
        self.actions.push_back(Action::LowWater { conn: id, bytes });
    }

    /// Takes bytes again.
    pub fn resume(&mut self) {
        self.deaf = false;
        self.actions.extend(self.conns.iter().map(|(conn, _)| Action::Resume { conn }));
    }

    /// Connections that are open or being opened.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    fn frame(&mut self, id: ConnId, frame: List) {
        if self.echo {
            self.send(id, frame);
        } else {
            self.events.push_back(FrameEvent::Frame(id, frame));
        }
    }

    /// Takes whole frames out of the inbox.
    fn parse(&mut self, id: ConnId) {
        while let Some(conn) = self.conns.get_mut(id) {
            if conn.large.is_some() || conn.inbox.len() < 4 {
                return;
            }
            let mut len = [0; 4];
            conn.inbox.copy_to(&mut len);
            let len = u32::from_le_bytes(len) as usize;
            if len > MAX_FRAME {
                return self.close(id);
            }
            if conn.inbox.len() - 4 >= len {
                conn.inbox.advance(4);
                let frame = conn.inbox.split_to(len);
                self.frame(id, frame);
            } else if len >= PLACE_MIN {
                conn.inbox.advance(4);
                let mut rest = SegmentMut::zeroed(len);
                let mut filled = rest.split_to(conn.inbox.len());
                conn.inbox.copy_to(&mut filled);
                conn.inbox = List::new();
                conn.large = Some(Large { filled, rest: Some(rest) });
            } else {
                return;
            }
        }
    }
}

impl Machine for Frames {
    fn next_action(&mut self, _now: Time) -> Option<Action> {
        let action = self.actions.pop_front();
        if let Some(Action::Close { conn: id }) = action
            && let Some(conn) = self.conns.get_mut(id)
        {
            conn.closing = true;
            if conn.outbox.is_empty() {
                self.conns.remove(id);
            }
        }
        action
    }

    fn listening(&mut self, _now: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        self.events.push_back(FrameEvent::Listening(listener, result));
    }

    fn accepted(
        &mut self,
        _now: Time,
        _listener: ListenerId,
        peer: SocketAddr,
        _local: SocketAddr,
    ) -> Option<ConnId> {
        let conn = self.conns.insert(Conn::default());
        self.events.push_back(FrameEvent::Accepted(conn, peer));
        Some(conn)
    }

    fn connected(&mut self, _now: Time, conn: ConnId, local: SocketAddr) {
        self.events.push_back(FrameEvent::Connected(conn, local));
    }

    fn disconnected(&mut self, _now: Time, conn: ConnId, cause: Disconnect) {
        self.conns.remove(conn).expect("a connection that the machine knows");
        self.events.push_back(FrameEvent::Disconnected(conn, cause));
    }

    fn half_closed(&mut self, _now: Time, conn: ConnId) -> bool {
        if self.keeps_half_closed {
            self.events.push_back(FrameEvent::HalfClosed(conn));
        }
        self.keeps_half_closed
    }

    fn landing(&mut self, id: ConnId) -> Landing {
        let conn = self.conns.get_mut(id).expect("a connection that the machine knows");
        if self.deaf {
            return Landing::default();
        }
        let place = conn.large.as_mut().map(|large| large.rest.take().expect("it was not out"));
        self.places_out += usize::from(place.is_some());
        Landing { place, ahead: 1 << 20, ..Landing::default() }
    }

    fn landed(&mut self, _now: Time, id: ConnId, mut place: SegmentMut, filled: usize) {
        self.places_out -= 1;
        let Some(conn) = self.conns.get_mut(id) else { return };
        let large = conn.large.as_mut().expect("a frame was being received");
        large.filled.try_join(place.split_to(filled)).expect("the place is the one given out");
        if !place.is_empty() {
            large.rest = Some(place);
        } else if let Some(large) = conn.large.take() {
            self.frame(id, List::from(large.filled));
        }
    }

    fn received(&mut self, _now: Time, id: ConnId, bytes: Segment) {
        let conn = self.conns.get_mut(id).expect("a connection that the machine knows");
        assert!(conn.large.is_none(), "bytes belong to the place first");
        conn.inbox.push(bytes);
        self.parse(id);
    }

    fn transmit(&mut self, _now: Time, id: ConnId, out: &mut List, limit: usize) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let end = out.len().saturating_add(limit);
        while out.len() < end
            && let Some(frame) = conn.outbox.pop_front()
        {
            out.push((frame.len() as u32).to_le_bytes().to_vec());
            out.append(frame);
        }
        if conn.closing && conn.outbox.is_empty() {
            self.conns.remove(id);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.alarm
    }

    fn timeout(&mut self, now: Time) {
        self.alarm = None;
        self.alarms.push(now);
    }

    fn woken(&mut self, _now: Time) {
        self.wakes += 1;
    }
}
