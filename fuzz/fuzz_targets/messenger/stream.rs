//! Any bytes, cut anywhere, into both ends of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{client, server, talk};

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let cut = usize::from(cut) + 1;
    talk(&mut server(), bytes, cut);
    talk(&mut client(), bytes, cut);
});
