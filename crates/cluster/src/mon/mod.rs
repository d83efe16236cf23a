//! The monitor: maps, subscriptions to them, commands. Without I/O: messages go in and out.
//!
//! There is one monitor, so what it decides is decided: no Paxos, no elections, and every change of the map is a
//! new epoch at once. Source: ceph `src/mon/{Monitor,OSDMonitor}.cc`.

mod blocklist;
mod cluster_log;
mod command;
mod first_map;
mod fullness;
mod manager;
mod maps;
mod osd_flags;
mod osds;
mod pools;
mod refusal;
mod settings;
mod space;
mod stats;
mod subscriptions;
mod text;
mod usage;

pub(crate) use cluster_log::MAX_ENTRIES as MAX_LOG_ENTRIES;
pub(crate) use command::version_json;
pub(crate) use first_map::FirstOsd;
pub(crate) use fullness::{Fullness, Marks, OSD_BITS, POOL_FLAGS};
pub(crate) use manager::{MGR_GLOBAL_ID, Role};
pub(crate) use maps::{MapBytes, MapHistory};
pub(crate) use osds::Order;
pub use pools::NewPool;
pub(crate) use pools::default_size;
pub(crate) use settings::MonSettings;
pub(crate) use stats::{Tell, TellReply};
pub(crate) use usage::{GroupReport, GroupState};
pub use usage::{OsdUsage, Usage};

use crate::auth::SharedAuthority;
use cluster_log::ClusterLog;
use command::Audience;
use onego_ceph::caps::{MonAccess, MonCap};
use onego_ceph::messages::{
    Auth, AuthReply, CommandReply, GetVersion, GetVersionReply, LogEntry, LogLevel, MonCommand,
    MonMapMessage, Payload, Statfs, StatfsReply, kind,
};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::monmap::MonMap;
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_ceph::types::{Epoch, Utime, Uuid};
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::{Authority, method};
use onego_msgr::encoding::Encode as _;
use onego_msgr::{Message, Peer};
use onego_wire::{ConnId, Decoded, Time, Writer};
use refusal::Refusal;
use space::PoolSpace;
use stats::{GetPoolStats, GetPoolStatsReply};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use subscriptions::Session;

/// Where a monitor begins to number its clients; lower numbers look like those of daemons in logs.
const FIRST_GLOBAL_ID: u64 = 4100;

/// The first that the log says of a life.
const STARTED: &str = "mon.a is new leader, mons a in quorum (ranks 0)";

/// What a cluster is told to be.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The cluster.
    pub fsid: Uuid,
    /// Where clients reach the monitor.
    pub mon_addrs: AddrVec,
    /// Where they reach the manager; empty: there is none.
    pub mgr_addrs: AddrVec,
    /// Who knows the keys; none: nobody needs one.
    pub authority: Option<SharedAuthority>,
    /// The OSDs, the first being number 0.
    pub osds: Vec<FirstOsd>,
}

/// The monitor.
#[derive(Debug)]
pub(crate) struct Mon {
    fsid: Uuid,
    started: Time,
    monmap: MonMap,
    mgrmap: MgrMap,
    maps: MapHistory,
    /// Settings by section ("global", "client", "client.admin") and name.
    config: BTreeMap<String, BTreeMap<String, String>>,
    /// What programs keep here, by their own keys.
    config_keys: BTreeMap<String, Vec<u8>>,
    sessions: BTreeMap<ConnId, Session>,
    authority: Option<SharedAuthority>,
    next_global_id: u64,
    out: VecDeque<(ConnId, Message)>,
    orders: Vec<Order>,
    log: ClusterLog,
}

impl Mon {
    /// The monitor of a new cluster whose OSDs are up.
    pub(crate) fn new(now: Time, identity: Identity) -> Self {
        let Identity { authority, fsid, mon_addrs, mgr_addrs, osds } = identity;
        let stamp = Utime::from(now);
        let mut mon = Self {
            fsid,
            started: now,
            monmap: first_map::monitors(fsid, stamp, mon_addrs),
            mgrmap: manager::map(1, stamp, mgr_addrs),
            maps: MapHistory::new(first_map::osds(fsid, stamp, &osds)),
            config: BTreeMap::new(),
            config_keys: BTreeMap::new(),
            sessions: BTreeMap::new(),
            authority,
            next_global_id: FIRST_GLOBAL_ID,
            out: VecDeque::new(),
            orders: Vec::new(),
            log: ClusterLog::default(),
        };
        mon.log(now, LogLevel::Info, STARTED);
        mon
    }

    /// The monitor of a cluster that was there before, in one of its lives, the first being number 1.
    pub(crate) fn restore(
        now: Time,
        identity: Identity,
        maps: MapHistory,
        settings: MonSettings,
        log: Vec<LogEntry>,
        life: u32,
    ) -> Self {
        let MonSettings { config, config_keys, .. } = settings;
        let mut mon = Self { maps, config, config_keys, ..Self::new(now, identity) };
        mon.log = ClusterLog::restore(log, life);
        mon.log(now, LogLevel::Info, STARTED);
        // It may be somewhere else.
        mon.monmap.epoch = life;
        mon.mgrmap.epoch = life;
        // What clients did is remembered by their numbers, so nobody may have one of an earlier life.
        mon.next_global_id += u64::from(life - 1) << 32;
        mon
    }

    /// What is to be kept beside the maps.
    pub(crate) fn settings(&self) -> MonSettings {
        let authority = self.authority();
        let keyring = authority.as_ref().map(|authority| authority.keyring().clone());
        let service_secret = authority.map(|authority| authority.service_secret().clone());
        let service_secret = service_secret.unwrap_or_default();
        MonSettings {
            config: self.config.clone(),
            config_keys: self.config_keys.clone(),
            keyring,
            service_secret,
        }
    }

    /// Who knows the keys; none: nobody needs one.
    fn authority(&self) -> Option<MutexGuard<'_, Authority>> {
        // It is changed in steps of which each leaves it whole.
        self.authority.as_ref().map(|authority| authority.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest map of the OSDs.
    pub(crate) fn osdmap(&self) -> &Arc<OsdMap> {
        self.maps.newest()
    }

    /// The maps of the OSDs through their epochs.
    pub(crate) fn maps(&self) -> &MapHistory {
        &self.maps
    }

    /// A number that no client had before.
    pub(crate) fn global_id(&mut self) -> u64 {
        self.next_global_id += 1;
        self.next_global_id
    }

    /// A client, or a daemon, has identified itself.
    pub(crate) fn opened(&mut self, session: ConnId, peer: Peer, cap: MonCap, role: Role) {
        self.sessions.insert(session, Session::new(peer, cap, role));
    }

    /// What a client may ask for: nothing, if it is gone.
    fn cap(&self, session: ConnId) -> Arc<MonCap> {
        self.sessions.get(&session).map(|session| Arc::clone(&session.cap)).unwrap_or_default()
    }

    /// Its connection is gone.
    pub(crate) fn closed(&mut self, session: ConnId) {
        self.sessions.remove(&session);
    }

    /// The next message to send, until there is none.
    pub(crate) fn poll(&mut self) -> Option<(ConnId, Message)> {
        self.out.pop_front()
    }

    /// A message came in. An error is one of the peer, and an end to its session.
    pub(crate) fn message(
        &mut self,
        now: Time,
        session: ConnId,
        mut message: Message,
        usage: &Usage,
    ) -> Decoded<()> {
        if self.sessions.get(&session).is_some_and(|session| session.role == Role::Manager) {
            return self.manager_message(now, session, message, usage);
        }
        let tid = message.header.tid;
        match message.header.kind {
            kind::AUTH => self.renew_tickets(now, session, tid, &message.decode()?),
            kind::MON_GET_MAP => self.reply(session, tid, &self.monmap_message()),
            kind::MON_SUBSCRIBE => self.subscribe(session, &message.decode()?),
            kind::GET_CONFIG => self.send_config(session),
            kind::MON_GET_VERSION => {
                let answer = self.version(&message.decode()?);
                self.reply(session, tid, &answer);
            }
            kind::MON_COMMAND => {
                let answer = self.command(now, usage, session, message.decode()?, Audience::Cluster);
                self.reply(session, tid, &answer);
            }
            kind::COMMAND => {
                let Tell { fsid, command } = message.decode()?;
                let command = MonCommand { fsid, command, input: message.data };
                let CommandReply { result, status, output, .. } =
                    self.command(now, usage, session, command, Audience::Monitor);
                self.reply(session, tid, &TellReply { result, status, output });
            }
            // Neither message has an answer that says no (ceph `src/mon/MgrStatMonitor.cc`).
            kind::STATFS | kind::GET_POOL_STATS if !self.cap(session).allows("pg", MonAccess::READ) => {
                tracing::warn!(
                    ?session,
                    "a client asks how full the cluster is, and has no capability for it"
                );
            }
            kind::STATFS => {
                let answer = self.statfs(&message.decode()?, usage);
                self.reply(session, tid, &answer);
            }
            kind::GET_POOL_STATS => {
                let answer = self.pool_stats(message.decode()?, usage);
                self.reply(session, tid, &answer);
            }
            kind::POOL_OP => {
                let answer = self.pool_op(now, session, &message.decode()?);
                self.reply(session, tid, &answer);
            }
            kind::PING => {
                let mut front = Writer::new();
                front.string(&command::ping_answer(self, now, usage));
                let answer = Message::new(kind::PING, 1, 1, front.into_vec()).with_tid(tid);
                self.out.push_back((session, answer));
            }
            // Logs, beacons and reports of daemons: there is nobody to read them.
            other => tracing::debug!(kind = other, "the monitor passes over a message"),
        }
        Ok(())
    }

    /// A client wants new tickets.
    fn renew_tickets(&mut self, now: Time, session: ConnId, tid: u64, request: &Auth) {
        let renewals = self.sessions.get(&session).and_then(|session| session.peer.renewals.clone());
        // Who proved nothing has nothing to renew.
        let Some(renewals) = renewals else { return };
        let global_id = self.sessions[&session].peer.global_id;
        let mut reply = AuthReply { method: method::CEPHX, global_id, ..AuthReply::default() };
        match renewals.renew(now, &request.payload) {
            Ok(payload) => reply.payload = payload,
            Err(error) => reply.result = error,
        }
        self.reply(session, tid, &reply);
    }

    fn reply(&mut self, session: ConnId, tid: u64, payload: &impl Payload) {
        self.out.push_back((session, Message::of(tid, payload)));
    }

    fn monmap_message(&self) -> MonMapMessage {
        MonMapMessage { map: self.monmap.to_bytes() }
    }

    fn version(&self, question: &GetVersion) -> GetVersionReply {
        let (newest, oldest) = match question.what.as_str() {
            "osdmap" => (self.maps.epoch(), self.maps.oldest_epoch()),
            "monmap" => (self.monmap.epoch, self.monmap.epoch),
            "mgrmap" => (self.mgrmap.epoch, self.mgrmap.epoch),
            // Ceph leaves this unanswered, and the client waits.
            _ => (0, 0),
        };
        GetVersionReply { handle: question.handle, newest: newest.into(), oldest: oldest.into() }
    }

    fn command(
        &mut self,
        now: Time,
        usage: &Usage,
        session: ConnId,
        command: MonCommand,
        audience: Audience,
    ) -> CommandReply {
        let outcome = if command.fsid.is_zero() || command.fsid == self.fsid {
            let peer = self.sessions.get(&session).map(|session| &session.peer);
            let caller = command::Caller::of(peer);
            let cap = self.cap(session);
            let asked =
                command::Asked { now, usage, cap: &cap, caller: &caller, audience, input: &command.input };
            command::run(self, &asked, &command.command)
        } else {
            Err(Refusal::invalid(format!("this is cluster {}, not {}", self.fsid, command.fsid)))
        };
        let (result, reply) = match outcome {
            Ok(reply) => (0, reply),
            Err(refusal) => (refusal.errno, command::Reply::done(refusal.text)),
        };
        tracing::debug!(?command.command, result, status = reply.status, "command");
        CommandReply { result, status: reply.status, command: command.command, output: reply.output.into() }
    }

    fn statfs(&self, question: &Statfs, usage: &Usage) -> StatfsReply {
        let mut reply = StatfsReply {
            fsid: self.fsid,
            version: self.maps.epoch().into(),
            kb: usage.total >> 10,
            kb_used: usage.used.div_ceil(1 << 10),
            kb_avail: usage.available() >> 10,
            objects: usage.objects(),
        };
        if let Some(pool) = question.data_pool {
            let space = PoolSpace::of(self.osdmap(), usage, pool);
            reply.kb_used = space.usage.bytes.div_ceil(1 << 10);
            reply.kb_avail = space.available >> 10;
            reply.kb = reply.kb_used + reply.kb_avail;
            reply.objects = space.usage.objects;
        }
        reply
    }

    fn pool_stats(&self, question: GetPoolStats, usage: &Usage) -> GetPoolStatsReply {
        let pools = question.pools.into_iter().filter_map(|name| {
            let id = self.osdmap().pool_id(&name)?;
            Some((name, PoolSpace::of(self.osdmap(), usage, id)))
        });
        GetPoolStatsReply { fsid: self.fsid, pools: pools.collect() }
    }

    /// Makes `change` the next epoch, and tells who wants to know.
    fn commit(&mut self, mut change: Incremental) -> Epoch {
        fullness::flag_pools(self.osdmap(), &mut change);
        let now = Time::from(change.modified);
        let epoch = self.maps.commit(change);
        tracing::debug!(epoch, "new osdmap");
        let summary = osds::summary(self.osdmap());
        self.log(now, LogLevel::Debug, format!("osdmap e{epoch}: {summary}"));
        self.publish();
        epoch
    }

    /// Sets or clears flags of the map (see [`onego_ceph::osdmap::flag`]).
    pub(crate) fn set_flags(&mut self, now: Time, flags: u32, on: bool) -> Epoch {
        let before = self.osdmap().flags;
        let after = if on { before | flags } else { before & !flags };
        if after == before {
            return self.maps.epoch();
        }
        let mut change = self.maps.change(now);
        change.new_flags = Some(after);
        self.commit(change)
    }

    /// Makes a pool, unless there is one of that name, and says its id. None: it cannot be made.
    pub(crate) fn make_pool(&mut self, now: Time, pool: &NewPool) -> Option<i64> {
        if let Some(id) = self.osdmap().pool_id(&pool.name) {
            return Some(id);
        }
        self.create_pool(now, pool)
            .inspect_err(|refusal| tracing::warn!(%refusal, "a pool was not made"))
            .ok()
    }

    /// A new epoch in which nothing changes.
    pub(crate) fn touch(&mut self, now: Time) -> Epoch {
        let change = self.maps.change(now);
        self.commit(change)
    }
}
