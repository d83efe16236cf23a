//! Incremental maps with changes that a monitor alone cannot be made to emit.

use super::random::{self, Shape};
use onego_ceph::osdmap::{
    CrimsonChange, Incremental, IntervalSet, MAX_OSDS, MapError, OsdMap, StretchMode, state,
};
use onego_ceph::types::{PgId, Utime, Uuid};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::DecodeError;

const PG: PgId = PgId { pool: 1, seed: 0 };

fn map() -> OsdMap {
    let mut map = random::map(Shape { seed: 5, osds: 20, osds_per_host: 2, pgs: 40 });
    map.version = OsdMap::VERSION;
    map
}

/// Returns an increment of `map` without changes.
fn next(map: &OsdMap) -> Incremental {
    Incremental {
        fsid: map.fsid,
        epoch: map.epoch + 1,
        modified: Utime { sec: 1_800_000_000, nsec: 0 },
        cluster_snapshot: map.cluster_snapshot.clone(),
        ..Incremental::default()
    }
}

/// Applies the increment after a round trip through its encoding.
fn apply(map: &mut OsdMap, change: &Incremental) -> Result<(), MapError> {
    let received = Incremental::from_bytes(&change.to_bytes()).unwrap();
    assert_eq!(&received, change);
    map.apply(&received)
}

#[test]
fn an_increment_of_another_cluster_or_epoch_is_rejected() {
    let map = map();
    let other = Incremental { fsid: Uuid([9; 16]), ..next(&map) };
    assert!(matches!(apply(&mut map.clone(), &other), Err(MapError::OtherCluster { .. })));
    for epoch in [map.epoch, map.epoch + 2] {
        let change = Incremental { epoch, ..next(&map) };
        assert_eq!(
            apply(&mut map.clone(), &change),
            Err(MapError::OtherEpoch { from: map.epoch, to: epoch })
        );
    }
}

#[test]
fn an_osd_beyond_max_osd_is_rejected() {
    let map = map();
    for osd in [-1, 20, i32::MAX] {
        let mut changes = vec![next(&map); 4];
        changes[0].new_weight.insert(osd, 1);
        changes[1].new_state.insert(osd, 1);
        changes[2].new_up_thru.insert(osd, 1);
        changes[3].new_primary_affinity.insert(osd, 1);
        for change in changes {
            assert_eq!(apply(&mut map.clone(), &change), Err(MapError::NoSuchOsd { osd, max_osd: 20 }));
        }
    }
    let change = Incremental { new_max_osd: Some(MAX_OSDS as i32 + 1), ..next(&map) };
    assert!(matches!(apply(&mut map.clone(), &change), Err(MapError::Decode(DecodeError::OverBound { .. }))));
}

#[test]
fn a_full_map_replaces_the_old_one() {
    let mut map = map();
    let mut whole = random::map(Shape { seed: 6, osds: 10, osds_per_host: 1, pgs: 40 });
    whole.fsid = map.fsid;
    whole.epoch = map.epoch + 1;
    let mut change = next(&map);
    change.full_map = whole.to_bytes();
    change.new_max_osd = Some(500);
    apply(&mut map, &change).unwrap();
    assert_eq!(map, whole);

    let mut wrong = next(&map);
    wrong.full_map = whole.to_bytes();
    assert!(matches!(apply(&mut map, &wrong), Err(MapError::OtherEpoch { .. })));
}

#[test]
fn the_checksum_of_a_reproducible_result_is_verified() {
    let map = map();
    let mut good = map.clone();
    apply(&mut good, &next(&map)).unwrap();
    let right = Incremental { full_crc: good.crc(), ..next(&map) };
    apply(&mut map.clone(), &right).unwrap();
    let wrong = Incremental { full_crc: good.crc() ^ 1, ..next(&map) };
    assert!(matches!(apply(&mut map.clone(), &wrong), Err(MapError::Decode(DecodeError::Checksum { .. }))));
    let mut foreign = map.clone();
    foreign.reproducible = false;
    apply(&mut foreign, &wrong).unwrap();
}

#[test]
fn a_destroyed_osd_is_cleared_and_a_new_one_has_its_address() {
    let mut map = map();
    let osd = (0..20).find(|osd| map.is_up(*osd)).unwrap();
    let mut change = next(&map);
    change.new_state.insert(osd, 0);
    apply(&mut map, &change).unwrap();
    assert!(map.exists(osd) && !map.is_up(osd));
    assert_eq!(map.client_addr(osd), None);
    assert_eq!(map.osd_info[osd as usize].down_at, map.epoch);
    assert_eq!(map.osd_xinfo[osd as usize].down_stamp, map.modified);

    let mut change = next(&map);
    change.new_state.insert(osd, state::EXISTS);
    apply(&mut map, &change).unwrap();
    assert!(!map.exists(osd));
    assert!(map.osd_uuid[osd as usize].is_zero());

    let mut change = next(&map);
    let addrs: onego_msgr::addr::AddrVec = "v2:10.0.0.9:6800/1".parse().unwrap();
    change.new_up_client.insert(osd, addrs.clone());
    apply(&mut map, &change).unwrap();
    assert_eq!(map.client_addr(osd), Some(&addrs));
    assert_eq!(map.osd_info[osd as usize].up_from, map.epoch);
}

#[test]
fn settings_of_new_releases_are_applied() {
    let mut map = map();
    let network = "any:10.9.0.0:0/16".parse().unwrap();
    let mode = StretchMode { enabled: true, bucket_count: 2, degraded: 0, recovering: 1, bucket: 8 };
    let mut change = next(&map);
    change.crimson = CrimsonChange::Allow;
    change.new_stretch_mode = Some(mode);
    change.new_range_blocklist.insert(network, Utime { sec: 1, nsec: 2 });
    change.new_pg_upmap_primaries.insert(PG, 3);
    change.new_require_osd_release = Some(18);
    apply(&mut map, &change).unwrap();
    assert!(map.allow_crimson);
    assert_eq!(map.stretch_mode, mode);
    assert!(map.range_blocklist.contains_key(&network));
    assert_eq!(map.pg_upmap_primaries[&PG], 3);
    assert_eq!(map.require_osd_release, 18);
    assert_eq!(OsdMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));

    let mut change = next(&map);
    change.crimson = CrimsonChange::Forbid;
    change.old_range_blocklist.push(network);
    change.old_pg_upmap_primaries.insert(PG);
    apply(&mut map, &change).unwrap();
    assert!(!map.allow_crimson && !map.range_blocklist.contains_key(&network));
    assert!(map.pg_upmap_primaries.is_empty());
}

#[test]
fn removed_snapshots_are_queued_until_purged() {
    let mut map = map();
    map.removed_snaps_queue.clear();
    let snaps = |start, len| {
        let mut set = IntervalSet::default();
        set.insert(start, len);
        set
    };
    let mut change = next(&map);
    change.new_removed_snaps.insert(1, snaps(4, 4));
    apply(&mut map, &change).unwrap();
    assert_eq!(map.removed_snaps_queue[&1], snaps(4, 4));
    let mut change = next(&map);
    change.new_purged_snaps.insert(1, snaps(4, 2));
    apply(&mut map, &change).unwrap();
    assert_eq!(map.removed_snaps_queue[&1], snaps(6, 2));
    let mut change = next(&map);
    change.new_purged_snaps.insert(1, snaps(6, 2));
    apply(&mut map, &change).unwrap();
    assert!(map.removed_snaps_queue.is_empty());
}

#[test]
fn a_damaged_map_is_rejected_by_its_checksum() {
    let bytes = random::map(Shape { seed: 1, osds: 10, osds_per_host: 2, pgs: 20 }).to_bytes();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(OsdMap::from_bytes(&damaged).is_err(), "byte {at}");
    }
}
