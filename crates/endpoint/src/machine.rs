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
struct Visit {
    from: IpAddr,
    /// The client connected to a loopback address.
    to_loopback: bool,
    state: VisitState,
    ends: Time,
}

#[derive(Debug)]
enum VisitState {
    Request(Vec<u8>),
    Reply(List),
    /// Closed, but not yet reported to the driver: the connection ID is still in use.
    Over,
}

impl Visit {
    fn is_over(&self) -> bool {
        matches!(self.state, VisitState::Over)
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
    visits: ConnTable<Visit>,
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
            visits: ConnTable::default(),
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
        let Some(visit) = self.visits.get_mut(conn).filter(|visit| !visit.is_over()) else { return };
        visit.state = VisitState::Over;
        self.actions.push_back(Action::Close { conn });
    }

    fn open(&self) -> impl Iterator<Item = (ConnId, &Visit)> {
        self.visits.iter().filter(|(_, visit)| !visit.is_over())
    }

    fn look(&mut self, now: Time, conn: ConnId) {
        let Some(Visit { to_loopback, state, ends, .. }) = self.visits.get_mut(conn) else { return };
        let VisitState::Request(head) = state else { return };
        let bytes = match PageRequest::read(head) {
            Ok(None) => return,
            // A page in a local browser could connect here under its own host name (DNS rebinding) and read the reply.
            Ok(Some(request)) if *to_loopback && !request.host_is_local => {
                PageReply::refusal(Status::Misdirected).into_bytes(false)
            }
            Ok(Some(request)) => self.pages.reply(&request).into_bytes(request.head_only),
            Err(status) => PageReply::refusal(status).into_bytes(false),
        };
        (*state, *ends) = (VisitState::Reply(List::from(bytes)), now + REPLY_TIME);
        self.actions.push_back(Action::Transmit { conn });
    }
}

impl Machine for EndpointMachine {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        let action = self.actions.pop_front()?;
        if let Action::Close { conn } = action
            && let Some(visit) = self.visits.remove(conn)
        {
            self.closed.push_back((now, visit.from));
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
        let held = self.visits.iter().map(|(_, visit)| visit.from);
        let held = held.chain(self.closed.iter().map(|(_, from)| *from));
        let (own, all) = held.fold((0, 0), |(own, all), of| (own + usize::from(of == from), all + 1));
        if own >= DESCRIPTORS_MAX.saturating_sub(all) {
            return None;
        }
        if self.open().count() >= CONNECTIONS_MAX {
            let of = |from: IpAddr| self.open().filter(|(_, visit)| visit.from == from).count();
            let least = self.open().min_by_key(|(_, visit)| (Reverse(of(visit.from)), visit.ends));
            let gives_way = least.map(|(conn, _)| conn);
            gives_way.into_iter().for_each(|conn| self.close(conn));
        }
        let (to_loopback, state) = (local.ip().to_canonical().is_loopback(), VisitState::Request(Vec::new()));
        Some(self.visits.insert(Visit { from, to_loopback, state, ends: now + REQUEST_TIME }))
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {
        // The endpoint opens no connections.
    }

    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.visits.remove(conn);
        self.actions.retain(|action| !matches!(action, Action::Close { conn: closed } if *closed == conn));
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        let room = match self.visits.get(conn) {
            Some(Visit { state: VisitState::Request(head), .. }) => HEAD_MAX - head.len(),
            // Pipelined requests are not read: each connection serves only one.
            _ => 0,
        };
        Landing::shared(room)
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {
        // The endpoint lends out no buffers.
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(Visit { state: VisitState::Request(head), .. }) = self.visits.get_mut(conn) else { return };
        let room = HEAD_MAX - head.len();
        head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // Only parse after a line feed, which ends every head: bytes that arrive one by one are not parsed again each
        // time.
        if bytes.contains(&b'\n') || head.len() == HEAD_MAX {
            self.look(now, conn);
        }
    }

    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(Visit { state: VisitState::Reply(rest), .. }) = self.visits.get_mut(conn) else { return };
        out.append(rest.split_to(limit.min(rest.len())));
        if rest.is_empty() {
            self.close(conn);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.open().map(|(_, visit)| visit.ends).min()
    }

    fn timeout(&mut self, now: Time) {
        let late = self.open().filter(|(_, visit)| visit.ends <= now).map(|(conn, _)| conn);
        let late: Vec<ConnId> = late.collect();
        late.into_iter().for_each(|conn| self.close(conn));
    }
}
