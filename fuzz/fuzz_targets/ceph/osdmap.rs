//! Whole OSD maps: what decodes is written and read again, and places objects without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::osdmap::OsdMap;
use onego_fuzz::{mend_map, round_trip};

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = mend_map(bytes) else { return };
    let Some(map) = round_trip::<OsdMap>(&bytes) else { return };
    // One group alone: each may take all the work that a number's mapping is allowed.
    if let Some((&id, pool)) = map.pools.first_key_value() {
        map.place(pool.object_pg(id, b"object", b"", b"", -1));
    }
});
