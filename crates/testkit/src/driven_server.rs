//! A server's machine and clients of it in memory: bytes are carried by hand, time passes when a test says so.

use crate::eventfds::{WatchedEvents, signal};
use crate::pipe::{Delivery, Pipe};
use onego_buf::List;
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine, Time};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes that the driver takes from the server at a time.
const SEND: usize = 1 << 20;

/// The address of what has none.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The time at which it all begins.
pub const START: Time = Time::from_nanos(1_700_000_000_000_000_000);

/// A server, and the clients that came to it. It does what a driver does, and clients are bytes in both directions.
pub struct DrivenServer<M> {
    /// The server.
    pub machine: M,
    /// The time.
    pub now: Time,
    /// Most bytes that are carried to the server at a time.
    pub cut: usize,
    /// The driver takes what is to be sent also to clients that do not read, as much as it may.
    pub takes: bool,
    /// The driver signals no eventfd: its process ends before it does.
    pub mute: bool,
    clients: Vec<DrivenClient>,
    events: WatchedEvents,
    attached: Option<Who>,
}

/// Names a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Who(usize);

/// The end of a client.
struct DrivenClient {
    conn: ConnId,
    /// Bytes on their way to the server.
    out: Pipe,
    /// Descriptors of files on their way, each with how many bytes are before those that it goes along with.
    files_out: VecDeque<(usize, Vec<OwnedFd>)>,
    /// Bytes that came, and descriptors of files.
    came: Vec<u8>,
    files_came: Vec<OwnedFd>,
    reads: bool,
    closed: bool,
    /// It ends its direction of the stream after what is on its way.
    ends: bool,
    /// Has the server asked to be offered bytes again?
    resumed: bool,
    /// Has the server said that there may be something to send?
    asked: bool,
    /// What the driver has taken, and the client has not.
    given: List,
}

impl<M: Machine> DrivenServer<M> {
    /// A server without clients, which has what it listens on.
    pub fn new(machine: M) -> Self {
        let (clients, events) = (Vec::new(), WatchedEvents::default());
        let (cut, takes, mute, attached) = (usize::MAX, false, false, None);
        let mut this = Self { machine, now: START, cut, takes, mute, clients, events, attached };
        this.turn();
        this
    }

    /// A client connects. `None`: the server lets it not in.
    pub fn accept(&mut self, listener: ListenerId, peer: SocketAddr, local: SocketAddr) -> Option<Who> {
        let conn = self.machine.accepted(self.now, listener, peer, local)?;
        Some(self.client_of(conn))
    }

    fn client_of(&mut self, conn: ConnId) -> Who {
        self.clients.push(DrivenClient::new(conn));
        Who(self.clients.len() - 1)
    }

    /// The other end of the last connection that the server was given by a descriptor.
    pub fn attached(&self) -> Option<Who> {
        self.attached
    }

    /// A client goes, if the server has not closed its connection.
    pub fn disconnect(&mut self, who: Who) {
        let client = &mut self.clients[who.0];
        if !std::mem::replace(&mut client.closed, true) {
            self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
        }
        self.turn();
    }

    /// A client ends its direction of the stream after what is on its way, and still takes what comes.
    pub fn half_close(&mut self, who: Who) {
        self.half_close_later(who);
        self.turn();
    }

    /// The same, without a [`turn`](Self::turn).
    pub fn half_close_later(&mut self, who: Who) {
        self.clients[who.0].ends = true;
    }

    /// Lets a client take what comes, or not.
    pub fn set_reading(&mut self, who: Who, reads: bool) {
        self.clients[who.0].reads = reads;
    }

    /// Is the connection of a client over?
    pub fn is_closed(&self, who: Who) -> bool {
        self.clients[who.0].closed
    }

    /// Bytes that the server has not received.
    pub fn unreceived(&self, who: Who) -> usize {
        self.clients[who.0].out.len()
    }

    /// Bytes that the driver holds for a client that does not read.
    pub fn given(&self, who: Who) -> usize {
        self.clients[who.0].given.len()
    }

    /// Sends bytes to the server. They are carried in the next [`turn`](Self::turn).
    pub fn send_bytes(&mut self, who: Who, bytes: &[u8]) {
        self.clients[who.0].out.extend(bytes);
    }

    /// Sends bytes, of which there is at least one, together with descriptors of files.
    pub fn send_with(&mut self, who: Who, bytes: &[u8], files: Vec<OwnedFd>) {
        let client = &mut self.clients[who.0];
        if !files.is_empty() {
            client.files_out.push_back((client.out.len(), files));
        }
        client.out.extend(bytes);
    }

    /// Descriptors of files that have come to a client, which takes them out.
    pub fn files_came(&mut self, who: Who) -> &mut Vec<OwnedFd> {
        &mut self.clients[who.0].files_came
    }

    /// What has come to a client, which takes it out.
    pub fn came(&mut self, who: Who) -> &mut Vec<u8> {
        &mut self.clients[who.0].came
    }

    /// Carries all that the server has for a client, whether it reads or not.
    pub fn take_all(&mut self, who: Who) {
        let client = &mut self.clients[who.0];
        self.machine.transmit(self.now, client.conn, &mut client.given, usize::MAX);
        client.take_given();
    }

    /// Would the server receive more from a client?
    pub fn wants_bytes(&mut self, who: Who) -> bool {
        let conn = self.clients[who.0].conn;
        let landing = self.machine.landing(conn);
        let wants = landing.place.is_some() || landing.ahead > 0;
        landing.into_places().for_each(|place| self.machine.landed(self.now, conn, place, 0));
        wants
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.turn();
    }

    /// Carries bytes until none moves any more.
    pub fn turn(&mut self) {
        while self.step() {}
    }

    /// One turn, as a driver makes it: time that has come, what there is to do, and one delivery for each client. `false`:
    /// nothing happened.
    pub fn step(&mut self) -> bool {
        let is_due = self.machine.deadline().is_some_and(|deadline| deadline <= self.now);
        if is_due {
            self.machine.timeout(self.now);
        }
        let moved = is_due | self.act() | self.events.poll(self.now, &mut self.machine);
        (0..self.clients.len()).fold(moved, |moved, n| moved | self.carry(n))
    }

    fn act(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.machine.next_action(self.now) {
            acted = true;
            let of = |conn| move |client: &&mut DrivenClient| client.conn == conn && !client.closed;
            match action {
                Action::Listen { listener, addr } => self.machine.listening(self.now, listener, Ok(addr)),
                Action::Adopt { listener, .. } => self.machine.listening(self.now, listener, Ok(NOWHERE)),
                Action::Attach { conn, .. } => {
                    self.attached = Some(self.client_of(conn));
                    self.machine.connected(self.now, conn, NOWHERE);
                }
                Action::WatchSignals { conn, eventfd } => {
                    self.events.watch(self.now, &mut self.machine, conn, eventfd);
                }
                Action::Signal { .. } if self.mute => {}
                Action::Signal { eventfd } => signal(&eventfd),
                Action::SendDescriptor { conn, message, descriptor } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.given.push(message);
                        client.files_came.push(descriptor);
                    }
                }
                Action::Close { conn } if self.events.close(conn) => {}
                Action::Transmit { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.asked = true;
                    }
                }
                Action::Resume { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.resumed = true;
                    }
                }
                Action::Close { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.closed = true;
                        self.machine.transmit(self.now, conn, &mut client.given, usize::MAX);
                        client.take_given();
                    }
                }
                Action::LowWater { .. } => {}
                Action::Connect { .. } | Action::Watch { .. } => panic!("a server opens no connections"),
            }
        }
        acted
    }

    /// Carries something between a client and the server.
    fn carry(&mut self, n: usize) -> bool {
        let client = &mut self.clients[n];
        if client.closed {
            return false;
        }
        let mut moved = false;
        let left = client.given.len();
        if (client.reads || self.takes) && client.asked && left < SEND / 4 {
            self.machine.transmit(self.now, client.conn, &mut client.given, SEND - left);
            // A driver need not ask again if it has got less than that, unless it is told to. But it asks once more when
            // all is sent.
            let came = client.given.len() > left;
            client.asked = client.given.len() >= SEND || (came && client.reads);
            // Even without bytes: to be asked for them may have made the server want something.
            moved = true;
        }
        if client.reads && !client.given.is_empty() {
            client.take_given();
            client.asked = true;
            moved = true;
        }
        if client.out.is_empty() && client.ends && client.resumed {
            return self.carry_end(Who(n)) || moved;
        }
        if client.out.is_empty() || !client.resumed {
            return moved;
        }
        let (now, conn, machine) = (self.now, client.conn, &mut self.machine);
        let landing = machine.landing(conn);
        let mut cut = self.cut;
        if landing.ahead > 0 || landing.place.is_some() {
            if let Some((_, files)) = client.files_out.pop_front_if(|(before, _)| *before == 0) {
                let taken = files.into_iter().take(landing.descriptors).collect();
                machine.descriptors(now, conn, taken);
            }
            // Bytes with descriptors are not received together with those before them.
            cut = client.files_out.front().map_or(cut, |(before, _)| cut.min(*before));
        }
        let delivered = client.out.deliver(landing, cut, |delivery| match delivery {
            Delivery::Landed(place, filled) => machine.landed(now, conn, place, filled),
            Delivery::Received(bytes) => machine.received(now, conn, bytes),
        });
        for (before, _) in &mut client.files_out {
            *before -= delivered.bytes();
        }
        // The driver stops reading until it is told to go on.
        client.resumed = delivered.bytes() > 0;
        moved | client.resumed
    }
}

impl<M: Machine> DrivenServer<M> {
    /// Tells the server that a client sends no more, if it would receive. `false`: it would not.
    fn carry_end(&mut self, who: Who) -> bool {
        if !self.wants_bytes(who) {
            return false;
        }
        let client = &mut self.clients[who.0];
        (client.ends, client.resumed) = (false, false);
        if !self.machine.half_closed(self.now, client.conn) {
            client.closed = true;
            self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
        }
        true
    }
}

impl DrivenClient {
    fn new(conn: ConnId) -> Self {
        Self {
            conn,
            out: Pipe::default(),
            files_out: VecDeque::new(),
            came: Vec::new(),
            files_came: Vec::new(),
            reads: true,
            closed: false,
            ends: false,
            resumed: true,
            asked: false,
            given: List::new(),
        }
    }

    fn take_given(&mut self) {
        self.came.extend(std::mem::take(&mut self.given).to_vec());
    }
}
