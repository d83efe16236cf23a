//! CRUSH maps: what decodes is encoded to something that decodes to the same, and maps numbers without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::crush::{CrushMap, WEIGHT_ONE};
use onego_fuzz::round_trip;

fuzz_target!(|bytes: &[u8]| {
    let Some(map) = round_trip::<CrushMap>(bytes) else { return };
    let weights = vec![WEIGHT_ONE; usize::try_from(map.max_devices).unwrap_or(0).min(1000)];
    // One placement an input: each may take the most hashes that the map's bound allows.
    let rules = map.rules.len().min(256) as u32;
    if let (Some(&last), 1..) = (bytes.last(), rules) {
        map.do_rule(u32::from(last) % rules, 0x1234_5678, 3, &weights, Some(1));
    }
});
