use super::*;
use onego_ceph::rbd::HEADER_UPDATE;

fn every_notification() -> Vec<Notification> {
    let client = ClientId { gid: 4123, handle: 94 };
    let id = AsyncRequestId { client, request: 7 };
    let snapshot = || SnapshotName { name: "s".into(), namespace: SnapshotNamespace::User };
    let grouped = || SnapshotName {
        name: "g".into(),
        namespace: SnapshotNamespace::Group { pool: 3, group_id: "x".into(), snapshot_id: "y".into() },
    };
    let operations = vec![
        Operation::Flatten { id },
        Operation::Resize { size: 1 << 40, id, allow_shrink: true },
        Operation::SnapCreate { snapshot: grouped(), id, flags: 3 },
        Operation::SnapRemove { snapshot: snapshot(), id },
        Operation::RebuildObjectMap { id },
        Operation::SnapRename { snap: 9, snapshot: snapshot(), id },
        Operation::SnapProtect { snapshot: snapshot(), id },
        Operation::SnapUnprotect { snapshot: snapshot(), id },
        Operation::Rename { name: "other".into(), id },
        Operation::UpdateFeatures { features: 61, enabled: false, id },
        Operation::Migrate { id },
        Operation::Sparsify { id, sparse_size: 4096 },
        Operation::Quiesce { id },
        Operation::Unquiesce { id },
        Operation::MetadataUpdate { key: "k".into(), value: Some("v".into()), id },
        Operation::MetadataUpdate { key: "k".into(), value: None, id },
    ];
    let mut all = vec![
        Notification::AcquiredLock { client },
        Notification::ReleasedLock { client },
        Notification::RequestLock { client, force: true },
        Notification::HeaderUpdate,
        Notification::AsyncProgress { id, offset: 5, total: 6 },
        Notification::AsyncComplete { id, result: -30 },
        Notification::Other { code: 77 },
    ];
    all.extend(operations.into_iter().map(Notification::Operation));
    all
}

#[test]
fn every_notification_survives_a_round_trip() {
    for notification in every_notification() {
        assert_eq!(Notification::from_bytes(&notification.to_bytes()), Ok(notification));
    }
    assert_eq!(Response::from_bytes(&Response { result: -30 }.to_bytes()), Ok(Response { result: -30 }));
}

#[test]
fn a_truncated_notification_is_rejected() {
    for notification in every_notification() {
        let bytes = notification.to_bytes();
        for end in 1..bytes.len() {
            assert!(Notification::from_bytes(&bytes[..end]).is_err(), "{notification:?} cut at {end}");
        }
    }
}

#[test]
fn a_name_longer_than_its_notification_is_rejected() {
    let mut bytes =
        Notification::Operation(Operation::Rename { name: "ab".into(), id: AsyncRequestId::default() })
            .to_bytes();
    bytes[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Notification::from_bytes(&bytes).is_err());
}

#[test]
fn a_header_update_is_encoded_as_by_librbd() {
    assert_eq!(Notification::HeaderUpdate.to_bytes(), HEADER_UPDATE);
    assert_eq!(Notification::from_bytes(&[]), Ok(Notification::HeaderUpdate));
}

#[test]
fn fields_that_old_versions_lack_get_defaults() {
    // Version 1: the client that requests the lock does not send its id.
    let bytes = [1, 1, 4, 0, 0, 0, 2, 0, 0, 0];
    let asked = Notification::RequestLock { client: ClientId::default(), force: false };
    assert_eq!(Notification::from_bytes(&bytes), Ok(asked));
}
