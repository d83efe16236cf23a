use super::sides::{Origin, Sides, state};
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::admin::remove_but_for_name;
use crate::rbd::header::{Header, TRASH};
use crate::rbd::pools::restore;
use crate::rbd::release::{detach_from_parent, ignore_missing, remove_snapshot};
use crate::rbd::sources::SourceSpec;
use onego_ceph::cls::rbd::{DirRemoveImage, MigrationRemove, SetProtectionStatus, TrashRemove, protection};
use onego_ceph::rbd::{DIRECTORY, id_object};

/// Commits an executed migration: removes a source that was migrated, and leaves an imported source unchanged. Calls
/// `progress` with (done, total) in bytes.
pub async fn commit(pool: &Pool, image: &str, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let sides = Sides::of(pool, image).await?;
    sides.check_state(&[state::EXECUTED], "has not been executed: run \"rbd migration execute\" first")?;
    let Sides { origin, destination, .. } = &sides;
    ignore_missing(destination.change(&MigrationRemove {}).await)?;
    destination.notify_changed().await?;
    let source = match origin {
        Origin::Moved(source) => source,
        Origin::Imported(spec) => return forget_imported_parent(spec, destination).await,
    };
    forget_former_parent(source, destination).await?;
    remove_all(source, progress).await?;
    let entry = TrashRemove { id: source.id.clone() };
    ignore_missing(source.pool.operate_write(TRASH, WriteOp::new().call(&entry)).await.map(drop))
}

/// Removes a flattened destination from the list of its former parent's clones. librbd's preparation first makes the
/// destination a clone, and then removes the parent only from its header.
///
/// Source: ceph `src/librbd/api/Migration.cc` (`create_dst_image`).
async fn forget_former_parent(source: &Header, destination: &Header) -> Result<(), Error> {
    if destination.details().await?.origin.is_some() {
        return Ok(());
    }
    detach_from_parent(destination, &source.details().await?).await
}

/// Like [`forget_former_parent`], for an imported source, which may have been removed, or have no parent.
async fn forget_imported_parent(spec: &str, destination: &Header) -> Result<(), Error> {
    let Ok(spec) = spec.parse::<SourceSpec>() else { return Ok(()) };
    match spec.find_image(destination.pool.cluster()).await {
        Ok(Some(source)) => ignore_missing(forget_former_parent(&source.header, destination).await),
        Ok(None) => Ok(()),
        Err(error) => ignore_missing(Err(error)),
    }
}

/// Aborts a migration by removing the destination with all data written to it. A migrated source returns to its
/// former place unchanged. Calls `progress` with (done, total) in bytes.
pub async fn abort(pool: &Pool, image: &str, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    abort_sides(&Sides::of(pool, image).await?, progress).await
}

pub(super) async fn abort_sides(sides: &Sides, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let Sides { origin, destination, .. } = sides;
    match destination.details().await {
        Ok(_) => {
            remove_all(destination, progress).await?;
            let Header { pool, id, name, .. } = destination;
            let entry = DirRemoveImage { name: name.clone(), id: id.clone() };
            ignore_missing(pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop))?;
            ignore_missing(pool.remove(&id_object(name).to_string()).await)?;
        }
        Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let Origin::Moved(source) = origin else { return Ok(()) };
    restore(&source.pool, &source.id, None).await?;
    ignore_missing(source.change(&MigrationRemove {}).await)?;
    source.notify_changed().await
}

/// Removes one side with its snapshots, except for its name.
async fn remove_all(header: &Header, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    if let Some(watcher) = header.pool.watchers(&header.object()).await?.first() {
        return Err(Error::Busy { what: header.describe(), reason: format!("{watcher} has it open") });
    }
    // From here on it is an ordinary image, as removal requires.
    ignore_missing(header.change(&MigrationRemove {}).await)?;
    for snapshot in header.details().await?.snapshots.iter().rev() {
        if snapshot.is_protected() {
            let status = protection::UNPROTECTED;
            header.change(&SetProtectionStatus { snap: snapshot.id, status }).await?;
        }
        remove_snapshot(header, &header.details().await?, snapshot.id).await?;
    }
    remove_but_for_name(header, progress).await
}
