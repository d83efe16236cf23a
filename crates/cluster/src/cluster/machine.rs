//! The cluster as one state machine: listeners for each daemon, the connections to them, and the daemons behind.

use super::connections::{ClusterConnections, Service};
use super::daemons::{Addresses, Daemons};
use super::notes::Keeping;
use super::room::{Next, Work};
use crate::config::Settings;
use crate::journal::{Done, Job, Life};
use crate::mon::{NewPool, Usage};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_ceph::osdmap::{OsdMap, WEIGHT_IN};
use onego_ceph::types::Epoch;
use onego_metrics::OperationsSnapshot;
use onego_msgr::Event;
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_service::connections::{GiveUp, ServerConnection as _};
use onego_wire::{Action, ConnId, Disconnect, Landing, ListenerId, Machine, Time};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Where a daemon listens, for one version of the messenger's protocol.
#[derive(Debug)]
struct Listener {
    service: Service,
    /// The address that is asked for, until it is up.
    addr: EntityAddr,
    up: bool,
    /// The settings do not ask for this port: it is that of the life before.
    may_move: bool,
}

impl Listener {
    /// One that is still to be opened. A port that may be any is the one of `before`, where clients may still look for it.
    fn new(service: Service, addr: &EntityAddr, before: Option<&AddrVec>) -> Self {
        let mut listener = Self { service, addr: *addr, up: false, may_move: false };
        let before = before.and_then(|addrs| addrs.0.iter().find(|old| old.kind == addr.kind));
        let port = before.and_then(|old| old.sock).map(|sock| sock.port());
        if let (Some(sock), Some(port)) = (&mut listener.addr.sock, port)
            && sock.port() == 0
        {
            sock.set_port(port);
            listener.may_move = true;
        }
        listener
    }
}

/// The listeners that the settings ask for; [`ListenerId`]s are their places.
fn listeners(settings: &Settings, before: Option<&Life>) -> Vec<Listener> {
    let mon_before = before.map(|life| &life.mon);
    let mon = settings.mon.0.iter().map(|addr| Listener::new(Service::Mon, addr, mon_before));
    let osds = (0..).zip(&settings.osds).flat_map(|(id, osd)| {
        let before = before.and_then(|life| life.osds.get(id as usize));
        osd.addrs.0.iter().map(move |addr| Listener::new(Service::Osd(id), addr, before))
    });
    let mgr = settings.mgr.0.iter().map(|addr| Listener::new(Service::Mgr, addr, None));
    mon.chain(osds).chain(mgr).collect()
}

/// Bytes that are kept for payloads to come: the memory of what was overwritten or given away comes back here.
const IDLE_MEMORY: usize = 32 << 20;

/// Bytes of messages of one connection that are handled before others have their turn. What is left goes on with the next
/// send.
const TURN: usize = 16 << 20;

/// How far the cluster is.
enum Stage {
    /// The listeners come up, one after the other.
    Starting,
    Up(Box<Daemons>),
    /// A listener could not be opened.
    Failed(Option<io::Error>),
}

/// A cluster of one monitor and its OSDs as a state machine: no thread, no socket, no clock.
///
/// Drive it as [`Machine`] says. Once [`addresses`](Self::addresses) says where, clients may come.
pub struct ClusterMachine {
    settings: Settings,
    listeners: Vec<Listener>,
    stage: Stage,
    connections: ClusterConnections,
    pool: Pool,
    /// How its state is kept, until it is up.
    keeping: Option<Keeping>,
}

impl ClusterMachine {
    /// A cluster that is still to open its listeners. It keeps nothing.
    pub fn new(settings: Settings) -> Self {
        Self::with(settings, None)
    }

    /// A cluster that is still to open its listeners, and whose state is kept: see [`next_job`](Self::next_job). The
    /// settings must be those of the cluster that is kept already, if one is.
    pub fn kept(settings: Settings, keeping: Keeping) -> Self {
        Self::with(settings, Some(keeping))
    }

    fn with(settings: Settings, keeping: Option<Keeping>) -> Self {
        let pool = Pool::registrable(IDLE_MEMORY, settings.registrable);
        let mut connections = ClusterConnections::new(pool.clone());
        let before = keeping.as_ref().and_then(|keeping| keeping.restored.life());
        let listeners = listeners(&settings, before);
        for (id, addr) in (0..).zip(listeners.iter().map(|listener| listener.addr.sock)) {
            let Some(addr) = addr else { continue };
            connections.table.push_action(Action::Listen { listener: ListenerId(id), addr });
        }
        Self { settings, listeners, stage: Stage::Starting, connections, pool, keeping }
    }

    /// Where the daemons are reached, once they are up.
    pub fn addresses(&self) -> Option<Addresses> {
        match &self.stage {
            Stage::Up(daemons) => Some(daemons.addresses()),
            _ => None,
        }
    }

    /// Why the cluster cannot come up; told once.
    pub fn failure(&mut self) -> Option<io::Error> {
        match &mut self.stage {
            Stage::Failed(error) => error.take(),
            _ => None,
        }
    }

    /// Is there something to be done with the files in which the cluster is kept?
    pub fn has_job(&self) -> bool {
        matches!(&self.stage, Stage::Up(daemons) if daemons.has_job())
    }

    /// The next thing to be done with the files in which the cluster is kept. All have to be done in the order in which
    /// they come. If one fails, none may be done any more, and the cluster has to end: what it has not acknowledged by
    /// then, it never will.
    pub fn next_job(&mut self) -> Option<Job> {
        match &mut self.stage {
            Stage::Up(daemons) => daemons.next_job(),
            _ => None,
        }
    }

    /// A job is done: replies that depend on it may be sent.
    pub fn done(&mut self, now: Time, done: Done) {
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.done(now, done, &mut self.connections);
        }
    }

    /// The newest map of the OSDs.
    pub fn osdmap(&self) -> Option<&Arc<OsdMap>> {
        match &self.stage {
            Stage::Up(daemons) => Some(daemons.mon.osdmap()),
            _ => None,
        }
    }

    /// Bytes of memory that all objects take.
    pub(super) fn used(&self) -> u64 {
        match &self.stage {
            Stage::Up(daemons) => daemons.used(),
            _ => 0,
        }
    }

    /// Requests of clients, by the names of their pools.
    pub(super) fn operations(&self) -> BTreeMap<String, OperationsSnapshot> {
        match &self.stage {
            Stage::Up(daemons) => daemons.operations.by_pool(daemons.mon.osdmap()),
            _ => BTreeMap::new(),
        }
    }

    /// Bytes of replies that wait until the driver takes them.
    pub fn reply_bytes(&self) -> usize {
        self.connections.table.iter().map(|(_, connection)| connection.unsent()).sum()
    }

    /// Bytes of buffers that are kept for payloads to come.
    pub(super) fn idle_buffers(&self) -> u64 {
        self.pool.stats().idle_bytes
    }

    /// How full the cluster is.
    pub fn usage(&self) -> Usage {
        match &self.stage {
            Stage::Up(daemons) => daemons.usage(),
            _ => Usage::default(),
        }
    }

    /// Stops an OSD: its connections break, the map says that it is down, what it holds stays.
    pub fn stop_osd(&mut self, now: Time, osd: i32) {
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.stop_osd(now, osd, &mut self.connections);
        }
    }

    /// Starts an OSD again after [`stop_osd`](Self::stop_osd), as another life of it at the same address.
    pub fn start_osd(&mut self, now: Time, osd: i32) {
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.start_osd(now, osd, &mut self.connections);
        }
    }

    /// Removes all that a stopped OSD holds: when it is started, it has to get everything from the others.
    pub fn wipe_osd(&mut self, osd: i32) {
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.wipe_osd(osd);
        }
    }

    /// Says that OSDs are in, and get their share of the data, or out, and others do.
    pub fn mark_osd(&mut self, now: Time, osd: i32, taken_in: bool) -> Epoch {
        let weight = if taken_in { WEIGHT_IN } else { 0 };
        self.change_map(now, |daemons| daemons.mon.weigh_osds(now, [osd], weight))
    }

    /// Says that an OSD is down. If it runs, it comes up again, and has to catch up.
    pub fn mark_osd_down(&mut self, now: Time, osd: i32) -> Epoch {
        self.change_map(now, |daemons| daemons.mon.osds_down(now, [osd]))
    }

    /// Is every object where it belongs, in as many copies as it should have?
    pub fn is_clean(&self) -> bool {
        matches!(&self.stage, Stage::Up(daemons) if daemons.groups.all_clean())
    }

    /// Stops an OSD and starts it again.
    pub fn restart_osd(&mut self, now: Time, osd: i32) {
        self.stop_osd(now, osd);
        self.start_osd(now, osd);
    }

    /// Sets or clears flags of the OSD map (see [`onego_ceph::osdmap::flag`]).
    pub fn set_flags(&mut self, now: Time, flags: u32, on: bool) -> Epoch {
        self.change_map(now, |daemons| daemons.mon.set_flags(now, flags, on))
    }

    /// Makes a new epoch of the OSD map in which nothing changes.
    pub fn touch_map(&mut self, now: Time) -> Epoch {
        self.change_map(now, |daemons| daemons.mon.touch(now))
    }

    /// Changes the number of placement groups of a pool, so that clients send again what they have under way.
    pub fn set_pg_num(&mut self, now: Time, pool: i64, pg_num: u32) -> Epoch {
        self.change_map(now, |daemons| daemons.mon.set_pg_num(now, pool, pg_num))
    }

    /// Makes a pool, unless there is one of that name, and says its id.
    pub fn create_pool(&mut self, now: Time, pool: &NewPool) -> Option<i64> {
        if let Stage::Up(daemons) = &mut self.stage {
            let id = daemons.mon.make_pool(now, pool);
            daemons.map_changed(now, &mut self.connections);
            return id;
        }
        None
    }

    fn change_map(&mut self, now: Time, change: impl FnOnce(&mut Daemons) -> Epoch) -> Epoch {
        let Stage::Up(daemons) = &mut self.stage else { return 0 };
        let epoch = change(daemons);
        daemons.map_changed(now, &mut self.connections);
        epoch
    }

    /// Hands all that happened on a connection to the daemon that it goes to.
    fn handle_events(&mut self, now: Time, conn: ConnId) {
        self.handle_some(now, conn, usize::MAX);
    }

    /// The same, but lets replies be sent first once `most` events are handled.
    fn handle_some(&mut self, now: Time, conn: ConnId, most: usize) {
        let (mut handled, mut bytes) = (0, 0);
        while bytes < TURN
            && (handled < most || !self.connections.defers(conn))
            && let Some(next) = self.connections.next(conn)
        {
            handled += 1;
            let Stage::Up(daemons) = &mut self.stage else { continue };
            let said = match next {
                Next::Event(Event::Ready(peer)) => {
                    daemons.opened(conn, peer, &mut self.connections);
                    continue;
                }
                Next::Event(Event::Message(mut message)) => {
                    bytes += message.body_len();
                    daemons.message(now, conn, &mut message, None, &mut self.connections)
                }
                Next::Again(Work::Message(mut message), since) => {
                    daemons.message(now, conn, &mut message, Some(since), &mut self.connections)
                }
                Next::Again(Work::Request(request), since) => {
                    daemons.request_again(now, conn, request, since, &mut self.connections);
                    continue;
                }
                Next::Again(Work::Map, since) => {
                    daemons.send_map(now, conn, Some(since), &mut self.connections);
                    continue;
                }
                Next::Event(Event::Unplaced(..)) => continue,
                Next::Event(Event::Fault(error)) => {
                    tracing::info!(?conn, %error, "a connection failed");
                    self.hang_up(now, conn);
                    continue;
                }
            };
            if let Err(error) = said {
                tracing::warn!(?conn, %error, "a client broke the protocol");
                self.hang_up(now, conn);
            }
        }
        let heaviest = self.connections.count_backlog(now, conn);
        self.give_up(now, heaviest);
        self.connections.table.wake(conn);
        self.connections.table.announce(conn);
    }

    /// Closes a connection whose unfinished message takes memory that others need, if there is one.
    fn give_up(&mut self, now: Time, heaviest: Option<ConnId>) {
        if let Some(conn) = heaviest {
            tracing::info!(?conn, "unfinished messages take too much memory: a connection is given up");
            self.hang_up(now, conn);
        }
    }

    /// Makes room for a connection from that host. `false`: none gives way.
    fn make_room(&mut self, now: Time, host: IpAddr) -> bool {
        if !self.connections.table.is_full() {
            return true;
        }
        let Some(conn) = self.connections.table.pick(now, host, |_| true) else { return false };
        tracing::info!(?conn, "a connection that does nothing gives way to another");
        self.hang_up(now, conn);
        true
    }

    /// Sets how many connections there may be at a time, if that is fewer than there may be anyhow.
    pub fn limit_connections(&mut self, most: usize) {
        self.connections.table.limit_connections(most);
    }

    fn hang_up(&mut self, now: Time, conn: ConnId) {
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.closed(now, conn, &mut self.connections);
        }
        self.connections.close(now, conn);
    }

    /// All listeners are up, at these addresses: starts the daemons.
    fn start(&mut self, now: Time) {
        let of = |service| {
            let listeners = self.listeners.iter().filter(|listener| listener.service == service);
            AddrVec(listeners.map(|listener| listener.addr).collect())
        };
        self.settings.mon = of(Service::Mon);
        self.settings.mgr = of(Service::Mgr);
        for (id, osd) in (0..).zip(&mut self.settings.osds) {
            osd.addrs = of(Service::Osd(id));
        }
        let keeping = self.keeping.take();
        let was_there = keeping.as_ref().is_some_and(|keeping| keeping.restored.fsid().is_some());
        let mut daemons = Box::new(Daemons::new(now, &self.settings, &self.pool, keeping));
        if was_there {
            daemons.rejoin(now, &mut self.connections);
        }
        self.stage = Stage::Up(daemons);
    }
}

impl Machine for ClusterMachine {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.connections.next_action()
    }

    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        let Stage::Starting = self.stage else { return };
        let Some(Listener { addr, up, may_move, .. }) = self.listeners.get_mut(listener.0 as usize) else {
            return;
        };
        match (result, &mut addr.sock) {
            (Ok(sock), _) => (addr.sock, *up) = (Some(sock), true),
            (Err(error), Some(sock)) if std::mem::take(may_move) => {
                tracing::warn!(%sock, %error, "a daemon cannot listen where it did before, and gets another port");
                sock.set_port(0);
                self.connections.table.push_action(Action::Listen { listener, addr: *sock });
            }
            (Err(error), _) => {
                let wanted = addr.sock.map_or_else(|| addr.to_string(), |sock| sock.to_string());
                let error = io::Error::new(error.kind(), format!("cannot listen on {wanted}: {error}"));
                self.stage = Stage::Failed(Some(error));
                return;
            }
        }
        if self.listeners.iter().all(|listener| listener.up) {
            self.start(now);
        }
    }

    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId> {
        if matches!(self.stage, Stage::Up(_)) && !self.make_room(now, peer.ip()) {
            tracing::warn!(%peer, "a connection is refused: there are too many");
            return None;
        }
        let Stage::Up(daemons) = &mut self.stage else { return None };
        let service = self.listeners.get(listener.0 as usize)?.service;
        let connection = daemons.accept(now, service, peer, local)?;
        Some(self.connections.add(now, service, peer.ip(), connection))
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {
        // The daemons open no connections.
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        tracing::debug!(?conn, ?cause, "a client is gone");
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.closed(now, conn, &mut self.connections);
        }
        self.connections.end(now, conn);
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.connections.table.landing(conn)
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let heaviest = self.connections.landed(now, conn, place, filled);
        self.handle_events(now, conn);
        self.give_up(now, heaviest);
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let heaviest = self.connections.received(now, conn, bytes);
        let most = self.connections.first_half(conn);
        self.handle_some(now, conn, most);
        self.give_up(now, heaviest);
    }

    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        if self.connections.goes_on(conn) {
            self.handle_events(now, conn);
            self.connections.table.read_again(conn);
        }
        self.connections.transmit(now, conn, out, limit);
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.sent(now, conn, &mut self.connections);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let daemons = match &self.stage {
            Stage::Up(daemons) => daemons.deadline(),
            _ => None,
        };
        self.connections.table.deadline().into_iter().chain(daemons).min()
    }

    fn timeout(&mut self, now: Time) {
        for conn in self.connections.table.timeout(now) {
            self.handle_events(now, conn);
        }
        if let Some(review) = self.connections.table.review(now) {
            for (conn, why) in &review.give_up {
                tracing::info!(?conn, "a connection is closed: {why}");
                self.hang_up(now, *conn);
            }
            for conn in self.connections.stalled(now) {
                tracing::info!(?conn, "a connection is closed: {}", GiveUp::Stalled);
                self.hang_up(now, conn);
            }
            let stopped = self.connections.table.end_review(now, review);
            self.connections.resume(now, stopped);
        }
        if let Stage::Up(daemons) = &mut self.stage {
            daemons.timeout(now, &mut self.connections);
        }
    }
}
