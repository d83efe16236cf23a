//! The monitor and the OSD, and what passes between them and their clients.
//!
//! Source for what an OSD does with a request by the epoch of its sender: ceph
//! `doc/dev/rados-client-protocol.rst`, "Resends"; `src/osd/PG.cc` (`can_discard_op`), `src/osd/OSD.cc`
//! (`maybe_share_map`).

use super::links::{Links, Service};
use super::machine::Addresses;
use crate::config::Settings;
use crate::errno::EOPNOTSUPP;
use crate::mon::{Identity, Mon, OSD_ID, Tell, TellReply, Usage};
use crate::osd::{self, Osd, SessionId};
use onego_buf::Pool;
use onego_ceph::addr::{AddrVec, EntityAddr};
use onego_ceph::messages::{OsdOp, kind};
use onego_ceph::msgr::{Config, Connection, Limits, Message, Peer, Visitor};
use onego_ceph::types::{EntityName, Epoch};
use onego_wire::{ConnId, DecodeError, Decoded, Time};
use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bounds on what clients may send. A front holds a few names and numbers.
const MON_LIMITS: Limits = Limits { control: 64 << 10, front: 1 << 20, middle: 64 << 10, data: 16 << 20 };

/// An OSD takes as much in one request as it keeps in one object at a comfortable multiple: objects of RBD have up to
/// 32 MiB.
const OSD_LIMITS: Limits = Limits { control: 64 << 10, front: 1 << 20, middle: 64 << 10, data: 64 << 20 };

/// The monitor and the OSD.
pub(super) struct Daemons {
    pub(super) mon: Mon,
    osd: Osd,
    mon_config: Arc<Config>,
    osd_config: Arc<Config>,
    /// The connections of the OSD's clients, and the number of the newest.
    sessions: FxHashMap<SessionId, ConnId>,
    last_session: u64,
    /// The epoch since which the OSD is up.
    osd_since: Epoch,
}

fn addrs(sock: SocketAddr, nonce: u32) -> AddrVec {
    AddrVec(vec![EntityAddr::msgr2(sock, nonce)])
}

fn config(name: EntityName, addrs: AddrVec, limits: Limits, pool: &Pool) -> Arc<Config> {
    Arc::new(Config { limits, ..Config::server(name, addrs, pool.clone()) })
}

impl Daemons {
    pub(super) fn new(now: Time, settings: &Settings, mon: SocketAddr, osd: SocketAddr, pool: &Pool) -> Self {
        // A monitor is known by its address alone; an OSD's clients must notice that it has started anew.
        let (mon_addrs, osd_addrs) = (addrs(mon, 0), addrs(osd, settings.nonce));
        let identity = Identity {
            fsid: settings.fsid,
            osd_uuid: settings.osd_uuid,
            mon_addrs: mon_addrs.clone(),
            osd_addrs: osd_addrs.clone(),
        };
        let mut mon = Mon::new(now, identity);
        for pool in &settings.pools {
            mon.make_pool(now, pool);
        }
        Self {
            osd_since: mon.osdmap().epoch,
            mon,
            osd: Osd::new(osd::Config {
                memory_limit: settings.memory_limit,
                null_writes: settings.null_writes,
            }),
            sessions: FxHashMap::default(),
            last_session: 0,
            mon_config: config(EntityName::mon(0), mon_addrs, MON_LIMITS, pool),
            osd_config: config(EntityName::osd(OSD_ID), osd_addrs, OSD_LIMITS, pool),
        }
    }

    pub(super) fn addresses(&self) -> Addresses {
        Addresses { mon: self.mon_config.addrs.clone(), osd: self.osd_config.addrs.clone() }
    }

    pub(super) fn usage(&self) -> Usage {
        let osd::Usage { used, limit, .. } = self.osd.usage();
        let pools = self.mon.osdmap().pools.keys().map(|&id| (id, self.osd.pool_usage(id)));
        Usage { total: limit, used, pools: pools.collect() }
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
            Service::Osd if self.mon.osdmap().is_up(OSD_ID) => (&self.osd_config, 0),
            Service::Osd => return None,
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
            Service::Osd => {
                self.last_session += 1;
                let session = SessionId(self.last_session);
                // A client has one address; the messenger sees to it that it has one at all.
                let addr = peer.addrs.0.first().copied().unwrap_or_default();
                self.osd.session_opened(session, peer.name, addr);
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
            (Service::Osd, Some(session)) => {
                self.osd.session_closed(now, session);
                self.sessions.remove(&session);
            }
            (Service::Osd, None) => {}
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
                let usage = self.usage();
                let epoch = self.mon.osdmap().epoch;
                self.mon.message(now, conn, message, &usage)?;
                if self.mon.osdmap().epoch != epoch {
                    self.map_changed(now, links);
                }
                self.send_mon(now, links);
                Ok(())
            }
            Service::Osd => self.osd_message(now, conn, message, links),
        }
    }

    fn osd_message(
        &mut self,
        now: Time,
        conn: ConnId,
        mut message: Message,
        links: &mut Links,
    ) -> Decoded<()> {
        let tid = message.header.tid;
        match message.header.kind {
            kind::OSD_OP => self.request(now, conn, tid, message.decode()?, links)?,
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
    fn request(&mut self, now: Time, conn: ConnId, tid: u64, op: OsdOp, links: &mut Links) -> Decoded<()> {
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
        if op.epoch < self.osd_since.max(pool.last_force_op_resend) || op.pg.pg.seed >= pool.pg_num {
            tracing::debug!(tid, epoch = op.epoch, "a request by an old map is dropped");
            return Ok(());
        }
        let Some(session) = links.get(conn).and_then(|link| link.session) else { return Ok(()) };
        if let Some(reply) = self.osd.request(now, session, tid, op, self.mon.osdmap()) {
            links.send_payload(now, conn, tid, &reply);
        }
        self.send_notifications(now, links);
        Ok(())
    }

    fn send_notifications(&mut self, now: Time, links: &mut Links) {
        while let Some((session, event)) = self.osd.poll_event() {
            if let Some(&conn) = self.sessions.get(&session) {
                links.send_payload(now, conn, 0, &event);
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

    /// The map has changed: the OSD goes on by the new one, and who wants to know is told.
    pub(super) fn map_changed(&mut self, now: Time, links: &mut Links) {
        self.osd.map_changed(self.mon.osdmap());
        self.send_notifications(now, links);
        self.send_mon(now, links);
    }

    fn send_mon(&mut self, now: Time, links: &mut Links) {
        while let Some((conn, message)) = self.mon.poll() {
            links.send(now, conn, message);
        }
    }

    pub(super) fn stop_osd(&mut self, now: Time, links: &mut Links) {
        for conn in links.of(Service::Osd) {
            self.closed(now, conn, links);
            links.close(now, conn);
        }
        self.mon.osd_down(now);
        self.map_changed(now, links);
    }

    pub(super) fn start_osd(&mut self, now: Time, links: &mut Links) {
        if self.mon.osdmap().is_up(OSD_ID) {
            return;
        }
        let mut config = Config::clone(&self.osd_config);
        for addr in &mut config.addrs.0 {
            addr.nonce = addr.nonce.wrapping_add(1);
        }
        self.mon.osd_up(now, &config.addrs);
        self.osd_config = Arc::new(config);
        self.osd_since = self.mon.osdmap().epoch;
        self.map_changed(now, links);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.mon.deadline().into_iter().chain(self.osd.deadline()).min()
    }

    pub(super) fn timeout(&mut self, now: Time, links: &mut Links) {
        if self.mon.deadline().is_some_and(|deadline| deadline <= now) {
            self.mon.timeout(now);
            self.map_changed(now, links);
        }
        if self.osd.deadline().is_some_and(|deadline| deadline <= now) {
            self.osd.timeout(now);
            self.send_notifications(now, links);
        }
    }
}
