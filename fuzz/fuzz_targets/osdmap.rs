//! Whole OSD maps: what decodes is written and read again, and places objects without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::osdmap::OsdMap;
use onego_fuzz::{mend_map, round_trip};

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = mend_map(bytes) else { return };
    let Some(map) = round_trip::<OsdMap>(&bytes) else { return };
    for (&id, pool) in map.pools.iter().take(3) {
        let raw = pool.object_pg(id, b"object", "", "", -1);
        map.place(raw);
        map.pool_pg(raw).map(|pg| map.place(pg));
    }
});
