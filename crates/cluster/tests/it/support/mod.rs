//! A cluster and its clients in memory: bytes are carried by hand, time passes when a test says so.

use onego_buf::{List, Pool};
use onego_ceph::messages::{
    CommandReply, MapUpdate, MonCommand, ObjectName, OsdOp, Payload, Subscribe, Subscription, kind,
};
use onego_ceph::ops::{Op, flag};
use onego_ceph::types::{EntityName, NOSNAP, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime, Uuid};
use onego_cluster::{ClusterMachine, NewPool, OsdSettings, Settings};
use onego_msgr::addr::EntityAddr;
use onego_msgr::auth::{Login, Principal, service};
use onego_msgr::{Config, Connection, Event, Message, NoPlacer, Peer, Target};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine, Time};
use serde_json::Value;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const MON: ListenerId = ListenerId(0);
pub(crate) const OSD: ListenerId = ListenerId(1);
/// Where there is one OSD.
pub(crate) const MGR: ListenerId = ListenerId(2);

/// A request on an object of pool 1, made by the newest map.
pub(crate) fn request(net: &Net, name: &str, ops: impl IntoIterator<Item = Op>) -> OsdOp {
    let map = net.machine.osdmap().unwrap();
    let pool = &map.pools[&1];
    let hash = pool.hash_object(name.as_bytes(), b"", b"");
    OsdOp {
        pg: SpgId::whole(pool.pg(PgId { pool: 1, seed: hash })),
        hash,
        epoch: map.epoch,
        flags: flag::READ | flag::WRITE | flag::ON_DISK,
        reqid: ReqId::default(),
        client_incarnation: 0,
        mtime: Utime::from(net.now),
        locator: ObjectLocator { pool: 1, ..ObjectLocator::default() },
        object: ObjectName::from(name),
        ops: ops.into_iter().map(|op| (op, 0)).collect(),
        snap: NOSNAP,
        snap_context: SnapContext::default(),
        attempt: 0,
        features: u64::MAX,
    }
}

/// A cluster, and the clients that came to it.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) machine: ClusterMachine,
    clients: Vec<Client>,
    last_tid: u64,
}

/// The end of a client.
struct Client {
    conn: ConnId,
    connection: Connection,
    /// Bytes on their way to the cluster.
    out: Pipe,
    inbox: VecDeque<Message>,
    /// Does it take what the cluster sends?
    reads: bool,
    /// Bytes that the driver has taken for a client that does not.
    taken: List,
    /// Did the cluster close the connection?
    closed: bool,
    /// What the handshake gave.
    peer: Option<Peer>,
    /// Is it to be told why the connection failed? Otherwise it must not fail.
    fault: Option<String>,
    may_fail: bool,
}

/// Names a client of a [`Net`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Who(usize);

pub(crate) fn settings() -> Settings {
    Settings {
        registrable: 0,
        fsid: Uuid([7; 16]),
        mon: "127.0.0.1:3300".parse().unwrap(),
        mgr: "v2:127.0.0.1:6900/0".parse().unwrap(),
        osds: vec![OsdSettings { uuid: Uuid([8; 16]), addrs: "v2:127.0.0.1:6800/1000".parse().unwrap() }],
        memory_limit: 64 << 20,
        null_writes: false,
        pools: vec![NewPool::for_images("rbd")],
        cephx: None,
        compression: None,
    }
}

impl Net {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let now = Time::from_nanos(1_800_000_000_000_000_000);
        let mut net = Self { now, machine: ClusterMachine::new(settings), clients: Vec::new(), last_tid: 0 };
        net.run();
        assert!(net.machine.addresses().is_some(), "the cluster is up");
        net
    }

    /// A client whose handshake is through.
    pub(crate) fn client(&mut self, listener: ListenerId) -> Who {
        let who = self.try_client(listener).expect("the connection is taken");
        self.run();
        assert!(self.clients[who.0].connection.is_ready(), "the handshake is through");
        who
    }

    /// A client that proves who it is; an error is why it was not let in.
    pub(crate) fn proved_client(
        &mut self,
        listener: ListenerId,
        principal: &mut Principal,
    ) -> Result<Who, String> {
        let login = match listener {
            MON => principal.login_to_monitor(),
            MGR => principal.login_to_service(self.now, service::MGR),
            _ => principal.login_to_service(self.now, service::OSD),
        };
        let number = principal.global_id();
        let who = self.connect(listener, login, number).expect("the connection is taken");
        self.clients[who.0].may_fail = true;
        self.run();
        let client = &mut self.clients[who.0];
        if let Some(fault) = client.fault.take() {
            return Err(fault);
        }
        let peer = client.peer.take().expect("the handshake is through");
        if listener == MON {
            principal.session_began(self.now, peer.global_id, peer.granted);
        }
        Ok(who)
    }

    /// A client that has opened a connection; none if it was refused.
    pub(crate) fn try_client(&mut self, listener: ListenerId) -> Option<Who> {
        let global_id = if listener == MON { 0 } else { 5000 + self.clients.len() as u64 };
        self.connect(listener, Login::unproved("admin", listener == MON, global_id), global_id)
    }

    fn connect(&mut self, listener: ListenerId, login: Login, global_id: u64) -> Option<Who> {
        let number = self.clients.len();
        let peer: SocketAddr = format!("127.0.0.1:{}", 40_000 + number).parse().unwrap();
        let addresses = self.machine.addresses().expect("the cluster is up");
        // The monitor's listener is the first; those of the OSDs follow, and the manager's.
        let osd = (listener.0 as usize).checked_sub(1);
        let (kind, addrs) = match osd.map(|osd| addresses.osds.get(osd)) {
            None => (EntityName::MON, addresses.mon),
            Some(Some(osd)) => (EntityName::OSD, osd.clone()),
            Some(None) => (EntityName::MGR, addresses.mgr),
        };
        let addr: EntityAddr = *addrs.msgr2().unwrap();
        let conn = self.machine.accepted(self.now, listener, peer, addr.sock.unwrap())?;
        let mut config = Config::client(77 + number as u32, Pool::new(0));
        config.limits.data = 256 << 20;
        config.entity =
            EntityName { kind: EntityName::CLIENT, num: if global_id == 0 { -1 } else { global_id as i64 } };
        let target = Target { kind, addr, login };
        let mut connection = Connection::connect(self.now, Arc::new(config), target);
        connection.opened(self.now, peer);
        self.clients.push(Client {
            conn,
            connection,
            out: Pipe::default(),
            inbox: VecDeque::new(),
            reads: true,
            taken: List::new(),
            closed: false,
            peer: None,
            fault: None,
            may_fail: false,
        });
        Some(Who(number))
    }

    /// A number that no request had before.
    pub(crate) fn tid(&mut self) -> u64 {
        self.last_tid += 1;
        self.last_tid
    }

    /// Stops or goes on to take what the cluster sends to a client.
    pub(crate) fn set_reads(&mut self, who: Who, reads: bool) {
        self.clients[who.0].reads = reads;
    }

    /// Bytes of replies that wait for clients, those included that the driver has taken.
    pub(crate) fn reply_bytes(&self) -> usize {
        let open = self.clients.iter().filter(|client| !client.closed);
        self.machine.reply_bytes() + open.map(|client| client.taken.len()).sum::<usize>()
    }

    pub(crate) fn is_closed(&self, who: Who) -> bool {
        self.clients[who.0].closed
    }

    /// Bytes that the client has sent and the cluster does not take.
    pub(crate) fn backlog(&self, who: Who) -> usize {
        self.clients[who.0].out.len()
    }

    pub(crate) fn send<P: Payload>(&mut self, who: Who, tid: u64, payload: &P) {
        self.clients[who.0].connection.send_payload(tid, payload);
    }

    pub(crate) fn send_message(&mut self, who: Who, message: Message) {
        self.clients[who.0].connection.send(message);
    }

    /// Takes the last bytes back of what a client is about to send.
    pub(crate) fn cut(&mut self, who: Who, len: usize) -> Vec<u8> {
        let client = &mut self.clients[who.0];
        let mut list = List::new();
        client.connection.transmit(&mut list, usize::MAX);
        client.out.extend(list.to_vec());
        client.out.take_back(len)
    }

    /// Sends bytes that need not be frames.
    pub(crate) fn send_raw(&mut self, who: Who, bytes: &[u8]) {
        self.clients[who.0].out.extend(bytes);
    }

    pub(crate) fn hang_up(&mut self, who: Who) {
        let client = &mut self.clients[who.0];
        client.closed = true;
        self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
    }

    /// The next message to a client of a kind; those before are dropped.
    pub(crate) fn receive<P: Payload>(&mut self, who: Who) -> Option<(u64, P)> {
        self.run();
        let inbox = &mut self.clients[who.0].inbox;
        while let Some(mut message) = inbox.pop_front() {
            if message.header.kind == P::KIND {
                return Some((message.header.tid, message.decode().unwrap()));
            }
        }
        None
    }

    /// The next message of a kind as it came; those before are dropped.
    pub(crate) fn receive_raw(&mut self, who: Who, kind: u16) -> Option<Message> {
        self.run();
        let inbox = &mut self.clients[who.0].inbox;
        while let Some(message) = inbox.pop_front() {
            if message.header.kind == kind {
                return Some(message);
            }
        }
        None
    }

    /// Kinds of the messages that wait for a client.
    pub(crate) fn waiting(&mut self, who: Who) -> Vec<u16> {
        self.run();
        self.clients[who.0].inbox.iter().map(|message| message.header.kind).collect()
    }

    /// Gives a command and returns result, status and output.
    pub(crate) fn command(&mut self, who: Who, command: &str) -> (i32, String, Vec<u8>) {
        self.command_with(who, command, "")
    }

    /// Gives a command with an input.
    pub(crate) fn command_with(&mut self, who: Who, command: &str, input: &str) -> (i32, String, Vec<u8>) {
        let input = List::from(input.as_bytes().to_vec());
        let command = MonCommand { fsid: Uuid([7; 16]), command: vec![command.into()], input };
        self.send(who, 1, &command);
        let (_, reply) = self.receive::<CommandReply>(who).expect("a command is answered");
        (reply.result, reply.status, reply.output.to_vec())
    }

    /// Gives a command that must succeed and returns its JSON.
    pub(crate) fn json(&mut self, who: Who, fields: &str) -> Value {
        let (result, status, output) = self.command(who, &format!(r#"{{{fields}, "format": "json"}}"#));
        assert_eq!(result, 0, "{status}");
        serde_json::from_slice(&output).expect("the output is JSON")
    }

    /// Gives a command that must succeed.
    pub(crate) fn done(&mut self, who: Who, fields: &str) {
        let (result, status, _) = self.command(who, &format!("{{{fields}}}"));
        assert_eq!(result, 0, "{status}");
    }

    /// Asks for the OSD map from an epoch on.
    pub(crate) fn subscribe(&mut self, who: Who, start: u64, once: bool) -> Option<MapUpdate> {
        let what = [("osdmap".to_owned(), Subscription { start, once })].into();
        self.send(who, 0, &Subscribe { what, hostname: "here".into() });
        self.receive::<MapUpdate>(who).map(|(_, update)| update)
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.run();
    }

    /// Carries bytes until nothing moves any more.
    pub(crate) fn run(&mut self) {
        loop {
            let mut moved = self.act();
            if self.machine.deadline().is_some_and(|deadline| deadline <= self.now) {
                self.machine.timeout(self.now);
            }
            for client in 0..self.clients.len() {
                moved |= self.carry_in(client);
                moved |= self.carry_out(client);
            }
            moved |= self.act();
            if !moved {
                return;
            }
        }
    }

    fn act(&mut self) -> bool {
        let mut moved = false;
        while let Some(action) = self.machine.next_action(self.now) {
            moved = true;
            match action {
                Action::Listen { listener, addr } => self.machine.listening(self.now, listener, Ok(addr)),
                Action::Close { conn } => {
                    let client = self.clients.iter_mut().find(|client| client.conn == conn);
                    client.expect("a connection that is known").closed = true;
                }
                // As a driver whose last send is not over.
                Action::Transmit { conn } => {
                    let client = self.clients.iter_mut().find(|client| client.conn == conn && !client.reads);
                    if let Some(client) = client.filter(|client| client.taken.is_empty() && !client.closed) {
                        self.machine.transmit(self.now, conn, &mut client.taken, 1);
                    }
                }
                // All others are asked anyway.
                Action::Resume { .. } | Action::LowWater { .. } => {}
                Action::Connect { .. }
                | Action::Watch { .. }
                | Action::Adopt { .. }
                | Action::Attach { .. }
                | Action::WatchSignals { .. }
                | Action::Signal { .. }
                | Action::SendDescriptor { .. } => panic!("a cluster opens no connections"),
            }
        }
        moved
    }

    /// Carries what a client sends, as far as the cluster takes it.
    fn carry_in(&mut self, client: usize) -> bool {
        let client = &mut self.clients[client];
        if client.closed {
            return false;
        }
        let mut list = List::new();
        client.connection.transmit(&mut list, usize::MAX);
        client.out.extend(list.to_vec());
        let before = client.out.len();
        let mut deliver = || {
            let landing = self.machine.landing(client.conn);
            client.out.deliver(landing, usize::MAX, |delivery| match delivery {
                Delivery::Landed(place, n) => self.machine.landed(self.now, client.conn, place, n),
                Delivery::Received(bytes) => self.machine.received(self.now, client.conn, bytes),
            })
        };
        while deliver().bytes() > 0 {}
        client.out.len() < before
    }

    /// Carries what the cluster sends to a client, if it takes it.
    fn carry_out(&mut self, client: usize) -> bool {
        let client = &mut self.clients[client];
        if client.closed || !client.reads {
            return false;
        }
        let mut list = std::mem::take(&mut client.taken);
        self.machine.transmit(self.now, client.conn, &mut list, 1 << 20);
        let moved = !list.is_empty();
        let mut incoming = Pipe::from(&list.to_vec()[..]);
        let mut deliver = || {
            incoming.deliver(client.connection.landing(), usize::MAX, |delivery| match delivery {
                Delivery::Landed(place, n) => client.connection.landed(self.now, place, n),
                Delivery::Received(bytes) => client.connection.received(self.now, bytes, &mut NoPlacer),
            })
        };
        while deliver().bytes() > 0 {}
        while let Some(event) = client.connection.poll() {
            match event {
                Event::Message(message) => client.inbox.push_back(message),
                Event::Fault(error) if client.may_fail => client.fault = Some(error.to_string()),
                Event::Fault(error) => panic!("the client finds fault: {error}"),
                Event::Ready(peer) => client.peer = Some(peer),
                Event::Unplaced(..) => {}
            }
        }
        moved
    }
}

/// The kinds of messages that tests look for.
pub(crate) const OSD_MAP: u16 = kind::OSD_MAP;
pub(crate) const OSD_OP_REPLY: u16 = kind::OSD_OP_REPLY;
