//! Incremental OSD maps, alone and applied to a map.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_fuzz::{mend_map, round_trip};
use onego_msgr::encoding::write_envelope;
use onego_wire::Writer;

fuzz_target!(|input: (bool, &[u8], bool, &[u8])| {
    let (new_client, client, new_osd, osd) = input;
    let mut w = Writer::new();
    write_envelope(&mut w, 8, 7, |w| {
        write_envelope(w, if new_client { 9 } else { 8 }, 1, |w| w.put(client));
        write_envelope(w, if new_osd { 12 } else { 9 }, 1, |w| w.put(osd));
        w.u32(0);
        w.u32(0);
    });
    let Some(bytes) = mend_map(w.as_slice()) else { return };
    let Some(mut inc) = round_trip::<Incremental>(&bytes) else { return };
    // What stands in the way of applying it is not what is tested.
    let mut map = OsdMap::default();
    map.fsid = inc.fsid;
    map.epoch = 7;
    map.set_max_osd(4);
    inc.epoch = 8;
    inc.full_crc = 0;
    let _ = map.apply(&inc);
});
