use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::owner::Progress;
use crate::rbd::release::remove_snapshot;
use crate::rbd::snapshot::{Snapshot, SnapshotKind, users};
use onego_rbd::notify::{Operation, SnapshotName};

/// Removes a user's snapshot, even if the pool is full. If clones need it, it stays hidden until the last of them is
/// gone.
pub async fn remove(pool: &Pool, image: &str, name: &str) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?.with_full_try();
    let ask = |id| Operation::SnapRemove { snapshot: users(name), id };
    header
        .owned_or_asked(ask, &Progress::ignored(), |details| async move {
            remove_snapshot(header, &details, details.snapshot(name)?.id).await
        })
        .await
}

/// Removes a snapshot of any kind by its number.
pub async fn remove_by_id(pool: &Pool, image: &str, id: u64) -> Result<(), Error> {
    let header = Header::named(pool, image).await?.with_full_try();
    let details = header.details().await?;
    remove_known(&header, details.snapshot_by_id(id)?).await
}

async fn remove_known(header: &Header, known: &Snapshot) -> Result<(), Error> {
    let snapshot = SnapshotName { name: known.name.clone(), namespace: known.kind.clone() };
    let ask = |id| Operation::SnapRemove { snapshot: snapshot.clone(), id };
    let remove = |details| async move { remove_snapshot(header, &details, known.id).await };
    header.owned_or_asked(ask, &Progress::ignored(), remove).await
}

/// Removes all unprotected user snapshots of an image, and returns the names of the protected ones. Also removes
/// hidden snapshots whose clones are gone. Calls `progress` with (done, total) in snapshots.
pub async fn purge(
    pool: &Pool,
    image: &str,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<Vec<String>, Error> {
    let header = Header::named(pool, image).await?.with_full_try();
    let details = header.details().await?;
    remove_waiting(&header, &details).await?;
    let users = details.snapshots.iter().filter(|snapshot| snapshot.is_users());
    let (protected, removable): (Vec<_>, Vec<_>) = users.partition(|snapshot| snapshot.is_protected());
    let all = (removable.len() + protected.len()) as u64;
    for (done, snapshot) in removable.iter().enumerate() {
        remove_known(&header, snapshot).await?;
        progress(done as u64 + 1, all);
    }
    Ok(protected.into_iter().map(|snapshot| snapshot.name.clone()).collect())
}

/// Removes hidden snapshots whose last clone is gone, if that went unnoticed.
async fn remove_waiting(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    let hidden = |snapshot: &&Snapshot| matches!(snapshot.kind, SnapshotKind::Trash { .. });
    for snapshot in details.snapshots.iter().filter(hidden) {
        match remove_known(header, snapshot).await {
            // It still has clones, or was removed meanwhile.
            Ok(()) | Err(Error::Unmet { errno: Errno::BUSY, .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
