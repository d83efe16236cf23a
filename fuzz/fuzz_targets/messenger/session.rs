//! Frames with right checksums into both ends of a connection on which messages may flow.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{Frame, session, talk};
use onego_wire::Writer;

fuzz_target!(|input: (u8, Vec<Frame<'_>>)| {
    let (cut, frames) = input;
    let mut w = Writer::new();
    for frame in &frames {
        frame.write(&mut w);
    }
    let (mut client, mut server) = session();
    let cut = usize::from(cut) + 1;
    talk(&mut server, w.as_slice(), cut);
    talk(&mut client, w.as_slice(), cut);
});
