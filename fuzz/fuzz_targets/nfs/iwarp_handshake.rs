//! Any bytes, cut anywhere, into both ends of a connection of iWARP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::iwarp::{client, server, talk};

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let cut = usize::from(cut) + 1;
    let framed = |key: &[u8; 16]| [key, bytes].concat();
    talk(&mut server(), bytes, cut);
    talk(&mut server(), &framed(b"MPA ID Req Frame"), cut);
    talk(&mut client(), &framed(b"MPA ID Rep Frame"), cut);
});
