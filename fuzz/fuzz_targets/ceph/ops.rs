//! The operations of a request, and what their results hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_buf::{List, Segment};
use onego_ceph::ops::{Op, Tmap, TmapCommand, decode_omap};
use onego_wire::Reader;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (front, data) = input;
    let mut r = Reader::new(front);
    let mut list = List::from(Segment::copy_from(data));
    while Op::decode(&mut r, &mut list).is_ok() {}
    let _ = decode_omap(&mut Reader::new(data));
    if let Ok(map) = Tmap::decode(data) {
        assert!(Tmap::decode(&map.to_bytes()) == Ok(map), "what was written can be read");
    }
    let mut r = Reader::new(data);
    while TmapCommand::decode(&mut r).is_ok() {}
});
