//! Requirements of a map on its readers.
//!
//! Source: ceph `src/osd/OSDMap.cc`, OSDMap::get_features and OSDMap::get_min_compat_client.

use super::flags::release;
use super::map::OsdMap;
use crate::crush::{Rule, Weights};

impl OsdMap {
    /// Returns the oldest release whose clients can place objects by this map.
    pub fn min_compat_client(&self) -> u8 {
        let crush = &self.crush;
        let tunables = &crush.tunables;
        let has_straw2 = || {
            let mut buckets = crush.buckets.iter().flatten();
            buckets.any(|bucket| matches!(bucket.weights, Weights::Straw2 { .. }))
        };
        if tunables.msr.is_some() && crush.rules.iter().flatten().any(Rule::is_msr) {
            release::SQUID
        } else if !self.pg_upmap_primaries.is_empty() {
            release::REEF
        } else if !self.pg_upmap.is_empty()
            || !self.pg_upmap_items.is_empty()
            || !crush.choose_args.is_empty()
        {
            release::LUMINOUS
        } else if tunables.chooseleaf_stable != 0 {
            release::JEWEL
        } else if has_straw2() {
            release::HAMMER
        } else {
            release::FIREFLY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crush::CrushMap;
    use crate::types::PgId;
    use std::sync::Arc;

    #[test]
    fn explicit_placement_requires_newer_clients() {
        let mut map = OsdMap::default();
        assert_eq!(map.min_compat_client(), release::JEWEL);
        map.pg_upmap_items.insert(PgId { pool: 1, seed: 0 }, vec![(0, 1)]);
        assert_eq!(map.min_compat_client(), release::LUMINOUS);
        map.pg_upmap_primaries.insert(PgId { pool: 1, seed: 0 }, 1);
        assert_eq!(map.min_compat_client(), release::REEF);
        map = OsdMap::default();
        let crush: &mut CrushMap = Arc::make_mut(&mut map.crush);
        crush.tunables.chooseleaf_stable = 0;
        assert!(map.min_compat_client() < release::JEWEL);
    }
}
