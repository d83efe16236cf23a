//! Placement groups by the map.

use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::PgId;
use std::collections::BTreeMap;

/// All groups of a map.
pub(crate) fn all(map: &OsdMap) -> impl Iterator<Item = PgId> {
    map.pools.iter().flat_map(|(&pool, one)| (0..one.pg_num).map(move |seed| PgId { pool, seed }))
}

/// How many placement groups each OSD serves.
pub(crate) fn by_osd(map: &OsdMap) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    let groups = all(map).flat_map(|pg| map.place(pg).acting);
    groups.for_each(|osd| *counts.entry(osd).or_default() += 1);
    counts
}
