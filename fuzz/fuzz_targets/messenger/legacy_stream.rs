//! Any bytes, cut anywhere, into both ends of a connection of version 1: behind a banner and an address, and without.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{client_of, server_of, talk};
use onego_msgr::addr::AddrKind;

/// Bytes of the old form of an address (ceph src/include/msgr.h, `ceph_entity_addr`).
const ADDR_LEN: usize = 136;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (cut, greets, bytes) = input;
    let cut = usize::from(cut) + 1;
    let (mut server, mut client) = (server_of(AddrKind::Legacy), client_of(AddrKind::Legacy));
    if greets {
        // The client checks that the server has the address that it meant, which the fuzzer would have to find.
        let mut greeting = b"ceph v027".to_vec();
        greeting.resize(greeting.len() + ADDR_LEN, 0);
        talk(&mut server, &greeting, cut);
        let mut greeting = Vec::new();
        onego_fuzz::said(&mut server_of(AddrKind::Legacy), &mut greeting);
        talk(&mut client, &greeting, cut);
    }
    talk(&mut server, bytes, cut);
    talk(&mut client, bytes, cut);
});
