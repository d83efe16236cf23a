//! The endpoint as a state machine: one request per connection, and limits for everything.

use crate::pages::Pages;
use crate::reply::{PageReply, Status};
use crate::request::{HEAD_MAX, PageRequest};
use onego_buf::{List, Segment, SegmentMut};
use onego_service::admission::address;
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum concurrent connections. For another one, the oldest of the address with the most connections is closed: a
/// request that is sent at once is answered within milliseconds.
const CONNECTIONS_MAX: usize = 16;

/// Maximum concurrent connections, including those closed within [`LINGER`], whose descriptors the driver may still
/// hold. One address gets at most as many as remain for others.
const DESCRIPTORS_MAX: usize = 64;

/// Maximum time that a driver takes to close a connection.
const LINGER: Duration = Duration::from_secs(2);

/// Deadline for receiving a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Deadline for sending the reply, after the request.
const REPLY_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct HttpConn {
    from: IpAddr,
    /// The client connected to a loopback address.
    to_loopback: bool,
    state: HttpState,
    ends: Time,
}

#[derive(Debug)]
enum HttpState {
    Request(Vec<u8>),
    Reply(List),
    /// Closed, but not yet reported to the driver: the connection ID is still in use.
    Over,
}

impl HttpConn {
    fn is_over(&self) -> bool {
        matches!(self.state, HttpState::Over)
    }
}

/// The endpoint as a sans-I/O state machine. Drive it as [`Machine`] describes. [`Machine::received`] takes as long as
/// generating a page does.
#[derive(Debug)]
pub struct EndpointMachine {
    pages: Pages,
    /// `None` until it listens.
    addr: Option<SocketAddr>,
    failure: Option<io::Error>,
    actions: VecDeque<Action>,
    conns: ConnTable<HttpConn>,
    /// Addresses of the connections closed within [`LINGER`], with the times.
    closed: VecDeque<(Time, IpAddr)>,
}

impl EndpointMachine {
    /// Creates an endpoint that serves `pages` at `addr`; port 0 chooses any free port.
    pub fn new(addr: SocketAddr, pages: Pages) -> Self {
        let listen = Action::Listen { listener: ListenerId(0), addr };
        Self {
            pages,
            addr: None,
            failure: None,
            actions: VecDeque::from([listen]),
            conns: ConnTable::default(),
            closed: VecDeque::new(),
        }
    }

    /// Returns the listening address, once it listens.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// Takes the error that prevented it from listening.
    pub fn failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    fn close(&mut self, conn: ConnId) {
        let Some(http) = self.conns.get_mut(conn).filter(|http| !http.is_over()) else { return };
        http.state = HttpState::Over;
        self.actions.push_back(Action::Close { conn });
    }

    fn open(&self) -> impl Iterator<Item = (ConnId, &HttpConn)> {
        self.conns.iter().filter(|(_, http)| !http.is_over())
    }

    fn process(&mut self, now: Time, conn: ConnId) {
        let Some(HttpConn { to_loopback, state, ends, .. }) = self.conns.get_mut(conn) else { return };
        let HttpState::Request(head) = state else { return };
        let bytes = match PageRequest::read(head) {
            Ok(None) => return,
            // A page in a local browser could connect here under its own host name (DNS rebinding) and read the reply.
            Ok(Some(request)) if *to_loopback && !request.host_is_local => {
                PageReply::refusal(Status::Misdirected).into_bytes(false)
            }
            Ok(Some(request)) => self.pages.reply(&request).into_bytes(request.head_only),
            Err(status) => PageReply::refusal(status).into_bytes(false),
        };
        (*state, *ends) = (HttpState::Reply(List::from(bytes)), now + REPLY_TIME);
        self.actions.push_back(Action::Transmit { conn });
    }
}

impl Machine for EndpointMachine {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        let action = self.actions.pop_front()?;
        if let Action::Close { conn } = action
            && let Some(http) = self.conns.remove(conn)
        {
            self.closed.push_back((now, http.from));
        }
        Some(action)
    }

    fn listening(&mut self, _: Time, _: ListenerId, result: io::Result<SocketAddr>) {
        match result {
            Ok(addr) => self.addr = Some(addr),
            Err(error) => self.failure = Some(error),
        }
    }

    fn accepted(&mut self, now: Time, _: ListenerId, peer: SocketAddr, local: SocketAddr) -> Option<ConnId> {
        while self.closed.front().is_some_and(|(closed, _)| *closed + LINGER <= now) {
            self.closed.pop_front();
        }
        let from = address(peer.ip());
        let held = self.conns.iter().map(|(_, http)| http.from);
        let held = held.chain(self.closed.iter().map(|(_, from)| *from));
        let (own, all) = held.fold((0, 0), |(own, all), of| (own + usize::from(of == from), all + 1));
        if own >= DESCRIPTORS_MAX.saturating_sub(all) {
            return None;
        }
        if self.open().count() >= CONNECTIONS_MAX {
            let of = |from: IpAddr| self.open().filter(|(_, http)| http.from == from).count();
            let least = self.open().min_by_key(|(_, http)| (Reverse(of(http.from)), http.ends));
            let gives_way = least.map(|(conn, _)| conn);
            gives_way.into_iter().for_each(|conn| self.close(conn));
        }
        let (to_loopback, state) = (local.ip().to_canonical().is_loopback(), HttpState::Request(Vec::new()));
        Some(self.conns.insert(HttpConn { from, to_loopback, state, ends: now + REQUEST_TIME }))
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {
        // The endpoint opens no connections.
    }

    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.conns.remove(conn);
        self.actions.retain(|action| !matches!(action, Action::Close { conn: closed } if *closed == conn));
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        let room = match self.conns.get(conn) {
            Some(HttpConn { state: HttpState::Request(head), .. }) => HEAD_MAX - head.len(),
            // Pipelined requests are not read: each connection serves only one.
            _ => 0,
        };
        Landing::shared(room)
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {
        // The endpoint lends out no buffers.
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(HttpConn { state: HttpState::Request(head), .. }) = self.conns.get_mut(conn) else { return };
        let room = HEAD_MAX - head.len();
        head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // Only parse after a line feed, which ends every head: bytes that arrive one by one are not parsed again each
        // time.
        if bytes.contains(&b'\n') || head.len() == HEAD_MAX {
            self.process(now, conn);
        }
    }

    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(HttpConn { state: HttpState::Reply(rest), .. }) = self.conns.get_mut(conn) else { return };
        out.append(rest.split_to(limit.min(rest.len())));
        if rest.is_empty() {
            self.close(conn);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.open().map(|(_, http)| http.ends).min()
    }

    fn timeout(&mut self, now: Time) {
        let late = self.open().filter(|(_, http)| http.ends <= now).map(|(conn, _)| conn);
        let late: Vec<ConnId> = late.collect();
        late.into_iter().for_each(|conn| self.close(conn));
    }
}
