//! The structures of cephx, and keys, keyrings and capabilities as people write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::round_trip;
use onego_msgr::auth as a;
use onego_msgr::encoding::Decode;

fuzz_target!(|bytes: &[u8]| {
    round_trip::<a::AuthName>(bytes);
    round_trip::<a::Key>(bytes);
    round_trip::<a::TicketBlob>(bytes);
    // What older peers send is written back as newer ones have it.
    let _ = a::Introduction::from_bytes(bytes);
    let _ = a::Authenticate::from_bytes(bytes);
    let _ = a::Authorize::from_bytes(bytes);
    let _ = a::AuthorizeReply::from_bytes(bytes);
    let _ = a::ServiceTicket::from_bytes(bytes);
    let _ = a::ServiceTicketInfo::from_bytes(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = a::Key::from_base64(text);
        let _ = onego_ceph::caps::MonCap::parse(text);
        let _ = onego_ceph::caps::OsdCap::parse(text);
        if let Ok(keyring) = a::Keyring::parse(text) {
            assert_eq!(a::Keyring::parse(&keyring.to_text()).as_ref(), Ok(&keyring));
        }
    }
});
