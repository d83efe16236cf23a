//! State shared by the parts of a client: connections, completions and events.

use super::error::Error;
use super::request::Outcome;
use super::request::{Completion, Event};
use crate::messages::Payload;
use crate::types::EntityName;
use onego_buf::{List, SegmentMut};
use onego_msgr::addr::{AddrKind, EntityAddr};
use onego_msgr::auth::{self, Principal};
use onego_msgr::{Config, Connection, Peer, Target};
use onego_wire::{Action, ConnId, ConnTable, Landing, LocalPort, Time, first_share};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Maximum number of queued events: a caller that never polls must not grow the client.
const MAX_EVENTS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A monitor, by its index in the list of known ones.
    Monitor(usize),
    Osd(i32),
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) role: Role,
    pub(crate) connection: Connection,
    announced: bool,
    /// The driver holds a buffer for a receive.
    landing: bool,
    /// Messages without an answer, on the assumption that each has one. Where it does not hold, a peer wrongly counts as busy
    /// or idle, which is harmless.
    unanswered: usize,
    /// The connection has ended; it is kept until the driver returns its buffer.
    over: bool,
}

impl Link {
    pub(crate) fn heard(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        let connection = &mut self.connection;
        let share = first_share(connection.queued_bytes(), connection.queued_messages(), self.unanswered);
        connection.transmit(out, share.map_or(limit, |share| limit.min(share)));
        self.announced = false;
    }
}

/// The connections of a client, with queues for its driver and its caller.
#[derive(Debug)]
pub(crate) struct Hub<T> {
    links: ConnTable<Link>,
    actions: VecDeque<Action>,
    /// Lower bound of the next [`Connection::timeout`], so that it need not be recomputed whenever
    /// a connection receives something.
    wakeup: Option<Time>,
    to_monitors: Arc<Config>,
    to_osds: Arc<Config>,
    /// The identity of this client, with its tickets. The global id from the first monitor session identifies it to all peers:
    /// OSDs recognize resent requests by it. It changes only when no monitor accepts the old ticket any more.
    principal: Principal,
    local: Option<IpAddr>,
    completions: VecDeque<Completion<T>>,
    events: VecDeque<Event>,
}

impl<T> Hub<T> {
    pub(crate) fn new(to_monitors: Config, to_osds: Config, principal: Principal) -> Self {
        Self {
            links: ConnTable::default(),
            actions: VecDeque::new(),
            wakeup: None,
            to_monitors: Arc::new(to_monitors),
            to_osds: Arc::new(to_osds),
            principal,
            local: None,
            completions: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Opens a connection. `None`: the address is unspecified.
    pub(crate) fn open(&mut self, now: Time, role: Role, addr: EntityAddr) -> Option<ConnId> {
        let sock = addr.sock?;
        let (kind, login, config) = match role {
            Role::Monitor(_) => (EntityName::MON, self.principal.login_to_monitor(), &self.to_monitors),
            Role::Osd(_) => {
                let login = self.principal.login_to_service(now, auth::service::OSD);
                (EntityName::OSD, login, &self.to_osds)
            }
        };
        let target = Target { kind, addr, login };
        let connection = Connection::connect(now, Arc::clone(config), target);
        let deadline = connection.deadline();
        let conn = self.links.insert(Link {
            role,
            connection,
            announced: false,
            landing: false,
            unanswered: 0,
            over: false,
        });
        self.wake_by(deadline);
        self.actions.push_back(Action::Connect { conn, addr: sock, local: LocalPort::Any });
        Some(conn)
    }

    /// Handles the start of a monitor session: stores the tickets and, the first time, the global id. Returns the client's
    /// previous name if it changes.
    pub(crate) fn identify(&mut self, now: Time, monitor: Peer) -> Option<EntityName> {
        let first = self.principal.global_id() == 0;
        let (before, after) = (self.to_monitors.entity, EntityName::client(monitor.global_id));
        self.principal.session_began(now, monitor.global_id, monitor.granted);
        if first {
            for config in [&mut self.to_monitors, &mut self.to_osds] {
                Arc::make_mut(config).entity.num = after.num;
            }
        }
        (first && before.num > 0 && before != after).then_some(before)
    }

    pub(crate) fn global_id(&self) -> u64 {
        self.principal.global_id()
    }

    pub(crate) fn principal(&mut self) -> &mut Principal {
        &mut self.principal
    }

    pub(crate) fn renewal_due(&self) -> Option<Time> {
        self.principal.deadline()
    }

    /// Handles a failed connection: a refused ticket is replaced, by a new login if necessary.
    pub(crate) fn failed(&mut self, now: Time, role: Role, error: &Error) {
        let Error::Connection(onego_msgr::Error::Auth(error)) = error else { return };
        match (role, error) {
            (Role::Osd(_), auth::Error::TicketRefused { .. }) => {
                self.principal.doubt(now, auth::service::OSD);
            }
            (Role::Monitor(_), auth::Error::Refused { .. }) => self.principal.refused(),
            _ => {}
        }
    }

    pub(crate) fn to_osds(&self) -> Vec<ConnId> {
        let to_osds = |link: &Link| matches!(link.role, Role::Osd(_)) && !link.over;
        self.links.iter().filter(|(_, link)| to_osds(link)).map(|(conn, _)| conn).collect()
    }

    /// Returns the connection unless it has ended.
    #[inline]
    pub(crate) fn link(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.links.get_mut(conn).filter(|link| !link.over)
    }

    /// Queues a message with this payload; a no-op if the connection has ended.
    #[inline]
    pub(crate) fn send<P: Payload>(&mut self, conn: ConnId, tid: u64, payload: &P) {
        if let Some(link) = self.links.get_mut(conn) {
            link.connection.send_payload(tid, payload);
            link.unanswered += 1;
            self.announce(conn);
        }
    }

    /// Notifies the driver, once, of a connection's pending output.
    #[inline]
    pub(crate) fn announce(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(conn) else { return };
        if !link.announced && !link.over && link.connection.has_output() {
            link.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    pub(crate) fn opened(&mut self, now: Time, conn: ConnId, local: SocketAddr) {
        self.local = Some(local.ip());
        if let Some(link) = self.link(conn) {
            link.connection.opened(now, local);
        }
    }

    /// Returns this client's address as peers know it: with its nonce, and without a port.
    pub(crate) fn addr(&self) -> Option<EntityAddr> {
        let sock = Some(SocketAddr::new(self.local?, 0));
        Some(EntityAddr { kind: AddrKind::Any, nonce: self.to_monitors.nonce, sock })
    }

    /// Lowers the bound of the next timeout to a connection's deadline.
    #[inline]
    pub(crate) fn wake_by(&mut self, deadline: Option<Time>) {
        if let Some(deadline) = deadline {
            self.wakeup = Some(self.wakeup.map_or(deadline, |wakeup| wakeup.min(deadline)));
        }
    }

    /// Closes a connection. Its last events can be polled from the result.
    pub(crate) fn close(&mut self, conn: ConnId) -> Option<Ended> {
        if self.links.get(conn)?.over {
            return None;
        }
        self.actions.push_back(Action::Close { conn });
        self.end(conn)
    }

    pub(crate) fn end(&mut self, conn: ConnId) -> Option<Ended> {
        let link = self.links.get_mut(conn)?;
        let known_over = std::mem::replace(&mut link.over, true);
        link.connection.closed();
        let role = link.role;
        let landing = link.landing;
        let connection = if landing { None } else { self.links.remove(conn).map(|link| link.connection) };
        (!known_over).then_some(Ended { role, connection })
    }

    pub(crate) fn landing(&mut self, conn: ConnId) -> Landing {
        let Some(link) = self.link(conn) else { return Landing::default() };
        let landing = link.connection.landing();
        link.landing = landing.place.is_some();
        landing
    }

    /// Handles the return of a buffer. Returns the connection for its last poll if it has ended.
    pub(crate) fn landed(
        &mut self,
        now: Time,
        conn: ConnId,
        place: SegmentMut,
        filled: usize,
    ) -> Option<Connection> {
        let link = self.links.get_mut(conn)?;
        link.landing = false;
        link.connection.landed(now, place, filled);
        if link.over { self.links.remove(conn).map(|link| link.connection) } else { None }
    }

    pub(crate) fn transmit(&mut self, conn: ConnId, out: &mut List, limit: usize) {
        if let Some(link) = self.link(conn) {
            link.transmit(out, limit);
            self.announce(conn);
        }
    }

    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns a lower bound of the connections' deadlines.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.wakeup
    }

    /// Runs the timers of the connections that are due, and returns these.
    pub(crate) fn timeout(&mut self, now: Time) -> Vec<ConnId> {
        if self.wakeup.is_none_or(|wakeup| now < wakeup) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (conn, link) in self.links.iter_mut().filter(|(_, link)| !link.over) {
            if link.connection.deadline().is_some_and(|deadline| deadline <= now) {
                link.connection.timeout(now);
                due.push(conn);
            }
        }
        self.wakeup = self
            .links
            .iter()
            .filter(|(_, link)| !link.over)
            .filter_map(|(_, link)| link.connection.deadline())
            .min();
        due.iter().for_each(|conn| self.announce(*conn));
        due
    }

    pub(crate) fn connections(&self) -> Vec<ConnId> {
        self.links.iter().filter(|(_, link)| !link.over).map(|(conn, _)| conn).collect()
    }

    #[inline]
    pub(crate) fn complete(
        &mut self,
        ticket: T,
        outcome: Result<Outcome, Error>,
        buffer: Option<SegmentMut>,
    ) {
        self.completions.push_back(Completion { ticket, outcome, buffer });
    }

    #[inline]
    pub(crate) fn next_completion(&mut self) -> Option<Completion<T>> {
        self.completions.pop_front()
    }

    /// Queues an event. Drops it if the queue is full.
    pub(crate) fn tell(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            tracing::warn!(?event, "dropped an event: the queue is full");
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.completions.is_empty() || !self.events.is_empty()
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) role: Role,
    /// For its last poll; absent while the driver holds a buffer.
    pub(crate) connection: Option<Connection>,
}
