//! How full the cluster is, as its OSD counts it.

use crate::osd::PoolUsage;
use std::collections::BTreeMap;

/// How full the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes there is room for.
    pub total: u64,
    /// Bytes taken.
    pub used: u64,
    /// The pools that hold something or were used.
    pub pools: BTreeMap<i64, PoolUsage>,
}

impl Usage {
    /// Bytes that are free.
    pub fn available(&self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The share of the room that is taken.
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }

    /// Use of one pool.
    pub fn pool(&self, id: i64) -> PoolUsage {
        self.pools.get(&id).copied().unwrap_or_default()
    }

    /// Objects in all pools.
    pub fn objects(&self) -> u64 {
        self.pools.values().map(|pool| pool.objects).sum()
    }

    /// Bytes of the data of all objects.
    pub fn bytes(&self) -> u64 {
        self.pools.values().map(|pool| pool.bytes).sum()
    }
}
