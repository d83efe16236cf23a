//! State of a client's watches and notifications.

use super::table::NOBODY;
use crate::client::request::{WatchId, WatchTarget};
use crate::osdmap::{OsdMap, Placement};
use crate::types::PgId;
use onego_buf::List;
use onego_wire::Time;
use std::collections::BTreeMap;
#[derive(Debug)]
pub(super) enum LingerKind {
    Watch { timeout: u32 },
    Notify { payload: List, timeout: u32, notify_id: Option<u64> },
}

/// An OSD keeps its watchers as long as this does not change (osd_types.cc, is_new_interval).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pg: PgId,
    placement: Placement,
    size: u8,
    min_size: u8,
    pg_num: u32,
}

#[derive(Debug)]
pub(super) struct Linger<T> {
    pub(super) target: WatchTarget,
    pub(super) what: LingerKind,
    /// Caller's ticket, until the watch is established or the notification has ended.
    pub(super) ticket: Option<T>,
    pub(super) committed: bool,
    /// Time of the newest registration or ping.
    pub(super) asked: Time,
    /// Time of the newest one that the OSD has answered: the watch was established then.
    pub(super) confirmed: Option<Time>,
    pub(super) lost: bool,
    pub(super) generation: u32,
    pub(super) request: Option<u64>,
    pub(super) ping: Option<u64>,
    pub(super) interval: Option<Interval>,
    pub(super) moved: bool,
    pub(super) deadline: Option<Time>,
}

impl<T> Linger<T> {
    pub(super) fn osd(&self) -> i32 {
        self.interval.as_ref().map_or(NOBODY, |interval| interval.placement.acting_primary)
    }
}

#[derive(Debug)]
pub(super) struct Lingers<T> {
    pub(super) by_id: BTreeMap<WatchId, Linger<T>>,
    pub(super) last: u64,
}

impl<T> Default for Lingers<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), last: 0 }
    }
}

impl<T> Lingers<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn are_on(&self, osd: i32) -> bool {
        self.by_id.values().any(|linger| linger.osd() == osd && !linger.lost)
    }

    /// Marks the lingers of an OSD, which is gone or has another address, for registration.
    pub(super) fn moved(&mut self, osd: i32) {
        self.by_id.values_mut().filter(|linger| linger.osd() == osd).for_each(|linger| linger.moved = true);
    }
}

pub(super) fn interval(map: &OsdMap, target: &WatchTarget) -> Option<Interval> {
    let pool = map.pools.get(&target.pool)?;
    let pg = pool.pg(pool.object_pg(target.pool, &target.object, b"", &target.namespace, -1));
    let (size, min_size, pg_num) = (pool.size, pool.min_size, pool.pg_num);
    Some(Interval { pg, placement: map.place(pg), size, min_size, pg_num })
}
