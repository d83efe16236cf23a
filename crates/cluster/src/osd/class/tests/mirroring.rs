//! Mirroring, as users set it up.

use super::snapshots::add;
use super::*;
use onego_ceph::cls::rbd::{
    MirrorImage, MirrorPeer, SnapshotNamespace, mirror_direction, mirror_mode, mirror_state,
};

fn peer(uuid: &str, site: &str) -> MirrorPeer {
    MirrorPeer {
        uuid: uuid.into(),
        site_name: site.into(),
        client_name: "rbd".into(),
        pool: -1,
        direction: mirror_direction::BOTH,
        mirror_uuid: String::new(),
        last_seen: Utime::default(),
    }
}

/// A pool that is mirrored.
fn mirrored() -> Bench {
    let mut bench = Bench::new();
    bench.call(&rbd::MirrorUuidSet { uuid: "own".into() });
    bench.call(&rbd::MirrorModeSet { mode: mirror_mode::IMAGE });
    bench
}

#[test]
fn a_pool_is_mirrored_once_it_has_a_name_for_it() {
    let mut bench = Bench::new();
    let (set_uuid, set_mode) =
        (|uuid: &str| rbd::MirrorUuidSet { uuid: uuid.into() }, |mode| rbd::MirrorModeSet { mode });
    assert_eq!(bench.call(&rbd::MirrorModeGet {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&set_mode(mirror_mode::DISABLED)), 0);
    assert_eq!(bench.call(&set_mode(mirror_mode::POOL)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set_uuid("")), failed(Errno::INVAL));
    assert_eq!(bench.call(&set_uuid("u")), 0);
    assert_eq!(bench.call(&set_mode(3)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set_mode(mirror_mode::POOL)), 0);
    assert_eq!(bench.reply(&rbd::MirrorModeGet {}), mirror_mode::POOL);
    assert_eq!(bench.reply(&rbd::MirrorUuidGet {}), "u");
    assert_eq!(bench.call(&set_uuid("v")), failed(Errno::INVAL));
    assert_eq!(bench.call(&set_mode(mirror_mode::DISABLED)), 0);
    assert_eq!(bench.call(&rbd::MirrorModeGet {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&rbd::MirrorUuidGet {}), failed(Errno::NOENT));
}

#[test]
fn a_pool_has_peers_at_other_sites() {
    let mut bench = Bench::new();
    let add = |peer| rbd::MirrorPeerAdd { peer };
    assert_eq!(bench.call(&add(peer("1", "a"))), failed(Errno::INVAL), "nothing is mirrored");
    let mut bench = mirrored();
    let nobody = MirrorPeer { client_name: String::new(), ..peer("1", "a") };
    let sender = MirrorPeer { direction: mirror_direction::SEND, ..peer("1", "a") };
    for wrong in [nobody, sender, peer("own", "a"), peer("1", ""), peer("", "a")] {
        assert_eq!(bench.call(&add(wrong)), failed(Errno::INVAL));
    }
    assert_eq!(bench.call(&add(peer("1", "a"))), 0);
    assert_eq!(bench.call(&add(peer("1", "b"))), failed(Errno::STALE));
    assert_eq!(bench.call(&add(peer("2", "a"))), failed(Errno::EXIST));
    assert_eq!(bench.call(&add(peer("2", "b"))), 0);
    let site =
        |uuid: &str, site: &str| rbd::MirrorPeerSetCluster { uuid: uuid.into(), site_name: site.into() };
    assert_eq!(bench.call(&site("1", "b")), failed(Errno::EXIST));
    assert_eq!(bench.call(&site("3", "c")), failed(Errno::NOENT));
    assert_eq!(bench.call(&site("1", "c")), 0);
    let client = rbd::MirrorPeerSetClient { uuid: "1".into(), client_name: "x".into() };
    assert_eq!(bench.call(&client), 0);
    let direction = rbd::MirrorPeerSetDirection { uuid: "1".into(), direction: mirror_direction::RECEIVE };
    assert_eq!(bench.call(&direction), 0);
    let changed =
        MirrorPeer { client_name: "x".into(), direction: mirror_direction::RECEIVE, ..peer("1", "c") };
    assert_eq!(bench.reply(&rbd::MirrorPeerList {}), [changed, peer("2", "b")]);
    let disable = rbd::MirrorModeSet { mode: mirror_mode::DISABLED };
    assert_eq!(bench.call(&disable), failed(Errno::BUSY));
    for uuid in ["1", "2", "2"] {
        assert_eq!(bench.call(&rbd::MirrorPeerRemove { uuid: uuid.into() }), 0);
    }
    assert_eq!(bench.call(&disable), 0);
}

#[test]
fn an_image_that_is_mirrored_has_one_id_everywhere() {
    let mut bench = mirrored();
    let set = |id: &str, global: &str, state| rbd::MirrorImageSet {
        image_id: id.into(),
        image: MirrorImage { global_id: global.into(), state, mode: 1 },
    };
    let remove = |id: &str| rbd::MirrorImageRemove { image_id: id.into() };
    assert_eq!(bench.call(&set("1", "g", mirror_state::DISABLING)), failed(Errno::NOENT));
    assert_eq!(bench.call(&set("1", "g", mirror_state::ENABLED)), 0);
    assert_eq!(bench.call(&set("1", "h", mirror_state::ENABLED)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set("2", "g", mirror_state::ENABLED)), failed(Errno::EXIST));
    assert_eq!(bench.call(&set("2", "h", mirror_state::ENABLED)), 0);
    let all = rbd::MirrorImageList { after: String::new(), max: 9 };
    assert_eq!(
        bench.reply(&all).into_iter().collect::<Vec<_>>(),
        [("1".to_owned(), "g".to_owned()), ("2".to_owned(), "h".to_owned())]
    );
    assert_eq!(bench.reply(&rbd::MirrorImageGetImageId { global_id: "h".into() }), "2");
    assert_eq!(bench.reply(&rbd::MirrorImageGet { image_id: "2".into() }).global_id, "h");
    let statuses = bench.reply(&rbd::MirrorImageStatusList { after: "1".into(), max: 9 });
    assert_eq!((statuses.images.len(), statuses.statuses.len()), (1, 0));
    let summary = bench.reply(&rbd::MirrorImageStatusGetSummary { peers: Vec::new() });
    assert_eq!(summary, [(0, 2)].into());
    assert_eq!(bench.call(&remove("1")), failed(Errno::BUSY));
    assert_eq!(bench.call(&set("1", "g", mirror_state::DISABLING)), 0);
    assert_eq!(bench.call(&remove("1")), 0);
    assert_eq!(bench.call(&remove("1")), failed(Errno::NOENT));
    assert_eq!(bench.call(&rbd::MirrorImageGetImageId { global_id: "g".into() }), failed(Errno::NOENT));
}

#[test]
fn a_snapshot_says_which_peers_still_need_it() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    let namespace = SnapshotNamespace::Mirror {
        state: 2,
        complete: false,
        peer_uuids: vec!["1".into(), "2".into()],
        primary_uuid: "p".into(),
        primary_snap: 3,
        last_copied_object: 0,
        snap_seqs: Default::default(),
    };
    bench.call(&rbd::SnapshotAdd { namespace, ..add("m", 4) });
    bench.call(&add("u", 5));
    let unlink = |snap, uuid: &str| rbd::MirrorSnapshotUnlinkPeer { snap, uuid: uuid.into() };
    assert_eq!(bench.call(&unlink(9, "1")), failed(Errno::NOENT));
    assert_eq!(bench.call(&unlink(5, "1")), failed(Errno::INVAL));
    assert_eq!(bench.call(&unlink(4, "1")), 0);
    assert_eq!(bench.call(&unlink(4, "1")), failed(Errno::NOENT));
    let progress = |snap| rbd::MirrorSnapshotSetCopyProgress { snap, complete: true, last_copied_object: 7 };
    assert_eq!(bench.call(&progress(5)), failed(Errno::INVAL));
    assert_eq!(bench.call(&progress(4)), 0);
    let info = bench.reply(&rbd::SnapshotGet { snap: 4 });
    let SnapshotNamespace::Mirror { complete, peer_uuids, last_copied_object, .. } = info.namespace else {
        panic!("it is another snapshot")
    };
    assert_eq!((complete, peer_uuids, last_copied_object), (true, vec!["2".to_owned()], 7));
}

#[test]
fn a_namespace_is_mirrored_to_another_that_is_named_before() {
    let mut bench = Bench::new();
    let set = |namespace: &str| rbd::MirrorRemoteNamespaceSet { namespace: namespace.into() };
    assert_eq!(bench.call(&rbd::MirrorRemoteNamespaceGet {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&set("outer")), 0);
    assert_eq!(bench.reply(&rbd::MirrorRemoteNamespaceGet {}), "outer");
    bench.call(&rbd::MirrorUuidSet { uuid: "own".into() });
    bench.call(&rbd::MirrorModeSet { mode: mirror_mode::IMAGE });
    assert_eq!(bench.call(&set("other")), failed(Errno::INVAL));
    assert_eq!(bench.reply(&rbd::MirrorRemoteNamespaceGet {}), "outer");
}
