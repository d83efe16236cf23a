//! The OSD: what it holds, its clients, and what maps change.

use super::admit::is_blocklisted;
use super::duplicates;
use super::group::Group;
use super::rights::Rights;
use super::session::{Origin, SessionId, UserId};
use super::store::{PoolObjects, PoolUsage, Store};
use super::watch::Watches;
use onego_ceph::messages::WatchNotify;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{EntityName, PgId};
use onego_msgr::addr::EntityAddr;
use onego_wire::Time;
use rustc_hash::FxHashMap;

/// How an OSD is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Memory that objects may take, bytes. A write of data that would fill more than 97 % of it fails with ENOSPC and
    /// changes nothing.
    pub memory_limit: u64,
    /// Acknowledge writes of 4 KiB and more without keeping what they bring: reads give zeros.
    pub null_writes: bool,
    /// Note what requests change, for others.
    pub transactions: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory_limit: u64::MAX, null_writes: false, transactions: false }
    }
}

/// What an OSD holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Memory that objects take, dead parts of blocks and bookkeeping included.
    pub used: u64,
    /// Memory that objects may take.
    pub limit: u64,
    /// Number of objects in all pools.
    pub objects: u64,
    /// Sum of the objects' sizes in all pools.
    pub bytes: u64,
}

/// An OSD.
pub struct Osd {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) watches: Watches,
    pub(super) groups: FxHashMap<PgId, Group>,
    /// The number of groups of each pool, by the newest map.
    pub(super) pg_nums: FxHashMap<i64, u32>,
    pub(super) sessions: FxHashMap<SessionId, Client>,
}

/// A client that is connected.
pub(super) struct Client {
    pub(super) origin: Origin,
    pub(super) rights: Rights,
}

impl Osd {
    /// An OSD without objects.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            store: Store::new(),
            watches: Watches::default(),
            groups: FxHashMap::default(),
            pg_nums: FxHashMap::default(),
            sessions: FxHashMap::default(),
        }
    }

    /// A client has connected. `name` has the global id that it was given, `addr` is the address that it says it has.
    pub fn session_opened(
        &mut self,
        session: SessionId,
        name: EntityName,
        user: UserId,
        addr: EntityAddr,
        rights: Rights,
    ) {
        let origin = Origin { session, name, addr, user };
        self.sessions.insert(session, Client { origin, rights });
    }

    /// A client's connection is gone. Its watches stay until their time is up.
    pub fn session_closed(&mut self, now: Time, session: SessionId) {
        self.sessions.remove(&session);
        self.watches.session_closed(now, session);
    }

    /// The next notification, and the session that it goes to, if that one takes it.
    pub fn poll_event(&mut self, takes: impl Fn(SessionId) -> bool) -> Option<(SessionId, WatchNotify)> {
        loop {
            let (session, event) = self.watches.poll_event(&takes)?;
            if self.sessions.contains_key(&session) {
                return Some((session, event));
            }
        }
    }

    /// Returns whether there are notifications for sessions that may take them.
    pub(crate) fn has_event(&self) -> bool {
        self.watches.has_event()
    }

    /// Returns whether there are no notifications, not even for sessions that take none.
    pub(crate) fn has_no_events(&self) -> bool {
        self.watches.has_no_events()
    }

    /// A session takes notifications again.
    pub(crate) fn resume_events(&mut self, session: SessionId) {
        self.watches.resume(session);
    }

    /// When [`timeout`](Self::timeout) wants to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.watches.deadline()
    }

    /// The deadline has passed.
    pub fn timeout(&mut self, now: Time) {
        self.watches.timeout(now);
    }

    /// There is a new map: objects of pools that are gone go, and so do watches of clients that are shut out.
    pub fn map_changed(&mut self, map: &OsdMap) {
        let gone = self.store.pools().map(|(pool, _)| pool).filter(|pool| !map.pools.contains_key(pool));
        for pool in gone.collect::<Vec<_>>() {
            for object in self.store.remove_pool(pool) {
                self.watches.object_gone(object);
            }
        }
        self.groups.retain(|pg, _| map.pools.contains_key(&pg.pool));
        self.split_and_merge(map);
        if !map.blocklist.is_empty() {
            self.watches.shut_out(|addr| is_blocklisted(map, addr));
        }
    }

    /// What is in a pool.
    pub fn pool_usage(&self, pool: i64) -> PoolUsage {
        self.store.pool(pool).map_or_else(PoolUsage::default, PoolObjects::usage)
    }

    /// What is in all pools.
    pub fn usage(&self) -> Usage {
        let empty = Usage { used: self.store.used(), limit: self.config.memory_limit, ..Usage::default() };
        self.store.pools().map(|(_, pool)| pool.usage()).fold(empty, |sum, pool| Usage {
            objects: sum.objects + pool.objects,
            bytes: sum.bytes + pool.bytes,
            ..sum
        })
    }

    /// May a client give commands to the OSD itself?
    pub(crate) fn may_command(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|client| client.rights.allow_everything())
    }

    /// Objects may take so much memory from now on.
    pub(crate) fn set_memory_limit(&mut self, limit: u64) {
        self.config.memory_limit = limit;
    }

    /// Memory that objects may take.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.config.memory_limit
    }

    /// Memory that the outcomes of one group's writes may take.
    pub(super) fn outcomes_share(&self) -> u64 {
        duplicates::share(self.config.memory_limit, self.groups.len())
    }

    /// Memory that objects take.
    pub(crate) fn used(&self) -> u64 {
        self.store.used()
    }

    /// All that it holds is gone.
    pub(crate) fn wipe(&mut self) {
        // The map is not lost: it is the monitor's.
        let pg_nums = std::mem::take(&mut self.pg_nums);
        *self = Self { pg_nums, ..Self::new(self.config.clone()) };
    }
}
