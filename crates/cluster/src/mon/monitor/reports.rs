//! OSDs report how full they are, and the monitor looks at quotas.

use super::state::Mon;
use crate::mon::fullness::{Fullness, OSD_BITS, is_over_quota, says_full};
use crate::mon::usage::Usage;
use onego_ceph::osdmap::{Pool, Ratios, pool_flag};
use onego_ceph::types::Epoch;
use onego_wire::Time;

impl Mon {
    /// OSDs say how full they are.
    pub(crate) fn osds_filled(&mut self, now: Time, osds: &[(i32, Fullness)]) -> Epoch {
        let map = self.osdmap();
        let mut change = self.maps.change(now);
        for &(osd, fullness) in osds.iter().filter(|(osd, _)| map.exists(*osd)) {
            // What is named here is flipped.
            let flipped = (map.osd_state[osd as usize] & OSD_BITS) ^ fullness.bits();
            if flipped != 0 {
                change.new_state.insert(osd, flipped);
            }
        }
        if change.new_state.is_empty() { self.maps.epoch() } else { self.commit(change) }
    }

    /// Marks the pools that have used up their quotas, and those no longer that have not.
    pub(crate) fn check_quotas(&mut self, now: Time, usage: &Usage) -> Epoch {
        let mut change = self.maps.change(now);
        for (id, pool) in &self.osdmap().pools {
            let over = is_over_quota(pool, usage, *id);
            if over != pool.has_flag(pool_flag::FULL_QUOTA) {
                let name = &self.osdmap().pool_names[id];
                tracing::info!(pool = %name, over, "a pool has reached its quota, or is below it again");
                let flags = pool.flags ^ pool_flag::FULL_QUOTA;
                change.new_pools.insert(*id, Pool { flags, last_change: change.epoch, ..pool.clone() });
            }
        }
        if change.new_pools.is_empty() { self.maps.epoch() } else { self.commit(change) }
    }

    /// Does any pool have a quota, or did it have one that it has used up?
    pub(crate) fn has_quotas(&self) -> bool {
        let limited = |pool: &Pool| {
            pool.quota_max_bytes > 0 || pool.quota_max_objects > 0 || pool.has_flag(pool_flag::FULL_QUOTA)
        };
        self.osdmap().pools.values().any(limited)
    }

    /// Does the map say that something is full or nearly so, or may it come to that without a write of its own?
    pub(crate) fn watches_fullness(&self) -> bool {
        says_full(self.osdmap()) || self.has_quotas()
    }

    /// Sets how full OSDs may be.
    pub(in crate::mon) fn set_ratios(&mut self, now: Time, set: impl FnOnce(&mut Ratios)) -> Epoch {
        let mut ratios = self.osdmap().ratios;
        set(&mut ratios);
        if ratios == self.osdmap().ratios {
            return self.maps.epoch();
        }
        let mut change = self.maps.change(now);
        change.new_ratios = ratios;
        self.commit(change)
    }
}
