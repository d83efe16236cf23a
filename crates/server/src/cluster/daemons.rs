//! The monitor and the OSDs, and what passes between them and their clients.
//!
//! Source for what an OSD does with a request by the epoch of its sender: ceph
//! `doc/dev/rados-client-protocol.rst`, "Resends"; `src/osd/PG.cc` (`can_discard_op`), `src/osd/OSD.cc`
//! (`maybe_share_map`).

use super::links::{Links, Service};
use super::machine::Addresses;
use crate::config::Settings;
use crate::errno::EOPNOTSUPP;
use crate::mon::{FirstOsd, GroupReport, GroupState, Identity, Mon, OsdUsage, Tell, TellReply, Usage};
use crate::osd::{self, Osd, SessionId};
use onego_buf::Pool;
use onego_ceph::addr::AddrVec;
use onego_ceph::messages::{OsdOp, kind};
use onego_ceph::msgr::{Config, Connection, Limits, Message, Peer, Visitor};
use onego_ceph::types::{EntityName, Epoch, PgId};
use onego_wire::{ConnId, DecodeError, Decoded, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bounds on what clients may send. A front holds a few names and numbers.
const MON_LIMITS: Limits = Limits { control: 64 << 10, front: 1 << 20, middle: 64 << 10, data: 16 << 20 };

/// An OSD takes as much in one request as it keeps in one object at a comfortable multiple: objects of RBD have up to
/// 32 MiB.
const OSD_LIMITS: Limits = Limits { control: 64 << 10, front: 1 << 20, middle: 64 << 10, data: 64 << 20 };

/// The monitor and the OSDs.
pub(super) struct Daemons {
    pub(super) mon: Mon,
    mon_config: Arc<Config>,
    /// By their numbers.
    osds: Vec<OsdDaemon>,
    /// The connections of the OSDs' clients, and the number of the newest.
    sessions: FxHashMap<SessionId, ConnId>,
    last_session: u64,
}

/// An OSD, as it is reached.
struct OsdDaemon {
    osd: Osd,
    config: Arc<Config>,
    /// The epoch since which it is up.
    since: Epoch,
}

/// Does the answer to a message to the monitor say how full the cluster is, or how it is? To find out takes a while.
fn wants_usage(message: u16) -> bool {
    matches!(message, kind::MON_COMMAND | kind::STATFS | kind::GET_POOL_STATS | kind::PING)
}

fn config(name: EntityName, addrs: AddrVec, limits: Limits, pool: &Pool) -> Arc<Config> {
    Arc::new(Config { limits, ..Config::server(name, addrs, pool.clone()) })
}

impl Daemons {
    /// The daemons of a cluster whose listeners are all up.
    pub(super) fn new(now: Time, settings: &Settings, pool: &Pool) -> Self {
        let mon_addrs = settings.mon.clone();
        let first = settings.osds.iter().map(|osd| FirstOsd { uuid: osd.uuid, addrs: osd.addrs.clone() });
        let first: Vec<FirstOsd> = first.collect();
        let identity = Identity { fsid: settings.fsid, mon_addrs: mon_addrs.clone(), osds: first.clone() };
        let mut mon = Mon::new(now, identity);
        for pool in &settings.pools {
            mon.make_pool(now, pool);
        }
        let since = mon.osdmap().epoch;
        let osds = (0..).zip(first).map(|(id, first)| OsdDaemon {
            osd: Osd::new(osd::Config {
                memory_limit: settings.memory_limit,
                null_writes: settings.null_writes,
            }),
            config: config(EntityName::osd(id), first.addrs, OSD_LIMITS, pool),
            since,
        });
        Self {
            osds: osds.collect(),
            mon,
            sessions: FxHashMap::default(),
            last_session: 0,
            mon_config: config(EntityName::mon(0), mon_addrs, MON_LIMITS, pool),
        }
    }

    pub(super) fn addresses(&self) -> Addresses {
        let osds = self.osds.iter().map(|daemon| daemon.config.addrs.clone());
        Addresses { mon: self.mon_config.addrs.clone(), osds: osds.collect() }
    }

    pub(super) fn usage(&self) -> Usage {
        let osds = (0..).zip(&self.osds).map(|(id, daemon)| {
            let osd::Usage { used, limit, .. } = daemon.osd.usage();
            (id, OsdUsage { total: limit, used })
        });
        let osds: BTreeMap<i32, OsdUsage> = osds.collect();
        let map = self.mon.osdmap();
        let pools = map.pools.keys().map(|&id| (id, self.osds[0].osd.pool_usage(id)));
        let groups =
            map.pools.iter().flat_map(|(&pool, one)| (0..one.pg_num).map(move |seed| PgId { pool, seed }));
        let state = GroupState { active: true, clean: true, stale: !map.is_up(0), ..GroupState::default() };
        Usage {
            total: osds.values().map(|osd| osd.total).sum(),
            used: osds.values().map(|osd| osd.used).sum(),
            pools: pools.collect(),
            osds,
            groups: groups.map(|pg| (pg, GroupReport { state, ..GroupReport::default() })).collect(),
        }
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
            Service::Osd(osd) if self.mon.osdmap().is_up(osd) => (&self.osds[osd as usize].config, 0),
            Service::Osd(_) => return None,
        };
        let visitor = Visitor { addr: peer, fresh_global_id };
        Some(Connection::accept(now, Arc::clone(config), visitor, local))
    }

    /// A client has identified itself.
    pub(super) fn opened(&mut self, conn: ConnId, peer: Peer, links: &mut Links) {
        tracing::debug!(?conn, name = %peer.name, addrs = %peer.addrs, "a client is here");
        let Some(link) = links.get(conn) else { return };
        match link.service {
            Service::Mon => self.mon.opened(conn, peer),
            Service::Osd(osd) => {
                self.last_session += 1;
                let session = SessionId(self.last_session);
                // A client has one address; the messenger sees to it that it has one at all.
                let addr = peer.addrs.0.first().copied().unwrap_or_default();
                self.osds[osd as usize].osd.session_opened(session, peer.name, addr);
                self.sessions.insert(session, conn);
                link.session = Some(session);
            }
        }
    }

    /// A client's connection is gone.
    pub(super) fn closed(&mut self, now: Time, conn: ConnId, links: &mut Links) {
        let Some(link) = links.get(conn) else { return };
        match (link.service, link.session.take()) {
            (Service::Mon, _) => self.mon.closed(conn),
            (Service::Osd(osd), Some(session)) => {
                self.osds[osd as usize].osd.session_closed(now, session);
                self.sessions.remove(&session);
            }
            (Service::Osd(_), None) => {}
        }
    }

    /// A client says something. An error is the client's, and an end to its connection.
    pub(super) fn message(
        &mut self,
        now: Time,
        conn: ConnId,
        mut message: Message,
        links: &mut Links,
    ) -> Decoded<()> {
        let Some(link) = links.get(conn) else { return Ok(()) };
        if let Some(place) = message.placed.take() {
            message.data = place.into();
        }
        match link.service {
            Service::Mon => {
                let usage = if wants_usage(message.header.kind) { self.usage() } else { Usage::default() };
                let epoch = self.mon.osdmap().epoch;
                self.mon.message(now, conn, message, &usage)?;
                if self.mon.osdmap().epoch != epoch {
                    self.map_changed(now, links);
                }
                self.send_mon(now, links);
                Ok(())
            }
            Service::Osd(osd) => self.osd_message(now, osd, conn, message, links),
        }
    }

    fn osd_message(
        &mut self,
        now: Time,
        osd: i32,
        conn: ConnId,
        mut message: Message,
        links: &mut Links,
    ) -> Decoded<()> {
        let tid = message.header.tid;
        match message.header.kind {
            kind::OSD_OP => self.request(now, osd, conn, tid, message.decode()?, links)?,
            kind::COMMAND => {
                message.decode::<Tell>()?;
                let status = "the daemons of this cluster take no commands of their own: leave out `tell`";
                let reply = TellReply { result: EOPNOTSUPP, status: status.into() };
                links.send_payload(now, conn, tid, &reply);
            }
            // Signs of life, and acknowledgements of backoffs that are never asked for.
            other => tracing::debug!(kind = other, "the OSD passes over a message"),
        }
        Ok(())
    }

    /// A request. What comes by too old a map is dropped: its sender will find out that it has to send it again.
    fn request(
        &mut self,
        now: Time,
        osd: i32,
        conn: ConnId,
        tid: u64,
        op: OsdOp,
        links: &mut Links,
    ) -> Decoded<()> {
        let newest = self.mon.osdmap().epoch;
        if op.epoch > newest {
            // Ceph waits for the map. Here the monitor and the OSD have the same one, so it will never come.
            return Err(DecodeError::OverBound {
                what: "epoch of a request",
                value: op.epoch.into(),
                bound: newest.into(),
            });
        }
        if op.epoch < newest {
            self.share_map(now, conn, op.epoch, links);
        }
        let map = self.mon.osdmap();
        let Some(pool) = map.pools.get(&op.pg.pg.pool) else { return Ok(()) };
        if op.epoch < self.osds[osd as usize].since.max(pool.last_force_op_resend)
            || op.pg.pg.seed >= pool.pg_num
        {
            tracing::debug!(tid, epoch = op.epoch, "a request by an old map is dropped");
            return Ok(());
        }
        let Some(session) = links.get(conn).and_then(|link| link.session) else { return Ok(()) };
        if let Some(reply) = self.osds[osd as usize].osd.request(now, session, tid, op, self.mon.osdmap()) {
            links.send_payload(now, conn, tid, &reply);
        }
        self.send_notifications(now, links);
        Ok(())
    }

    fn send_notifications(&mut self, now: Time, links: &mut Links) {
        for daemon in &mut self.osds {
            while let Some((session, event)) = daemon.osd.poll_event() {
                if let Some(&conn) = self.sessions.get(&session) {
                    links.send_payload(now, conn, 0, &event);
                }
            }
        }
    }

    /// Tells a client what has changed since the map it has, once.
    fn share_map(&self, now: Time, conn: ConnId, has: Epoch, links: &mut Links) {
        let Some(link) = links.get(conn) else { return };
        let known = has.max(link.told);
        if let Some(update) = self.mon.maps().update_from(known + 1) {
            link.told = update.newest;
            links.send_payload(now, conn, 0, &update);
        }
    }

    /// The map has changed: the OSDs go on by the new one, and who wants to know is told.
    pub(super) fn map_changed(&mut self, now: Time, links: &mut Links) {
        self.osds.iter_mut().for_each(|daemon| daemon.osd.map_changed(self.mon.osdmap()));
        self.send_notifications(now, links);
        self.send_mon(now, links);
    }

    fn send_mon(&mut self, now: Time, links: &mut Links) {
        while let Some((conn, message)) = self.mon.poll() {
            links.send(now, conn, message);
        }
    }

    /// Is there an OSD of this number?
    fn has_osd(&self, osd: i32) -> bool {
        usize::try_from(osd).is_ok_and(|osd| osd < self.osds.len())
    }

    pub(super) fn stop_osd(&mut self, now: Time, osd: i32, links: &mut Links) {
        for conn in links.of(Service::Osd(osd)) {
            self.closed(now, conn, links);
            links.close(now, conn);
        }
        self.mon.osds_down(now, [osd]);
        self.map_changed(now, links);
    }

    pub(super) fn start_osd(&mut self, now: Time, osd: i32, links: &mut Links) {
        if self.mon.osdmap().is_up(osd) || !self.has_osd(osd) {
            return;
        }
        let daemon = &mut self.osds[osd as usize];
        let mut config = Config::clone(&daemon.config);
        for addr in &mut config.addrs.0 {
            addr.nonce = addr.nonce.wrapping_add(1);
        }
        daemon.since = self.mon.osd_up(now, osd, &config.addrs);
        daemon.config = Arc::new(config);
        self.map_changed(now, links);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.mon
            .deadline()
            .into_iter()
            .chain(self.osds.iter().filter_map(|daemon| daemon.osd.deadline()))
            .min()
    }

    pub(super) fn timeout(&mut self, now: Time, links: &mut Links) {
        if self.mon.deadline().is_some_and(|deadline| deadline <= now) {
            self.mon.timeout(now);
            self.map_changed(now, links);
        }
        for daemon in &mut self.osds {
            if daemon.osd.deadline().is_some_and(|deadline| deadline <= now) {
                daemon.osd.timeout(now);
            }
        }
        self.send_notifications(now, links);
    }
}
