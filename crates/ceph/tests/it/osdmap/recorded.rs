//! Maps of a cluster of Ceph 20.2, as stored by its monitor.

use onego_ceph::crush::{CrushMap, MsrTunables, Tunables};
use onego_ceph::osdmap::{Incremental, OsdMap, release};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Reader;

/// Returns the maps in the file: incremental maps, followed by a full one.
fn recorded() -> Vec<&'static [u8]> {
    let mut r = Reader::new(include_bytes!("../../data/osdmap-20.2.bin"));
    let mut maps = Vec::new();
    while !r.is_empty() {
        maps.push(r.blob("a recorded map").unwrap());
    }
    maps
}

#[test]
fn every_incremental_map_of_ceph_20_leads_to_the_map_whose_checksum_it_gives() {
    let maps = recorded();
    let (whole, changes) = maps.split_last().unwrap();
    let mut map = OsdMap::default();
    let (mut new_crush, mut releases) = (0, Vec::new());
    for bytes in changes {
        let change = Incremental::from_bytes(bytes).unwrap();
        assert_eq!(&change.to_bytes(), bytes, "incremental map {}", change.epoch);
        map.apply(&change).unwrap_or_else(|error| panic!("incremental map {}: {error}", change.epoch));
        // Also checked where `apply` cannot, because the full map before could not be reproduced.
        assert!(map.reproducible);
        assert_eq!(map.crc(), change.full_crc, "map {}", change.epoch);
        new_crush += usize::from(!change.crush.is_empty());
        if releases.last() != Some(&map.require_osd_release) {
            releases.push(map.require_osd_release);
        }
    }
    assert_eq!(&map.to_bytes(), whole);
    assert_eq!(OsdMap::from_bytes(whole).as_ref(), Ok(&map));
    assert!(new_crush > 20, "only {new_crush} of the maps change CRUSH");
    assert_eq!(releases, [release::SQUID, release::TENTACLE]);
}

#[test]
fn msr_tunables_do_not_outlive_their_incremental_map() {
    let mut map = OsdMap::default();
    let changes = recorded().into_iter().map(|bytes| Incremental::from_bytes(bytes).unwrap());
    let changes: Vec<_> = changes.take(59).inspect(|change| map.apply(change).unwrap()).collect();
    let crush = CrushMap::from_bytes(&changes[58].crush).unwrap();
    assert_eq!(crush.tunables.msr, Some(MsrTunables { descents: 7, collision_tries: 9 }));
    // A client that starts with a full map lacks them, and so does every OSD after its next map.
    assert_eq!(map.crush.tunables, Tunables { msr: None, ..crush.tunables });
}
