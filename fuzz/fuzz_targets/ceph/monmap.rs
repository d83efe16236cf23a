//! Maps of monitors and managers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::monmap::MonMap;
use onego_fuzz::round_trip;

fuzz_target!(|bytes: &[u8]| {
    round_trip::<MonMap>(bytes);
    round_trip::<MgrMap>(bytes);
});
