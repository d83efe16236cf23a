//! A scripted cluster in memory, on virtual time: its monitors have maps and answer
//! commands; its OSDs serve requests, hold them back, or fall silent. It speaks the real protocol to a real
//! [`Client`] and moves its bytes.

mod nodes;

pub(crate) use nodes::{Mon, Osd};

use onego_buf::{List, Pool, Segment};
use onego_ceph::client::{Client, Completion, Config, Error, Event, OpReply, Request};
use onego_ceph::crush::{CrushMap, Layout};
use onego_ceph::messages::{MapUpdate, ObjectName};
use onego_ceph::monmap::{MonInfo, MonMap};
use onego_ceph::ops::Op;
use onego_ceph::osdmap::{Incremental, OsdMap, Pool as OsdPool, WEIGHT_IN, state};
use onego_ceph::types::{EntityName, Epoch, PgId, Uuid};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::encoding::Encode;
use onego_msgr::{Connection, NoPlacer, Visitor};
use onego_wire::{Action, ConnId, Disconnect, Landing, Machine, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const POOL: i64 = 1;
pub(crate) const FSID: Uuid = Uuid([7; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Mon(usize),
    Osd(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    Dead,
    Silent,
}

struct Wire {
    conn: ConnId,
    node: Node,
    server: Connection,
    to_client: VecDeque<u8>,
    /// Destination of the client's next bytes, requested in advance as by engines.
    landing: Option<Landing>,
    breaks_after: Option<usize>,
    stalls_after: Option<usize>,
}

pub(crate) struct Fake {
    pub(crate) now: Time,
    pub(crate) client: Client<u32>,
    pub(crate) map: OsdMap,
    pub(crate) changes: BTreeMap<Epoch, Vec<u8>>,
    pub(crate) whole: BTreeMap<Epoch, Vec<u8>>,
    pub(crate) mons: Vec<Mon>,
    pub(crate) osds: Vec<Osd>,
    pub(crate) store: nodes::Store,
    pub(crate) done: Vec<Completion<u32>>,
    pub(crate) events: Vec<Event>,
    /// Epoch since which each group has had its current primary.
    pub(crate) same_primary_since: BTreeMap<PgId, Epoch>,
    pub(crate) opened: BTreeMap<Node, usize>,
    pub(crate) peers: HashMap<ConnId, u64>,
    wires: Vec<Wire>,
    /// The next connection to this OSD breaks after this many bytes to the client.
    break_next: BTreeMap<Node, usize>,
    monmap: MonMap,
    next_ticket: u32,
}

pub(crate) fn mon_addr(mon: usize) -> EntityAddr {
    EntityAddr::msgr2(SocketAddr::new([10, 0, 0, mon as u8 + 1].into(), 3300), 0)
}

pub(crate) fn osd_addr(osd: usize, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(SocketAddr::new([10, 0, 1, osd as u8 + 1].into(), 6800), nonce)
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn write(object: &ObjectName, bytes: &[u8]) -> Request {
    Request::one(POOL, object.clone(), Op::Write { offset: 0, data: bytes.to_vec().into() })
}

pub(crate) fn append(object: &ObjectName, bytes: &[u8]) -> Request {
    Request::one(POOL, object.clone(), Op::Append { data: bytes.to_vec().into() })
}

pub(crate) fn read(object: &ObjectName, length: u64) -> Request {
    Request::one(POOL, object.clone(), Op::Read { offset: 0, length })
}

/// Pool with one copy per object, so that each OSD is primary of some groups.
pub(crate) fn pool(pg_num: u32) -> OsdPool {
    OsdPool { size: 1, min_size: 1, pg_num, pgp_num: pg_num, ..OsdPool::default() }
}

fn first_map(osds: usize) -> OsdMap {
    let ids: Vec<i32> = (0..osds as i32).collect();
    let mut map = OsdMap::default();
    (map.fsid, map.epoch) = (FSID, 1);
    map.set_max_osd(osds);
    map.crush = Arc::new(CrushMap::flat(&ids, Layout::HostPerDevice));
    for osd in 0..osds {
        map.osd_state[osd] = state::EXISTS | state::UP;
        map.osd_weight[osd] = WEIGHT_IN;
        map.client_addrs[osd] = AddrVec(vec![osd_addr(osd, 1)]);
    }
    map.pools.insert(POOL, pool(8));
    map.pool_names.insert(POOL, "rbd".into());
    map.pool_max = POOL;
    map
}

impl Fake {
    pub(crate) fn new(mons: usize, osds: usize) -> Self {
        Self::with(mons, osds, |_| {})
    }

    /// Returns a cluster with a client, whose configuration `adjust` changes.
    pub(crate) fn with(mons: usize, osds: usize, adjust: impl FnOnce(&mut Config)) -> Self {
        let addrs = (0..mons).map(|mon| AddrVec(vec![mon_addr(mon)]));
        let mut config = Config::new(addrs, "admin", Pool::new(1 << 24));
        adjust(&mut config);
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let map = first_map(osds);
        let mut monmap = MonMap { fsid: FSID, epoch: 1, ..MonMap::default() };
        for mon in 0..mons {
            let public_addrs = AddrVec(vec![mon_addr(mon)]);
            monmap.add(MonInfo { name: format!("m{mon}"), public_addrs, ..MonInfo::default() });
        }
        Self {
            now,
            client: Client::new(now, &config),
            whole: BTreeMap::from([(1, map.to_bytes())]),
            map,
            changes: BTreeMap::new(),
            mons: (0..mons).map(|_| Mon::new()).collect(),
            osds: (0..osds).map(|_| Osd::new()).collect(),
            store: nodes::Store::default(),
            done: Vec::new(),
            events: Vec::new(),
            same_primary_since: BTreeMap::new(),
            opened: BTreeMap::new(),
            peers: HashMap::new(),
            wires: Vec::new(),
            break_next: BTreeMap::new(),
            monmap,
            next_ticket: 0,
        }
    }

    pub(crate) fn ready(mons: usize, osds: usize) -> Self {
        let mut fake = Self::new(mons, osds);
        fake.run_until_idle();
        assert!(fake.client.osdmap().is_some(), "the client has no map");
        fake
    }

    fn health(&mut self, node: Node) -> &mut Health {
        match node {
            Node::Mon(mon) => &mut self.mons[mon].health,
            Node::Osd(osd) => &mut self.osds[osd].health,
        }
    }

    /// Changes the behavior of a node. Breaks its open connections unless it is up.
    pub(crate) fn set_health(&mut self, node: Node, health: Health) {
        *self.health(node) = health;
        if health != Health::Up {
            self.break_connections(node);
        }
    }

    pub(crate) fn break_connections(&mut self, node: Node) {
        let broken: Vec<ConnId> =
            self.wires.iter().filter(|wire| wire.node == node).map(|wire| wire.conn).collect();
        for conn in broken {
            self.break_connection(conn);
        }
    }

    /// Breaks the connections to a node after `bytes` more bytes, or the next one if there is none.
    pub(crate) fn break_after(&mut self, node: Node, bytes: usize) {
        match self.wires.iter_mut().find(|wire| wire.node == node) {
            Some(wire) => wire.breaks_after = Some(bytes),
            None => drop(self.break_next.insert(node, bytes)),
        }
    }

    /// Holds back the output of a node after `bytes` more bytes on its connection.
    pub(crate) fn stall_after(&mut self, node: Node, bytes: usize) {
        self.wires
            .iter_mut()
            .filter(|wire| wire.node == node)
            .for_each(|wire| wire.stalls_after = Some(bytes));
    }

    pub(crate) fn unstall(&mut self) {
        self.wires.iter_mut().for_each(|wire| wire.stalls_after = None);
    }

    fn break_connection(&mut self, conn: ConnId) {
        if self.drop_wire(conn) {
            self.client.disconnected(self.now, conn, Disconnect::Closed);
        }
    }

    /// Removes a connection, and returns its buffer to the client.
    fn drop_wire(&mut self, conn: ConnId) -> bool {
        let Some(at) = self.wires.iter().position(|wire| wire.conn == conn) else { return false };
        let wire = self.wires.swap_remove(at);
        if let Some(place) = wire.landing.and_then(|landing| landing.place) {
            self.client.landed(self.now, conn, place, 0);
        }
        true
    }

    pub(crate) fn run_until_idle(&mut self) {
        for _ in 0..10_000 {
            let acted = self.act();
            let moved = self.deliver();
            if !acted && !moved {
                self.collect();
                return;
            }
        }
        panic!("the client and the cluster do not become idle");
    }

    fn collect(&mut self) {
        while let Some(completion) = self.client.poll_completion() {
            self.done.push(completion);
        }
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
    }

    fn act(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.client.next_action(self.now) {
            acted = true;
            match action {
                Action::Connect { conn, addr, .. } => self.connect(conn, addr),
                Action::Transmit { conn } => self.transmit(conn),
                Action::Close { conn } => drop(self.drop_wire(conn)),
                _ => {
                    panic!("unexpected {action:?}")
                }
            }
        }
        acted
    }

    fn connect(&mut self, conn: ConnId, addr: SocketAddr) {
        let mons = (0..self.mons.len()).map(Node::Mon);
        let osds = (0..self.osds.len()).map(Node::Osd);
        let node = mons
            .chain(osds)
            .find(|node| match node {
                Node::Mon(mon) => mon_addr(*mon).sock == Some(addr),
                Node::Osd(osd) => osd_addr(*osd, 0).sock == Some(addr),
            })
            .expect("the client only connects to nodes of the cluster");
        *self.opened.entry(node).or_default() += 1;
        match *self.health(node) {
            Health::Silent => return,
            Health::Dead => {
                let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
                return self.client.disconnected(self.now, conn, Disconnect::Failed(refused));
            }
            Health::Up => {}
        }
        let (name, own) = match node {
            Node::Mon(mon) => (EntityName::mon(mon as i64), mon_addr(mon)),
            Node::Osd(osd) => (EntityName::osd(osd as i32), self.map.client_addrs[osd].0[0]),
        };
        let mut config = onego_msgr::Config::server(name, AddrVec(vec![own]), Pool::new(1 << 20));
        config.limits.data = onego_ceph::ops::MAX_PAYLOAD;
        let local = "10.0.2.1:1234".parse().unwrap();
        let connections: usize = self.opened.values().sum();
        let visitor = Visitor { addr: local, fresh_global_id: 4242 + connections as u64 };
        let server = Connection::accept(self.now, Arc::new(config), visitor, addr);
        let breaks_after = self.break_next.remove(&node);
        self.wires.push(Wire {
            conn,
            node,
            server,
            to_client: VecDeque::new(),
            landing: None,
            breaks_after,
            stalls_after: None,
        });
        self.client.connected(self.now, conn, local);
    }

    fn transmit(&mut self, conn: ConnId) {
        loop {
            let mut out = List::new();
            self.client.transmit(self.now, conn, &mut out, 1 << 16);
            let Some(wire) = self.wires.iter_mut().find(|wire| wire.conn == conn && !out.is_empty()) else {
                return;
            };
            wire.server.received(self.now, out.to_segment(), &mut NoPlacer);
            self.serve(conn);
        }
    }

    fn serve(&mut self, conn: ConnId) {
        while let Some(wire) = self.wires.iter_mut().find(|wire| wire.conn == conn) {
            match wire.server.poll() {
                Some(onego_msgr::Event::Message(message)) => {
                    let node = wire.node;
                    self.message(node, conn, message);
                }
                Some(onego_msgr::Event::Ready(peer)) => drop(self.peers.insert(conn, peer.global_id)),
                Some(other) => panic!("unexpected {other:?}"),
                None => return,
            }
        }
    }

    pub(crate) fn server(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.wires.iter_mut().find(|wire| wire.conn == conn).map(|wire| &mut wire.server)
    }

    pub(crate) fn connections(&self, node: Node) -> Vec<ConnId> {
        self.wires.iter().filter(|wire| wire.node == node).map(|wire| wire.conn).collect()
    }

    fn deliver(&mut self) -> bool {
        let mut moved = false;
        for conn in self.wires.iter().map(|wire| wire.conn).collect::<Vec<_>>() {
            let Some(wire) = self.wires.iter_mut().find(|wire| wire.conn == conn) else { continue };
            let mut out = List::new();
            while wire.server.has_output() {
                wire.server.transmit(&mut out, 1 << 20);
            }
            wire.to_client.extend(out.to_vec());
            if let Some(left) = &mut wire.breaks_after {
                wire.to_client.truncate(*left);
                *left -= wire.to_client.len();
            }
            while self.land(conn) {
                moved = true;
            }
            let done = |wire: &&Wire| wire.conn == conn && wire.breaks_after == Some(0);
            if self.wires.iter().any(|wire| done(&wire)) {
                moved = true;
                self.break_connection(conn);
            }
        }
        moved
    }

    fn land(&mut self, conn: ConnId) -> bool {
        let Some(wire) = self.wires.iter_mut().find(|wire| wire.conn == conn) else { return false };
        let landing = wire.landing.get_or_insert_with(|| self.client.landing(conn));
        let most = wire.stalls_after.unwrap_or(usize::MAX).min(wire.to_client.len());
        if most == 0 {
            return false;
        }
        let (place, ahead) = (landing.place.take(), landing.ahead);
        wire.landing = None;
        let mut bytes: Vec<u8> = wire.to_client.drain(..most).collect();
        wire.stalls_after = wire.stalls_after.map(|left| left - most);
        if let Some(mut place) = place {
            let n = place.len().min(bytes.len());
            place[..n].copy_from_slice(&bytes[..n]);
            bytes.drain(..n);
            self.client.landed(self.now, conn, place, n);
        }
        let rest = bytes.split_off(ahead.min(bytes.len()));
        if !bytes.is_empty() {
            self.client.received(self.now, conn, Segment::from(bytes));
        }
        if let Some(wire) = self.wires.iter_mut().find(|wire| wire.conn == conn) {
            wire.stalls_after = wire.stalls_after.map(|left| left + rest.len());
            rest.into_iter().rev().for_each(|byte| wire.to_client.push_front(byte));
        }
        true
    }

    pub(crate) fn advance(&mut self, wait: Duration) {
        let until = self.now + wait;
        self.run_until_idle();
        while let Some(deadline) = self.client.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.client.timeout(self.now);
            self.run_until_idle();
        }
        self.now = until;
        self.run_until_idle();
    }

    /// Publishes the next epoch of the map, changed by `change`, to its subscribers.
    pub(crate) fn publish<R>(&mut self, change: impl FnOnce(&mut Incremental) -> R) {
        self.publish_quietly(change);
        self.tell_subscribers();
    }

    pub(crate) fn publish_quietly<R>(&mut self, change: impl FnOnce(&mut Incremental) -> R) {
        let mut next = Incremental { fsid: FSID, epoch: self.map.epoch + 1, ..Incremental::default() };
        next.new_ratios = onego_ceph::osdmap::Ratios { nearfull: -1.0, full: -1.0, backfillfull: -1.0 };
        change(&mut next);
        let bytes = next.to_bytes();
        let before = self.map.clone();
        self.map.apply(&next).unwrap();
        for seed in 0..self.map.pools.get(&POOL).map_or(0, |pool| pool.pg_num) {
            let pg = PgId { pool: POOL, seed };
            if before.place(pg).acting_primary != self.map.place(pg).acting_primary {
                self.same_primary_since.insert(pg, next.epoch);
            }
        }
        self.changes.insert(next.epoch, bytes);
        self.whole.insert(next.epoch, self.map.to_bytes());
    }

    pub(crate) fn update_from(&self, start: Epoch) -> MapUpdate {
        let newest = self.map.epoch;
        let mut update = MapUpdate { fsid: FSID, oldest: 1, newest, ..MapUpdate::default() };
        if start > 1 && (start..=newest).all(|epoch| self.changes.contains_key(&epoch)) {
            update.incrementals = self.changes.range(start..).map(|(e, bytes)| (*e, bytes.clone())).collect();
        } else {
            update.full.insert(newest, self.whole[&newest].clone());
        }
        update
    }

    pub(crate) fn submit(&mut self, request: Request) -> u32 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.client.submit(self.now, request, ticket).map_err(|rejected| rejected.error).unwrap();
        ticket
    }

    pub(crate) fn ticket(&mut self) -> u32 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn take_done(&mut self, ticket: u32) -> Option<Completion<u32>> {
        self.collect();
        let at = self.done.iter().position(|completion| completion.ticket == ticket)?;
        Some(self.done.remove(at))
    }

    pub(crate) fn expect_ok(&mut self, ticket: u32) -> OpReply {
        self.take_done(ticket).expect("the request has not ended").into_reply().unwrap()
    }

    pub(crate) fn expect_error(&mut self, ticket: u32) -> Error {
        self.take_done(ticket).expect("the request has not ended").into_reply().unwrap_err()
    }

    pub(crate) fn group(&self, object: &ObjectName) -> PgId {
        let pool = &self.map.pools[&POOL];
        pool.pg(pool.object_pg(POOL, object, b"", b"", -1))
    }

    pub(crate) fn want_map(&mut self) {
        self.client.want_newer_map(self.now);
        self.run_until_idle();
    }

    pub(crate) fn object_on(&self, osd: i32) -> ObjectName {
        self.objects_on(osd).next().unwrap()
    }

    pub(crate) fn objects_on(&self, osd: i32) -> impl Iterator<Item = ObjectName> + '_ {
        (0..1000).map(|n| ObjectName::from(format!("object{n}").as_str())).filter(move |name| {
            let raw = self.map.pools[&POOL].object_pg(POOL, name, b"", b"", -1);
            self.map.place(raw).acting_primary == osd
        })
    }
}
