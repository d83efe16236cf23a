//! What pools take and what they could still take, each object being stored as often as its pool has copies.
//!
//! Source: ceph `src/mon/PGMap.cc` (`get_rule_avail`, `dump_object_stat_sum`).

use super::osds::is_in;
use super::usage::Usage;
use crate::osd::PoolUsage;
use onego_ceph::messages::PoolStat;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::PgId;

/// The space of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct PoolSpace {
    /// What was done with the pool and is in it, an object counting once.
    pub(super) usage: PoolUsage,
    /// Copies of objects that there should be, and those of them that there are not.
    pub(super) copies: u64,
    pub(super) degraded: u64,
    /// Bytes that all copies have.
    pub(super) used: u64,
    /// Bytes that OSDs could still take.
    pub(super) raw_available: u64,
    /// Bytes that clients could still write.
    pub(super) available: u64,
}

impl PoolSpace {
    /// The same as the statistics that clients ask for.
    pub(super) fn stat(&self) -> PoolStat {
        let usage = &self.usage;
        PoolStat {
            num_bytes: usage.bytes,
            num_objects: usage.objects,
            num_object_clones: usage.clones,
            num_object_copies: self.copies,
            num_objects_degraded: self.degraded,
            num_rd: usage.reads,
            num_rd_kb: usage.read_bytes >> 10,
            num_wr: usage.writes,
            num_wr_kb: usage.written_bytes >> 10,
            allocated: self.used,
            stored: self.used,
            ..PoolStat::default()
        }
    }

    pub(super) fn of(map: &OsdMap, usage: &Usage, id: i64) -> Self {
        let size = map.pools.get(&id).map_or(1, |pool| u64::from(pool.size).max(1));
        let of_pool = usage.pool(id);
        let copies = of_pool.objects * size;
        let pg = |seed| PgId { pool: id, seed };
        let groups = usage.groups.range(pg(0)..=pg(u32::MAX));
        let degraded = groups.map(|(_, group)| group.degraded).sum::<u64>().min(copies);
        let there = if copies == 0 { 0.0 } else { (copies - degraded) as f64 / copies as f64 };
        let raw_available = raw_available(map, usage);
        Self {
            usage: of_pool,
            copies,
            degraded,
            used: ((of_pool.bytes * size) as f64 * there) as u64,
            raw_available,
            available: raw_available / size,
        }
    }

    /// The share that the pool has in what it could have.
    pub(super) fn share(&self) -> f64 {
        match self.used {
            0 => 0.0,
            used => used as f64 / (used as f64 + self.raw_available as f64),
        }
    }
}

/// Bytes that OSDs could still take before the first of them is full, each getting its share of what comes.
fn raw_available(map: &OsdMap, usage: &Usage) -> u64 {
    let osds = || usage.osds.iter().filter(|(osd, _)| is_in(map, **osd));
    let weight = |osd: i32| f64::from(map.osd_weight[osd as usize]);
    let all: f64 = osds().map(|(osd, _)| weight(*osd)).sum();
    let reserved = 1.0 - f64::from(map.ratios.full);
    let until_full = osds().map(|(osd, used)| {
        let free = used.available() as f64 - used.total as f64 * reserved;
        free.max(0.0) * all / weight(*osd)
    });
    until_full.min_by(f64::total_cmp).unwrap_or(0.0) as u64
}
