//! The watches and notifications of a client, and where each is registered.

use super::table::NOBODY;
use crate::client::request::{WatchId, WatchTarget};
use crate::osdmap::{OsdMap, Placement};
use crate::types::PgId;
use onego_buf::List;
use onego_wire::Time;
use std::collections::BTreeMap;
/// What lingers.
#[derive(Debug)]
pub(super) enum What {
    Watch { timeout: u32 },
    Notify { payload: List, timeout: u32, notify_id: Option<u64> },
}

/// As long as this stays the same, an OSD does not forget who watches (osd_types.cc, is_new_interval).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pg: PgId,
    placement: Placement,
    size: u8,
    min_size: u8,
    pg_num: u32,
}

/// A watch or a notification.
#[derive(Debug)]
pub(super) struct Linger<T> {
    pub(super) target: WatchTarget,
    pub(super) what: What,
    /// The caller's, until the watch is established or the notification has ended.
    pub(super) ticket: Option<T>,
    /// The OSD has confirmed the watch.
    pub(super) committed: bool,
    /// When the newest request that registers or pings was sent.
    pub(super) asked: Time,
    /// When the newest of them was sent that the OSD has answered: the watch was known to hold then.
    pub(super) confirmed: Option<Time>,
    pub(super) lost: bool,
    /// Times it was registered again.
    pub(super) generation: u32,
    /// The request that registers it, and the one that pings, if they wait for a reply.
    pub(super) request: Option<u64>,
    pub(super) ping: Option<u64>,
    pub(super) interval: Option<Interval>,
    /// It must be registered again.
    pub(super) moved: bool,
    pub(super) deadline: Option<Time>,
}

impl<T> Linger<T> {
    pub(super) fn osd(&self) -> i32 {
        self.interval.as_ref().map_or(NOBODY, |interval| interval.placement.acting_primary)
    }
}

/// The watches and notifications of a client.
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

    /// Does anything linger on this OSD?
    pub(super) fn are_on(&self, osd: i32) -> bool {
        self.by_id.values().any(|linger| linger.osd() == osd && !linger.lost)
    }

    /// The OSD is gone or elsewhere: what lingers on it must be registered again.
    pub(super) fn moved(&mut self, osd: i32) {
        self.by_id.values_mut().filter(|linger| linger.osd() == osd).for_each(|linger| linger.moved = true);
    }
}

/// The interval that an object's placement group is in.
pub(super) fn interval(map: &OsdMap, target: &WatchTarget) -> Option<Interval> {
    let pool = map.pools.get(&target.pool)?;
    let pg = pool.pg(pool.object_pg(target.pool, &target.object, b"", &target.namespace, -1));
    let (size, min_size, pg_num) = (pool.size, pool.min_size, pool.pg_num);
    Some(Interval { pg, placement: map.place(pg), size, min_size, pg_num })
}
