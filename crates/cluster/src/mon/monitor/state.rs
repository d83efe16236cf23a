//! What the monitor knows and decides. Each change of the OSD map is a new epoch.

use crate::auth::SharedAuthority;
use crate::mon::cluster_log::ClusterLog;
use crate::mon::first_map::{self, FirstOsd};
use crate::mon::fullness::flag_pools;
use crate::mon::maps::MapHistory;
use crate::mon::osds::{Order, summary};
use crate::mon::session::{Role, Session};
use crate::mon::settings::MonSettings;
use onego_ceph::caps::MonCap;
use onego_ceph::messages::{LogEntry, LogLevel, MonMapMessage, Payload, kind};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::monmap::MonMap;
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_ceph::types::{Epoch, Utime, Uuid};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::auth::{AuthName, Authority};
use onego_msgr::encoding::Encode as _;
use onego_msgr::{Message, Peer};
use onego_wire::{ConnId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};

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
    /// The keys of all clients. `None`: there are none.
    pub authority: Option<SharedAuthority>,
    /// Clients need a key.
    pub needs_keys: bool,
    /// The OSDs, the first being number 0.
    pub osds: Vec<FirstOsd>,
}

/// A message to a client.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are messages")]
pub(crate) enum Outgoing {
    Message(Message),
    /// An update of the OSD map. It is encoded when the client takes it.
    Map,
}

/// The monitor.
#[derive(Debug)]
pub(crate) struct Mon {
    pub(in crate::mon) fsid: Uuid,
    pub(in crate::mon) started: Time,
    pub(in crate::mon) monmap: MonMap,
    pub(in crate::mon) mgrmap: MgrMap,
    pub(in crate::mon) maps: MapHistory,
    /// Users that have blocked clients since the start.
    pub(in crate::mon) blockers: BTreeMap<EntityAddr, AuthName>,
    /// Settings by section ("global", "client", "client.admin") and name.
    pub(in crate::mon) config: BTreeMap<String, BTreeMap<String, String>>,
    /// What programs keep here, by their own keys.
    pub(in crate::mon) config_keys: BTreeMap<String, Vec<u8>>,
    pub(in crate::mon) sessions: BTreeMap<ConnId, Session>,
    pub(in crate::mon) authority: Option<SharedAuthority>,
    needs_keys: bool,
    pub(in crate::mon) next_global_id: u64,
    pub(in crate::mon) out: VecDeque<(ConnId, Outgoing)>,
    /// Subscribers that could not take the newest OSD map yet.
    pub(in crate::mon) deferred: BTreeSet<ConnId>,
    pub(in crate::mon) orders: Vec<Order>,
    pub(in crate::mon) log: ClusterLog,
}

impl Mon {
    /// The monitor of a new cluster whose OSDs are up.
    pub(crate) fn new(now: Time, identity: Identity) -> Self {
        let Identity { authority, needs_keys, fsid, mon_addrs, mgr_addrs, osds } = identity;
        let stamp = Utime::from(now);
        let mut mon = Self {
            fsid,
            started: now,
            monmap: first_map::monitors(fsid, stamp, mon_addrs),
            mgrmap: first_map::manager(1, stamp, mgr_addrs),
            maps: MapHistory::new(first_map::osds(fsid, stamp, &osds)),
            blockers: BTreeMap::new(),
            config: BTreeMap::new(),
            config_keys: BTreeMap::new(),
            sessions: BTreeMap::new(),
            authority,
            needs_keys,
            next_global_id: FIRST_GLOBAL_ID,
            out: VecDeque::new(),
            deferred: BTreeSet::new(),
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
        let service_secret = authority.filter(|_| self.needs_keys);
        let service_secret = service_secret.map(|authority| authority.service_secret().clone());
        let service_secret = service_secret.unwrap_or_default();
        let (keyring, unchecked) = if self.needs_keys { (keyring, None) } else { (None, keyring) };
        MonSettings {
            config: self.config.clone(),
            config_keys: self.config_keys.clone(),
            keyring,
            service_secret,
            unchecked,
        }
    }

    /// The authority, which knows the keys, if there are any.
    pub(in crate::mon) fn authority(&self) -> Option<MutexGuard<'_, Authority>> {
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
    pub(in crate::mon) fn cap(&self, session: ConnId) -> Arc<MonCap> {
        self.sessions.get(&session).map(|session| Arc::clone(&session.cap)).unwrap_or_default()
    }

    /// Its connection is gone.
    pub(crate) fn closed(&mut self, session: ConnId) {
        self.sessions.remove(&session);
        self.deferred.remove(&session);
    }

    /// The next message to send, until there is none.
    pub(crate) fn poll(&mut self) -> Option<(ConnId, Outgoing)> {
        self.out.pop_front()
    }

    pub(in crate::mon) fn reply(&mut self, session: ConnId, tid: u64, payload: &impl Payload) {
        self.out.push_back((session, Outgoing::Message(Message::of(tid, payload))));
    }

    /// Returns an upper bound of the bytes with which a message of this kind is answered. Commands show the map as text.
    pub(crate) fn reply_bound(&self, kind: u16) -> usize {
        /// Bytes of text for a byte of the map.
        const TEXT: usize = 12;
        /// Bytes of answers that do not depend on the map: the log, settings, users.
        const OTHER: usize = 1 << 20;
        let map = self.maps.newest_len() as usize;
        match kind {
            kind::MON_COMMAND | kind::COMMAND | kind::MGR_COMMAND => {
                (OTHER + TEXT * map).min(crate::osd::MAX_REPLY)
            }
            kind::GET_POOL_STATS => map,
            _ => 0,
        }
    }

    pub(in crate::mon) fn monmap_message(&self) -> MonMapMessage {
        MonMapMessage { map: self.monmap.to_bytes() }
    }

    /// Makes `change` the next epoch, and sends it to the clients that subscribe to it.
    pub(in crate::mon) fn commit(&mut self, mut change: Incremental) -> Epoch {
        flag_pools(self.osdmap(), &mut change);
        let now = Time::from(change.modified);
        let epoch = self.maps.commit(change);
        tracing::debug!(epoch, "new osdmap");
        let summary = summary(self.osdmap());
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

    /// A new epoch in which nothing changes.
    pub(crate) fn touch(&mut self, now: Time) -> Epoch {
        let change = self.maps.change(now);
        self.commit(change)
    }
}
