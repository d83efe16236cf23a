//! Segments that are right but for what the fuzzer says, on a connection with memory of all kinds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::iwarp::{Item, Session};

fuzz_target!(|input: (bool, u8, Vec<Item<'_>>)| {
    let (crc, cut, items) = input;
    let mut session = Session::new(crc);
    items.iter().for_each(|item| session.item(item, usize::from(cut) * 64 + 1));
    session.end();
});
