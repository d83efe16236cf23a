//! CRUSH maps: what decodes is encoded to something that decodes to the same, and maps numbers without harm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::crush::{CrushMap, WEIGHT_ONE};
use onego_fuzz::round_trip;

fuzz_target!(|bytes: &[u8]| {
    let Some(map) = round_trip::<CrushMap>(bytes) else { return };
    let weights = vec![WEIGHT_ONE; usize::try_from(map.max_devices).unwrap_or(0).min(1000)];
    for rule in 0..map.rules.len().min(4) as u32 {
        map.do_rule(rule, 0x1234_5678, 3, &weights, Some(1));
    }
});
