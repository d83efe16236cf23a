//! A banner and frames with right checksums into both ends of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_fuzz::{Frame, client, compressing, server, talk};
use onego_msgr::Method;
use onego_wire::Writer;

fuzz_target!(|input: (u8, bool, Vec<Frame<'_>>)| {
    let (cut, compression, frames) = input;
    let mut w = Writer::new();
    // msgr2.rst, "Banner": 16 bytes of features follow, of which revision 1 is the first, and compression the second.
    w.put(b"ceph v2\n");
    w.u16(16);
    w.u64(if compression { 3 } else { 1 });
    w.u64(0);
    for frame in &frames {
        frame.write(&mut w);
    }
    let cut = usize::from(cut) + 1;
    let (mut client, mut server) = if compression { compressing(Method::Zstd) } else { (client(), server()) };
    talk(&mut server, w.as_slice(), cut);
    talk(&mut client, w.as_slice(), cut);
});
