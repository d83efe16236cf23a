//! Frames with right checksums, compressed or not, into both ends of a connection that may be compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{Frame, compressed_session, talk};
use onego_msgr::Method;
use onego_wire::Writer;

fuzz_target!(|input: (u8, u8, Vec<Frame<'_>>)| {
    let (method, cut, frames) = input;
    let mut w = Writer::new();
    for frame in &frames {
        frame.write(&mut w);
    }
    let methods = [Method::Snappy, Method::Zlib, Method::Zstd, Method::Lz4];
    let (mut client, mut server) = compressed_session(methods[usize::from(method) % methods.len()]);
    let cut = usize::from(cut) + 1;
    talk(&mut server, w.as_slice(), cut);
    talk(&mut client, w.as_slice(), cut);
});
