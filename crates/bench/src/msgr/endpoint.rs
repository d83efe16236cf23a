//! One end of the connections as a machine: the messenger, and a role that handles messages.

use onego_buf::{List, Segment, SegmentMut};
use onego_ceph::messages::Payload;
use onego_msgr::{Connection, Event, Message, NoPlacer};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

pub(super) trait Role {
    type State;

    fn listening(&mut self, _result: io::Result<SocketAddr>) {}

    fn accepted(
        &mut self,
        _now: Time,
        _peer: SocketAddr,
        _local: SocketAddr,
    ) -> Option<(Connection, Self::State)> {
        None
    }

    fn ready(&mut self) {}

    /// Handles a message. Fails with a description of what is wrong with it.
    fn message(&mut self, link: &mut Link<Self::State>, message: &Message) -> Result<(), String>;

    /// Handles the end of a group of messages received together.
    fn told_all(&mut self, _now: Time, _link: &mut Link<Self::State>) {}

    /// Handles the end of a connection; `why` is set unless it was closed on purpose.
    fn gone(&mut self, why: Option<String>);
}

pub(super) struct Link<S> {
    connection: Connection,
    pub(super) state: S,
    /// The driver knows that there is output.
    announced: bool,
}

impl<S> Link<S> {
    pub(super) fn send<P: Payload>(&mut self, tid: u64, payload: &P) {
        self.connection.send_payload(tid, payload);
    }
}

pub(super) struct Endpoint<R: Role> {
    pub(super) role: R,
    links: ConnTable<Link<R::State>>,
    actions: VecDeque<Action>,
}

impl<R: Role> Endpoint<R> {
    pub(super) fn new(role: R) -> Self {
        Self { role, links: ConnTable::default(), actions: VecDeque::new() }
    }

    pub(super) fn listen(&mut self, addr: SocketAddr) {
        self.actions.push_back(Action::Listen { listener: ListenerId(0), addr });
    }

    pub(super) fn connect(&mut self, addr: SocketAddr, connection: Connection, state: R::State) {
        let conn = self.links.insert(Link { connection, state, announced: false });
        self.actions.push_back(Action::Connect { conn, addr, local: LocalPort::Any });
    }

    pub(super) fn on_each(&mut self, mut what: impl FnMut(&mut R, &mut Link<R::State>)) {
        for (conn, link) in self.links.iter_mut() {
            what(&mut self.role, link);
            announce(link, conn, &mut self.actions);
        }
    }

    pub(super) fn close_all(&mut self) {
        let conns: Vec<ConnId> = self.links.iter().map(|(conn, _)| conn).collect();
        for conn in conns {
            self.links.remove(conn);
            self.actions.push_back(Action::Close { conn });
            self.role.gone(None);
        }
    }

    fn tell(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.links.get_mut(conn) else { return };
        while let Some(event) = link.connection.poll() {
            let wrong = match event {
                Event::Ready(_) => {
                    self.role.ready();
                    continue;
                }
                Event::Message(ref message) => match self.role.message(link, message) {
                    Ok(()) => continue,
                    Err(wrong) => wrong,
                },
                Event::Unplaced(..) => continue,
                Event::Fault(error) => error.to_string(),
            };
            self.links.remove(conn);
            self.actions.push_back(Action::Close { conn });
            return self.role.gone(Some(wrong));
        }
        self.role.told_all(now, link);
        announce(link, conn, &mut self.actions);
    }
}

/// Tells the driver, once, that a connection has output.
fn announce<S>(link: &mut Link<S>, conn: ConnId, actions: &mut VecDeque<Action>) {
    if !link.announced && link.connection.has_output() {
        link.announced = true;
        actions.push_back(Action::Transmit { conn });
    }
}

impl<R: Role> Machine for Endpoint<R> {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }

    fn listening(&mut self, _: Time, _: ListenerId, result: io::Result<SocketAddr>) {
        self.role.listening(result);
    }

    fn accepted(&mut self, now: Time, _: ListenerId, peer: SocketAddr, local: SocketAddr) -> Option<ConnId> {
        let (connection, state) = self.role.accepted(now, peer, local)?;
        let conn = self.links.insert(Link { connection, state, announced: false });
        self.tell(now, conn);
        Some(conn)
    }

    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr) {
        if let Some(link) = self.links.get_mut(conn) {
            link.connection.opened(now, local);
            announce(link, conn, &mut self.actions);
        }
    }

    fn disconnected(&mut self, _: Time, conn: ConnId, cause: Disconnect) {
        if self.links.remove(conn).is_some() {
            self.role.gone(match cause {
                Disconnect::Closed => None,
                Disconnect::Failed(error) => Some(error.to_string()),
            });
        }
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.links.get_mut(conn).map_or_else(Landing::default, |link| link.connection.landing())
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        if let Some(link) = self.links.get_mut(conn) {
            link.connection.landed(now, place, filled);
            self.tell(now, conn);
        }
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        if let Some(link) = self.links.get_mut(conn) {
            link.connection.received(now, bytes, &mut NoPlacer);
            self.tell(now, conn);
        }
    }

    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, limit: usize) {
        if let Some(link) = self.links.get_mut(conn) {
            link.connection.transmit(out, limit);
            link.announced = link.connection.has_output();
        }
    }

    fn deadline(&self) -> Option<Time> {
        // Both ends are this program, and their parent process enforces a time limit.
        None
    }

    fn timeout(&mut self, _: Time) {}
}
