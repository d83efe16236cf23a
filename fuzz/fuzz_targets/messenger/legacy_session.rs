//! Messages with right checksums, and any other bytes, into both ends of a connection of version 1 on which messages may
//! flow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{LegacyItem, session_of, talk};
use onego_msgr::addr::AddrKind;
use onego_wire::Writer;

fuzz_target!(|input: (u8, Vec<LegacyItem<'_>>)| {
    let (cut, items) = input;
    let mut w = Writer::new();
    for (number, item) in items.iter().enumerate() {
        item.write(number as u64 + 1, &mut w);
    }
    let (mut client, mut server) = session_of(AddrKind::Legacy);
    let cut = usize::from(cut) + 1;
    talk(&mut server, w.as_slice(), cut);
    talk(&mut client, w.as_slice(), cut);
});
