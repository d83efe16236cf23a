//! The monitor and the OSDs, and what passes between them and their clients.

use super::connections::{ClusterConnections, Service};
use super::figures::PoolOperations;
use super::notes::{Durability, Keeping, Notes};
use super::osd_daemon::OsdDaemon;
use super::recovery::Recovery;
use super::room::Work;
use super::store_bench::StoreBench;
use super::trimming::Trimming;
use crate::auth::{MANAGERS, MONITORS, OSDS, authority, gate, mon_cap, osd_rights, user_of};
use crate::config::{MAX_OSDS, OsdSettings, Settings};
use crate::groups::{Groups, follow, pair};
use crate::journal::{Entry, Held, Life};
use crate::mon::{FirstOsd, Identity, MGR_GLOBAL_ID, Mon, Order, OsdUsage, Outgoing, Role, Usage};
use crate::osd::{self, Osd, PoolUsage, SessionId};
use onego_buf::Pool;
use onego_ceph::messages::kind;
use onego_ceph::osdmap::flag;
use onego_ceph::types::EntityName;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::Gate;
use onego_msgr::{Config, Connection, Limits, Message, Peer, Visitor};
use onego_wire::{ConnId, Decoded, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bounds on what clients may send. Whatever a client can send, it gets an answer: one whose connection was closed would send
/// it again for ever. A front has names and numbers, of which none need be sensible.
const MON_LIMITS: Limits = Limits {
    control: 64 << 10,
    front: 16 << 20,
    middle: 64 << 10,
    data: crate::mon::MAX_INPUT,
    unpacked: u32::MAX,
    discard: u32::MAX,
};

/// More than an OSD takes in one request, so that larger ones can be answered with an error.
const OSD_LIMITS: Limits = Limits {
    control: 64 << 10,
    front: 16 << 20,
    middle: 64 << 10,
    data: onego_ceph::ops::MAX_PAYLOAD,
    // No other client is served meanwhile. Our clients compress nothing longer.
    unpacked: 16 << 20,
    discard: u32::MAX,
};

/// Where the daemons of a cluster are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The monitor.
    pub mon: AddrVec,
    /// The manager.
    pub mgr: AddrVec,
    /// The OSDs, the first being number 0.
    pub osds: Vec<AddrVec>,
}

/// The monitor and the OSDs.
pub(super) struct Daemons {
    pub(super) mon: Mon,
    mon_config: Arc<Config>,
    /// The manager is the monitor under another name: it answers the commands that show placement groups and OSDs.
    mgr_config: Arc<Config>,
    /// By their numbers.
    pub(super) osds: Vec<OsdDaemon>,
    pub(super) groups: Groups,
    pub(super) recovery: Recovery,
    pub(super) trimming: Trimming,
    /// Benchmarks of OSDs that are under way, one an OSD at most.
    pub(super) benches: Vec<StoreBench>,
    /// When they go on.
    pub(super) benches_due: Option<Time>,
    /// The connections of the OSDs' clients, and the number of the newest.
    pub(super) sessions: FxHashMap<SessionId, ConnId>,
    last_session: u64,
    /// What is kept over the end of the process; none: nothing is.
    pub(super) notes: Option<Notes>,
    pub(super) operations: PoolOperations,
    /// When to look at how full OSDs and pools are.
    pub(super) fullness_due: Option<Time>,
    /// The log has no reserve of space on its disk.
    pub(super) is_disk_full: bool,
}

/// Does the answer to a message to the monitor say how full the cluster is, or how it is? To find out takes a while.
fn wants_usage(message: u16) -> bool {
    matches!(
        message,
        kind::MON_COMMAND
            | kind::COMMAND
            | kind::MGR_COMMAND
            | kind::STATFS
            | kind::GET_POOL_STATS
            | kind::PING
    )
}

fn config(name: EntityName, addrs: AddrVec, limits: Limits, gate: Gate, pool: &Pool) -> Config {
    Config { limits, gate, ..Config::server(name, addrs, pool.clone()) }
}

/// A new cluster. `kept`: what changes is noted.
fn begin(now: Time, identity: Identity, settings: &Settings, kept: bool) -> (Mon, Vec<Osd>, Groups) {
    let mut mon = Mon::new(now, identity);
    for pool in &settings.pools {
        mon.make_pool(now, pool);
    }
    let new_osd = |_: &OsdSettings| {
        let mut osd = Osd::new(osd::Config {
            memory_limit: settings.memory_limit,
            null_writes: settings.null_writes,
            transactions: kept || settings.osds.len() > 1,
        });
        osd.map_changed(mon.osdmap());
        osd
    };
    let osds = settings.osds.iter().map(new_osd).collect();
    let mut groups = Groups::default();
    groups.follow(mon.osdmap());
    (mon, osds, groups)
}

impl Daemons {
    /// The daemons of a cluster whose listeners are all up.
    pub(super) fn new(now: Time, settings: &Settings, pool: &Pool, mut keeping: Option<Keeping>) -> Self {
        let kept = keeping.as_mut().and_then(|keeping| keeping.restored.kept.take());
        let life = Life {
            number: kept.as_ref().map_or(0, |kept| kept.life.number) + 1,
            mon: settings.mon.clone(),
            osds: settings.osds.iter().map(|osd| osd.addrs.clone()).collect(),
            memory_limit: settings.memory_limit,
        };
        let first: Vec<FirstOsd> = settings.osds.iter().map(|osd| osd.in_life(life.number)).collect();
        let service_secret = kept.as_ref().map(|kept| &kept.settings.service_secret);
        let authority = authority(settings.cephx.as_ref(), service_secret);
        let identity = Identity {
            fsid: settings.fsid,
            mon_addrs: settings.mon.clone(),
            mgr_addrs: settings.mgr.clone(),
            osds: first.clone(),
            authority: authority.clone(),
            needs_keys: settings.cephx.as_ref().is_some_and(|cephx| cephx.is_required),
        };
        let is_new = kept.is_none();
        let (mon, osds, groups) = match kept {
            Some(mut kept) => {
                kept.osds.iter_mut().for_each(|osd| osd.set_memory_limit(settings.memory_limit));
                let mon = Mon::restore(now, identity, kept.maps, kept.settings, kept.log, life.number);
                (mon, kept.osds, kept.groups)
            }
            None => begin(now, identity, settings, keeping.is_some()),
        };
        let notes = keeping.map(|keeping| Notes::begin(&keeping, is_new, life, &mon));
        let osd_gate = gate(settings.cephx.as_ref(), authority.as_ref(), OSDS);
        let osds = (0..).zip(osds).zip(first).map(|((id, osd), first)| {
            let config = config(EntityName::osd(id), first.addrs, OSD_LIMITS, osd_gate.clone(), pool);
            let config = Arc::new(Config { compression: settings.compression.clone(), ..config });
            OsdDaemon { osd, config, running: true, fuller_above: u64::MAX }
        });
        let mon_gate = gate(settings.cephx.as_ref(), authority.as_ref(), MONITORS);
        let mgr_gate = gate(settings.cephx.as_ref(), authority.as_ref(), MANAGERS);
        let mgr_name = EntityName { kind: EntityName::MGR, num: MGR_GLOBAL_ID as i64 };
        let mut daemons = Self {
            osds: osds.collect(),
            groups,
            recovery: Recovery::default(),
            trimming: Trimming::default(),
            benches: Vec::new(),
            benches_due: None,
            mon,
            sessions: FxHashMap::default(),
            last_session: 0,
            notes,
            mon_config: Arc::new(config(
                EntityName::mon(0),
                settings.mon.clone(),
                MON_LIMITS,
                mon_gate,
                pool,
            )),
            mgr_config: Arc::new(config(mgr_name, settings.mgr.clone(), MON_LIMITS, mgr_gate, pool)),
            operations: PoolOperations::default(),
            fullness_due: None,
            is_disk_full: false,
        };
        daemons.set_marks(now);
        daemons
    }

    pub(super) fn addresses(&self) -> Addresses {
        let osds = self.osds.iter().map(|daemon| daemon.config.addrs.clone());
        Addresses {
            mon: self.mon_config.addrs.clone(),
            mgr: self.mgr_config.addrs.clone(),
            osds: osds.collect(),
        }
    }

    /// Bytes of memory that the objects of all OSDs take.
    pub(super) fn used(&self) -> u64 {
        self.osds.iter().map(|daemon| daemon.osd.used()).sum()
    }

    pub(super) fn usage(&self) -> Usage {
        // An OSD keeps the map, too.
        let map = self.mon.maps().newest_len();
        let osds = (0..).zip(&self.osds).map(|(id, daemon)| {
            let osd::Usage { used, limit, .. } = daemon.osd.usage();
            (id, OsdUsage { total: limit, used: used + map })
        });
        let osds: BTreeMap<i32, OsdUsage> = osds.collect();
        let pools = self.mon.osdmap().pools.keys();
        let mut pools: BTreeMap<i64, PoolUsage> = pools.map(|id| (*id, self.requests(*id))).collect();
        let mut groups = BTreeMap::new();
        for (pg, report) in self.groups.reports(|id| &self.osds[id as usize].osd) {
            let pool = pools.entry(pg.pool).or_default();
            pool.objects += report.contents.objects;
            pool.clones += report.contents.clones;
            pool.bytes += report.contents.bytes;
            groups.insert(pg, report);
        }
        Usage {
            total: osds.values().map(|osd| osd.total).sum(),
            used: osds.values().map(|osd| osd.used).sum(),
            pools,
            osds,
            groups,
        }
    }

    /// What was done with a pool, by all OSDs.
    fn requests(&self, pool: i64) -> PoolUsage {
        let usages = self.osds.iter().map(|daemon| daemon.osd.pool_usage(pool));
        usages.fold(PoolUsage::default(), |sum, one| PoolUsage {
            reads: sum.reads + one.reads,
            read_bytes: sum.read_bytes + one.read_bytes,
            writes: sum.writes + one.writes,
            written_bytes: sum.written_bytes + one.written_bytes,
            ..sum
        })
    }

    /// The end of a connection that has come in; none if the daemon takes none.
    pub(super) fn accept(
        &mut self,
        now: Time,
        service: Service,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<Connection> {
        let (config, fresh_global_id) = match service {
            Service::Mon => (&self.mon_config, self.mon.global_id()),
            Service::Mgr => (&self.mgr_config, 0),
            Service::Osd(osd) if self.osds[osd as usize].running && self.mon.osdmap().is_up(osd) => {
                (&self.osds[osd as usize].config, 0)
            }
            Service::Osd(_) => return None,
        };
        let visitor = Visitor { addr: peer, fresh_global_id };
        Some(Connection::accept(now, Arc::clone(config), visitor, local))
    }

    /// A client has identified itself.
    pub(super) fn opened(&mut self, conn: ConnId, peer: Peer, connections: &mut ClusterConnections) {
        tracing::debug!(?conn, name = %peer.name, addrs = %peer.addrs, "a client is here");
        let Some(client) = connections.get(conn) else { return };
        match client.service {
            // Capabilities towards managers are written like those towards monitors.
            Service::Mon | Service::Mgr => {
                let role = if client.service == Service::Mgr { Role::Manager } else { Role::Monitor };
                let cap = mon_cap(&peer, client.from);
                self.mon.opened(conn, peer, cap, role);
            }
            Service::Osd(osd) => {
                self.last_session += 1;
                let session = SessionId(self.last_session);
                // A client has one address; the messenger sees to it that it has one at all.
                let addr = peer.addrs.0.first().copied().unwrap_or_default();
                let rights = osd_rights(&peer, client.from);
                self.osds[osd as usize].osd.session_opened(session, peer.name, user_of(&peer), addr, rights);
                self.sessions.insert(session, conn);
                client.session = Some(session);
            }
        }
    }

    /// A client's connection is gone.
    pub(super) fn closed(&mut self, now: Time, conn: ConnId, connections: &mut ClusterConnections) {
        let Some(client) = connections.get(conn) else { return };
        match (client.service, client.session.take()) {
            (Service::Mon | Service::Mgr, _) => self.mon.closed(conn),
            (Service::Osd(osd), Some(session)) => {
                self.osds[osd as usize].osd.session_closed(now, session);
                self.sessions.remove(&session);
            }
            (Service::Osd(_), None) => {}
        }
    }

    /// A client says something. An error is the client's, and an end to its connection. `since`: the message waits for room
    /// for its reply since then.
    pub(super) fn message(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &mut Message,
        since: Option<Time>,
        connections: &mut ClusterConnections,
    ) -> Decoded<()> {
        let Some(client) = connections.get(conn) else { return Ok(()) };
        if let Some(place) = message.placed.take() {
            message.data = place.into();
        }
        match client.service {
            Service::Mon | Service::Mgr => {
                let bound = self.mon.reply_bound(message.header.kind);
                if !connections.may_reply(conn, bound, since.is_some()) {
                    let nothing = Message::new(0, 0, 0, Vec::new());
                    let work = Work::Message(Box::new(std::mem::replace(message, nothing)));
                    connections.park(now, conn, work, bound, since.unwrap_or(now));
                    return Ok(());
                }
                let is_command = matches!(message.header.kind, kind::MON_COMMAND | kind::COMMAND);
                let usage = if wants_usage(message.header.kind) { self.usage() } else { Usage::default() };
                let epoch = self.mon.osdmap().epoch;
                self.mon.message(now, conn, message, &usage)?;
                for order in self.mon.take_orders() {
                    match order {
                        Order::Stop(osd) => self.stop_osd(now, osd, connections),
                        Order::Start(osd) => self.start_osd(now, osd, connections),
                    }
                }
                if self.mon.osdmap().epoch != epoch {
                    self.map_changed(now, connections);
                }
                if is_command {
                    self.note_settings();
                }
                self.send_mon(now, connections);
                Ok(())
            }
            Service::Osd(osd) => self.osd_message(now, osd, conn, message, connections),
        }
    }

    /// The map has changed: the OSDs go on by the new one, and it is sent to the clients that subscribe to it.
    pub(super) fn map_changed(&mut self, now: Time, connections: &mut ClusterConnections) {
        /// Maps that one change may lead to. Each OSD may come up once, and after each map groups may have to be served
        /// elsewhere; that settles, since a map that only says where groups are served moves none of them again.
        const MAX_FOLLOWING: usize = 2 * (MAX_OSDS as usize + 1);
        // One map may ask for the next: an OSD comes up by itself, a group has to be served elsewhere. Each of these
        // happens once for what happened before.
        for following in 0.. {
            if following > MAX_FOLLOWING {
                tracing::error!(
                    following,
                    "maps follow each other without an end; what is left waits for the next one"
                );
                debug_assert!(false, "maps follow each other without an end");
                break;
            }
            let map = Arc::clone(self.mon.osdmap());
            self.note_maps();
            let changes = follow(&map, &mut self.groups, &mut self.osds);
            self.recovery.add(now, changes.recoveries);
            for &(pg, before, primary) in &changes.handovers {
                let pair = pair(&mut self.osds, before, primary);
                if let (Some(pool), Some((before, primary))) = (map.pools.get(&pg.pool), pair) {
                    primary.osd.adopt_watches(now, &mut before.osd, pg, pool);
                }
            }
            connections.release_backoffs(now, &changes.moved, map.epoch);
            let more = !changes.temporary.is_empty();
            if more {
                self.mon.serve_elsewhere(now, changes.temporary);
            }
            if !more && !self.boot(now, connections) {
                break;
            }
        }
        self.trimming.follow(now, self.mon.osdmap());
        if self.osds.len() > 1 {
            self.recovery.find_strays(now, &self.groups, &self.osds);
        }
        self.set_marks(now);
        self.send_notifications(now, connections);
        self.send_mon(now, connections);
    }

    /// Starts the next life of an OSD that runs and that the map says is down, if there is one.
    fn boot(&mut self, now: Time, connections: &mut ClusterConnections) -> bool {
        let map = self.mon.osdmap();
        if map.has_flag(flag::NOUP) {
            return false;
        }
        let down = |(id, daemon): &(i32, &OsdDaemon)| daemon.running && !map.is_up(*id);
        let Some((id, _)) = (0..).zip(&self.osds).find(down) else { return false };
        self.hang_up_all(now, id, connections);
        let daemon = &mut self.osds[id as usize];
        let mut config = Config::clone(&daemon.config);
        for addr in &mut config.addrs.0 {
            addr.nonce = addr.nonce.wrapping_add(1);
        }
        self.mon.osds_up(now, &[(id, config.addrs.clone())]);
        daemon.config = Arc::new(config);
        true
    }

    fn hang_up_all(&mut self, now: Time, osd: i32, connections: &mut ClusterConnections) {
        for conn in connections.of(Service::Osd(osd)) {
            self.closed(now, conn, connections);
            connections.close(now, conn);
        }
    }

    /// Sends the messages of the monitor. All of them depend on everything that was decided so far.
    fn send_mon(&mut self, now: Time, connections: &mut ClusterConnections) {
        self.note_log();
        while let Some((conn, outgoing)) = self.mon.poll() {
            let Outgoing::Message(message) = outgoing else {
                self.send_map(now, conn, None, connections);
                continue;
            };
            // The log is not kept for clients that do not read.
            let is_log = message.header.kind == kind::LOG;
            if is_log && connections.is_behind(conn) {
                continue;
            }
            let everything = Durability::Everything;
            if let Some(message) = self.or_hold(now, everything, conn, message, Held::Mon, connections) {
                connections.send(now, conn, message);
            }
        }
    }

    /// Sends a subscriber what is new of the OSD map, once it has taken what waits and there is room. `since`: it waits for
    /// room since then.
    pub(super) fn send_map(
        &mut self,
        now: Time,
        conn: ConnId,
        since: Option<Time>,
        connections: &mut ClusterConnections,
    ) {
        let Some(next) = self.mon.map_wish(conn) else { return };
        let Some(bound) = self.mon.maps().update_len(next) else { return };
        if connections.has_much_to_send(conn) || connections.is_parked(conn) {
            return self.mon.defer_map(conn);
        }
        if !connections.may_reply(conn, bound, since.is_some()) {
            return connections.park(now, conn, Work::Map, bound, since.unwrap_or(now));
        }
        let Some(message) = self.mon.take_map(conn) else { return };
        let everything = Durability::Everything;
        if let Some(message) = self.or_hold(now, everything, conn, message, Held::Mon, connections) {
            connections.send(now, conn, message);
        }
    }

    /// Sends maps to subscribers that could not take them before.
    pub(super) fn send_maps(&mut self, now: Time, connections: &mut ClusterConnections) {
        for conn in self.mon.take_deferred() {
            self.send_map(now, conn, None, connections);
        }
    }

    fn daemon(&mut self, osd: i32) -> Option<&mut OsdDaemon> {
        self.osds.get_mut(usize::try_from(osd).ok()?)
    }

    pub(super) fn stop_osd(&mut self, now: Time, osd: i32, connections: &mut ClusterConnections) {
        let Some(daemon) = self.daemon(osd) else { return };
        daemon.running = false;
        self.hang_up_all(now, osd, connections);
        self.mon.osds_down(now, [osd]);
        self.map_changed(now, connections);
    }

    pub(super) fn start_osd(&mut self, now: Time, osd: i32, connections: &mut ClusterConnections) {
        if let Some(daemon) = self.daemon(osd).filter(|daemon| !daemon.running) {
            daemon.running = true;
            self.map_changed(now, connections);
        }
    }

    /// All that a stopped OSD holds is gone.
    pub(super) fn wipe_osd(&mut self, osd: i32) {
        if let Some(daemon) = self.daemon(osd).filter(|daemon| !daemon.running) {
            daemon.osd.wipe();
            self.groups.lost(osd);
            self.note(&Entry::Wipe { osd });
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let osds = self.osds.iter().filter_map(|daemon| daemon.osd.deadline());
        osds.chain(self.mon.deadline())
            .chain(self.recovery.deadline())
            .chain(self.trimming.deadline())
            .chain(self.fullness_due)
            .chain(self.benches_due)
            .min()
    }

    pub(super) fn timeout(&mut self, now: Time, connections: &mut ClusterConnections) {
        if self.mon.deadline().is_some_and(|deadline| deadline <= now) {
            self.mon.timeout(now);
            self.map_changed(now, connections);
        }
        let map = Arc::clone(self.mon.osdmap());
        let notes = &mut self.notes;
        let mut note = |entry| {
            if let Some(notes) = notes {
                notes.add(&entry);
            }
        };
        let purged = self.trimming.go_on(now, &map, &self.groups, &mut self.osds, &mut note);
        let caught_up = self.recovery.go_on(now, &map, &mut self.groups, &mut self.osds, &mut note);
        if !purged.is_empty() {
            self.mon.snaps_purged(now, purged);
        }
        if caught_up || self.mon.osdmap().epoch != map.epoch {
            self.map_changed(now, connections);
        }
        self.report_fuller(now, connections);
        self.look_at_fullness(now, connections);
        self.go_on_with_benches(now, connections);
        self.send_maps(now, connections);
        for daemon in &mut self.osds {
            if daemon.osd.deadline().is_some_and(|deadline| deadline <= now) {
                daemon.osd.timeout(now);
            }
        }
        self.send_notifications(now, connections);
    }
}
