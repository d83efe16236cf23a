//! Requests of clients to OSDs, counted by their pools.

use crate::journal::Counted;
use onego_ceph::osdmap::OsdMap;
use onego_metrics::{OperationsSnapshot, Recorder};
use onego_wire::Time;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Requests that only read, and those that may change something.
const KINDS: &[&str] = &["read", "write"];

/// Requests by the numbers of their pools, which are those of the map.
#[derive(Debug, Default)]
pub(in crate::cluster) struct PoolOperations {
    pools: FxHashMap<i64, Recorder>,
}

impl PoolOperations {
    /// A request has come.
    #[inline]
    pub(in crate::cluster) fn begin(&mut self, counted: &Counted) {
        self.pools.entry(counted.pool).or_insert_with(|| Recorder::new(KINDS)).begin();
    }

    /// Its reply is sent.
    #[inline]
    pub(in crate::cluster) fn end(&self, now: Time, counted: &Counted) {
        let Counted { since, pool, writes, bytes, has_failed } = *counted;
        if let Some(recorder) = self.pools.get(&pool) {
            recorder.end(usize::from(writes), bytes, now.since(since), has_failed);
        }
    }

    /// What was counted so far, by the names of the pools. What was counted of one that is gone is not told any more.
    pub(in crate::cluster) fn by_pool(&self, map: &OsdMap) -> BTreeMap<String, OperationsSnapshot> {
        let named = self.pools.iter().filter_map(|(id, recorder)| {
            let name = map.pool_names.get(id)?;
            Some((name.clone(), recorder.reader().snapshot()))
        });
        named.collect()
    }
}
