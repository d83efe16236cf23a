//! Making, changing and removing pools.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` (`prepare_new_pool`, `prepare_pool_op`, `_prepare_remove_pool`).

use super::state::Mon;
use crate::errno::{EEXIST, ENOENT, EPERM, ERANGE};
use crate::mon::osds::ids;
use crate::mon::refusal::Refusal;
use onego_ceph::caps::{MonAccess, OsdAccess, OsdCap};
use onego_ceph::messages::{PoolOp, PoolOpKind, PoolOpReply};
use onego_ceph::osdmap::{Pool, pool_flag};
use onego_ceph::types::{Epoch, Utime};
use onego_wire::{ConnId, Time};
use std::collections::BTreeMap;

/// Placement groups of a pool for which nobody says how many (`osd_pool_default_pg_num`).
pub(in crate::mon) const DEFAULT_PG_NUM: u32 = 32;

/// Copies of each object in a pool for which nobody says how many: Ceph's three, or as many as there are OSDs.
pub(crate) fn default_size(osds: u32) -> u32 {
    osds.clamp(1, 3)
}

/// The most that a pool may have (`mon_max_pool_pg_num`).
pub(in crate::mon) const MAX_PG_NUM: u32 = 65_536;

/// The most pools there may be: a map of them still goes in one message of a few hundred KiB.
const MAX_POOLS: usize = 2048;

/// Bytes of a pool's name. Ceph has no bound; this one keeps a map of [`MAX_POOLS`] pools below a few MiB.
const MAX_NAME: usize = 1024;

/// A pool to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// Its number of placement groups.
    pub pg_num: u32,
    /// Copies of each object. With more than there are OSDs the pool is undersized, and it serves no client as long as half of
    /// its copies have no OSD. None: three, or as many as there are OSDs.
    pub size: Option<u32>,
    /// What it is for: "rbd", "rgw", or a name of one's own.
    pub application: Option<String>,
}

impl NewPool {
    /// A pool with the usual number of placement groups.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), pg_num: DEFAULT_PG_NUM, size: None, application: None }
    }

    /// The same for RBD images.
    pub fn for_images(name: impl Into<String>) -> Self {
        Self { application: Some("rbd".into()), ..Self::new(name) }
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(Refusal::invalid(format!("a pool's name has 1 to {MAX_NAME} bytes")));
    }
    Ok(())
}

/// Is it a number of placement groups that a pool may have?
pub(in crate::mon) fn check_pg_num(pg_num: u32) -> Result<(), Refusal> {
    if (1..=MAX_PG_NUM).contains(&pg_num) {
        return Ok(());
    }
    Err(Refusal::new(ERANGE, format!("'pg_num' must be from 1 to {MAX_PG_NUM}, not {pg_num}")))
}

/// Checks a number of copies. More than there are OSDs leave the pool undersized, as in Ceph.
pub(in crate::mon) fn check_size(size: u32, osds: u32) -> Result<(), Refusal> {
    /// Most copies with Ceph, whatever the number of OSDs.
    const MAX_SIZE: u32 = 10;
    let most = MAX_SIZE.max(osds);
    if (1..=most).contains(&size) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("pool size must be between 1 and {most}, not {size}")))
}

/// With fewer copies than this a pool serves nobody (`osd_pool_default_min_size`).
pub(in crate::mon) fn default_min_size(size: u32) -> u32 {
    size - size / 2
}

impl Mon {
    /// Makes a pool, unless there is one of that name, and says its id. None: it cannot be made.
    pub(crate) fn make_pool(&mut self, now: Time, pool: &NewPool) -> Option<i64> {
        if let Some(id) = self.osdmap().pool_id(&pool.name) {
            return Some(id);
        }
        self.create_pool(now, pool)
            .inspect_err(|refusal| tracing::warn!(%refusal, "a pool was not made"))
            .ok()
    }

    /// The id of a pool that must be there.
    pub(in crate::mon) fn find_pool(&self, name: &str) -> Result<i64, Refusal> {
        self.osdmap().pool_id(name).ok_or_else(|| Refusal::missing(format!("unrecognized pool '{name}'")))
    }

    /// Makes a pool, and says its id. One of that name that is there already is not touched.
    pub(crate) fn create_pool(&mut self, now: Time, new: &NewPool) -> Result<i64, Refusal> {
        check_name(&new.name)?;
        check_pg_num(new.pg_num)?;
        let map = self.osdmap();
        if map.pool_id(&new.name).is_some() {
            return Err(Refusal::new(EEXIST, format!("pool '{}' already exists", new.name)));
        }
        if map.pools.len() >= MAX_POOLS {
            return Err(Refusal::new(ERANGE, format!("there are {MAX_POOLS} pools, which is the most")));
        }
        let osds = ids(map).count() as u32;
        let size = new.size.unwrap_or(default_size(osds));
        check_size(size, osds)?;
        let Some(rule) =
            (0u8..).zip(&map.crush.rules).find_map(|(number, rule)| rule.as_ref().map(|_| number))
        else {
            return Err(Refusal::missing(
                "there is no CRUSH rule: 'osd crush rule create-replicated' makes one",
            ));
        };
        let id = map.pool_max + 1;
        let mut change = self.maps.change(now);
        let applications = new.application.iter().map(|name| (name.clone(), BTreeMap::new()));
        let pool = Pool {
            size: size as u8,
            min_size: default_min_size(size) as u8,
            pg_num: new.pg_num,
            pgp_num: new.pg_num,
            pg_num_target: new.pg_num,
            pgp_num_target: new.pg_num,
            pg_num_pending: new.pg_num,
            create_time: Utime::from(now),
            crush_rule: rule,
            application_metadata: applications.collect(),
            ..Pool::default()
        };
        change.new_pool_max = Some(id);
        change.new_pools.insert(id, pool);
        change.new_pool_names.insert(id, new.name.clone());
        self.commit(change);
        Ok(id)
    }

    /// Removes a pool. What it held is gone.
    pub(in crate::mon) fn delete_pool(&mut self, now: Time, id: i64) -> Result<Epoch, Refusal> {
        let Some(pool) = self.osdmap().pools.get(&id) else {
            return Err(Refusal::missing(format!("there is no pool {id}")));
        };
        if pool.has_flag(pool_flag::NODELETE) {
            let text = "pool deletion is disabled; you must unset nodelete flag for the pool first";
            return Err(Refusal::new(EPERM, text));
        }
        let mut change = self.maps.change(now);
        change.old_pools.insert(id);
        // What was placed by hand goes with it.
        let map = self.osdmap();
        change.old_pg_upmap = map.pg_upmap.keys().filter(|pg| pg.pool == id).copied().collect();
        change.old_pg_upmap_items = map.pg_upmap_items.keys().filter(|pg| pg.pool == id).copied().collect();
        Ok(self.commit(change))
    }

    pub(in crate::mon) fn rename_pool(&mut self, now: Time, from: &str, to: &str) -> Result<Epoch, Refusal> {
        check_name(to)?;
        let id = self.find_pool(from)?;
        if self.osdmap().pool_id(to).is_some() {
            return Err(Refusal::new(EEXIST, format!("pool '{to}' already exists")));
        }
        let mut change = self.maps.change(now);
        change.new_pool_names.insert(id, to.to_owned());
        Ok(self.commit(change))
    }

    /// The cluster is for clients from this release on.
    pub(in crate::mon) fn set_min_compat_client(&mut self, now: Time, release: u8) -> Epoch {
        if self.osdmap().require_min_compat_client == release {
            return self.maps.epoch();
        }
        let mut change = self.maps.change(now);
        change.new_require_min_compat_client = Some(release);
        self.commit(change)
    }

    /// Changes a pool that is there by `edit`, unless that changes nothing.
    pub(in crate::mon) fn edit_pool(
        &mut self,
        now: Time,
        id: i64,
        edit: impl FnOnce(&mut Pool, Epoch),
    ) -> Epoch {
        let mut change = self.maps.change(now);
        let Some(before) = self.osdmap().pools.get(&id) else { return self.maps.epoch() };
        let mut pool = before.clone();
        edit(&mut pool, change.epoch);
        if pool == *before {
            return self.maps.epoch();
        }
        change.new_pools.insert(id, pool);
        self.commit(change)
    }

    /// Changes a pool's number of placement groups.
    ///
    /// Clients must send again what they have under way, since the groups they named may be no more. With several OSDs
    /// groups only split: to become one they would have to be in one place first.
    pub(crate) fn set_pg_num(&mut self, now: Time, id: i64, pg_num: u32) -> Epoch {
        let before = self.osdmap().pools.get(&id).map_or(0, |pool| pool.pg_num);
        if pg_num < before && !self.can_merge() {
            return self.maps.epoch();
        }
        self.edit_pool(now, id, |pool, epoch| {
            pool.pgp_num = pg_num;
            pool.pgp_num_target = pg_num;
            if pool.pg_num != pg_num {
                pool.pg_num = pg_num;
                pool.pg_num_target = pg_num;
                pool.pg_num_pending = pg_num;
                pool.last_force_op_resend = epoch;
                pool.last_force_op_resend_prenautilus = epoch;
                pool.last_force_op_resend_preluminous = epoch;
            }
        })
    }

    /// Can the number of a pool's groups become smaller?
    pub(in crate::mon) fn can_merge(&self) -> bool {
        ids(self.osdmap()).count() == 1
    }

    /// A pool operation that is not given as a command: librados and librbd make these.
    pub(in crate::mon) fn pool_op(&mut self, now: Time, session: ConnId, op: &PoolOp) -> PoolOpReply {
        let outcome = if op.fsid != self.fsid {
            Err(Refusal::invalid(format!("this is cluster {}, not {}", self.fsid, op.fsid)))
        } else if !self.may_pool_op(session, op) {
            Err(Refusal::new(EPERM, "the client's capabilities do not allow it"))
        } else {
            self.run_pool_op(now, op)
        };
        let (result, output) = match outcome {
            Ok(output) => (0, output),
            Err(refusal) => {
                tracing::debug!(?op, %refusal, "pool operation refused");
                (refusal.errno, None)
            }
        };
        PoolOpReply { fsid: self.fsid, result, epoch: self.maps.epoch(), output }
    }

    /// May a client do this to a pool? A client that may write to its objects may also name snapshots of theirs
    /// (ceph `OSDMonitor::enforce_pool_op_caps`, is_unmanaged_snap_op_permitted).
    fn may_pool_op(&self, session: ConnId, op: &PoolOp) -> bool {
        if self.cap(session).allows("osd", MonAccess::READ.and(MonAccess::WRITE)) {
            return true;
        }
        if !matches!(op.op, PoolOpKind::CreateUnmanagedSnap | PoolOpKind::DeleteUnmanagedSnap) {
            return false;
        }
        let name = self.sessions.get(&session).and_then(|session| session.peer.auth_name.as_ref());
        let (Some(name), Some(authority)) = (name, self.authority()) else { return false };
        let text = authority.keyring().entries.get(name).and_then(|entry| entry.caps.get("osd"));
        let Some(cap) = text.and_then(|text| OsdCap::parse(text).ok()) else { return false };
        let id = i64::from(op.pool);
        let Some(name) = self.osdmap().pool_names.get(&id) else { return true };
        // Grants by what applications say about pools do not count, as with Ceph.
        cap.in_pool(name, &BTreeMap::new()).allows_anywhere(OsdAccess::WRITE)
    }

    fn run_pool_op(&mut self, now: Time, op: &PoolOp) -> Result<Option<Vec<u8>>, Refusal> {
        // Clients look first whether the change is there already, and send it again when its reply was lost: done again,
        // it succeeds (OSDMonitor::preprocess_pool_op).
        if op.op == PoolOpKind::Create {
            if self.osdmap().pool_id(&op.name).is_some() {
                return Ok(None);
            }
            return self.create_pool(now, &NewPool::new(&op.name)).map(|_| None);
        }
        let id = i64::from(op.pool);
        if !self.osdmap().pools.contains_key(&id) {
            if op.op == PoolOpKind::Delete {
                return Ok(None);
            }
            return Err(Refusal::new(ENOENT, format!("there is no pool {id}")));
        }
        match op.op {
            PoolOpKind::Create => Ok(None),
            PoolOpKind::Delete => self.delete_pool(now, id).map(|_| None),
            PoolOpKind::CreateSnap => self.create_pool_snap(now, id, &op.name).map(|_| None),
            PoolOpKind::DeleteSnap => self.delete_pool_snap(now, id, &op.name).map(|_| None),
            PoolOpKind::CreateUnmanagedSnap => {
                self.create_snap(now, id).map(|snap| Some(snap.to_le_bytes().to_vec()))
            }
            PoolOpKind::DeleteUnmanagedSnap => self.delete_snap(now, id, op.snap).map(|()| None),
        }
    }
}
