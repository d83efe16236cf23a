//! The small types that everything else is made of, and addresses as people write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::types as t;
use onego_fuzz::round_trip;
use onego_msgr::addr::{AddrVec, EntityAddr};

fuzz_target!(|bytes: &[u8]| {
    round_trip::<EntityAddr>(bytes);
    round_trip::<AddrVec>(bytes);
    round_trip::<t::EntityName>(bytes);
    round_trip::<t::ObjectLocator>(bytes);
    round_trip::<t::PgId>(bytes);
    round_trip::<t::SpgId>(bytes);
    round_trip::<t::HObject>(bytes);
    round_trip::<t::ReqId>(bytes);
    round_trip::<t::SnapContext>(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<EntityAddr>();
        let _ = text.parse::<AddrVec>();
        let _ = text.parse::<t::Uuid>();
    }
});
