//! Removal of snapshots, and detachment of clones. Each may cause the other: removing the last snapshot that needs
//! the parent detaches the clone, and detaching the last clone of a hidden snapshot removes that.

use super::header::{Header, ImageDetails};
use super::maps;
use super::snapshot::{Snapshot, SnapshotKind};
use crate::ceph::error::{Errno, Error};
use crate::rados::WriteOp;
use onego_ceph::cls::rbd::{
    ChildDetach, ChildImageSpec, ChildrenList, ParentGet, ParentImageSpec, RemoveChild, SnapshotGet,
    SnapshotTrashAdd,
};
use onego_ceph::rbd::{ImageFormat, header_object};
use std::pin::Pin;

/// Object that lists a pool's clones of the first format by parent (`RBD_CHILDREN`).
pub(super) const CHILDREN: &str = "rbd_children";

/// Removes a snapshot of any kind, even if the pool is full.
///
/// Source: ceph `src/librbd/operation/SnapshotRemoveRequest.cc`.
pub(super) async fn remove_snapshot(header: &Header, details: &ImageDetails, snap: u64) -> Result<(), Error> {
    let header = &header.with_full_try();
    let missing = || Error::NotFound { what: format!("snapshot {snap} of {}", header.describe()) };
    let snapshot = details.snapshots.iter().find(|snapshot| snapshot.id == snap).ok_or_else(missing)?;
    if snapshot.is_protected() {
        let what = header.describe_snapshot(snapshot);
        return Err(Error::Unmet {
            what: format!("{what} is protected from removal: run \"rbd snap unprotect\" first"),
            errno: Errno::BUSY,
        });
    }
    // Images of format 1 have no clones.
    let is_needed = match header.format {
        ImageFormat::V1 => false,
        ImageFormat::V2 => hide_from_users(header, details, snapshot).await?,
    };
    if !is_needed {
        maps::snapshot_removed(header, details, snap).await?;
        ignore_missing(header.data_pool(&details.info).await?.remove_snap_id(snap).await)?;
        header.remove_snapshot(snapshot).await?;
    }
    header.notify_changed().await
}

/// Hides a snapshot until its last clone is gone. Returns whether it has clones.
async fn hide_from_users(
    header: &Header,
    details: &ImageDetails,
    snapshot: &Snapshot,
) -> Result<bool, Error> {
    let snap = snapshot.id;
    let is_hidden = matches!(snapshot.kind, SnapshotKind::Trash { .. });
    if !is_hidden {
        // The removal of the last clone then removes the snapshot as well.
        match header.change(&SnapshotTrashAdd { snap }).await {
            Ok(()) | Err(Error::Exists { .. } | Error::Refused { errno: Errno::OPNOTSUPP, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let has_children = header.call(&SnapshotGet { snap }).await?.child_count > 0
        && !forget_former_children(header, snap).await?;
    // No other snapshot, nor the image, needs the parent.
    let others_need_parent = details.info.parent.is_some()
        || details.snapshots.iter().any(|other| other.id != snap && other.overlap.is_some());
    if snapshot.overlap.is_some() && !others_need_parent {
        detach_from_parent(header, details).await?;
    }
    if has_children && is_hidden {
        let what = format!(
            "{} has clones: flatten or remove them; \"rbd children --all\" lists them, including those in the trash",
            header.describe_snapshot(snapshot)
        );
        return Err(Error::Unmet { what, errno: Errno::BUSY });
    }
    Ok(has_children)
}

/// Removes a snapshot's records of clones that have been flattened or removed: the client may have died before it
/// updated the snapshot. Returns whether none are left.
async fn forget_former_children(header: &Header, snap: u64) -> Result<bool, Error> {
    let mut are_gone = true;
    for child in header.call(&ChildrenList { snap }).await? {
        let pool = header.pool.cluster().pool_by_id(child.pool).await?.in_namespace(&child.namespace);
        let parent = match pool.call(&header_object(&child.image_id).to_string(), &ParentGet {}).await {
            Err(Error::NotFound { .. }) => None,
            other => Some(other?),
        };
        let here = (header.pool.id(), header.pool.namespace(), header.id.as_str(), snap);
        let is_child =
            parent.is_some_and(|of| (of.pool, of.namespace.as_str(), of.image_id.as_str(), of.snap) == here);
        if is_child {
            are_gone = false;
        } else {
            ignore_missing(header.change(&ChildDetach { snap, child }).await)?;
        }
    }
    Ok(are_gone)
}

/// Detaches a clone on the parent's side: it is no longer counted or listed. A hidden snapshot is removed after its
/// last clone.
///
/// Boxed, because that removal may detach a clone in turn.
///
/// Source: ceph `src/librbd/image/DetachChildRequest.cc`.
pub(super) fn detach_from_parent<'a>(
    child: &'a Header,
    details: &'a ImageDetails,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
    Box::pin(async move {
        let Some(origin) = &details.origin else { return Ok(()) };
        if details.is_counted_clone() {
            detach_counted(child, origin).await
        } else {
            let remove = RemoveChild {
                pool: origin.pool,
                image_id: origin.image_id.clone(),
                snap: origin.snap,
                child: child.id.clone(),
            };
            let removed = child.pool.operate_write(CHILDREN, WriteOp::new().call(&remove)).await;
            ignore_missing(removed.map(drop))
        }
    })
}

async fn detach_counted(child: &Header, origin: &ParentImageSpec) -> Result<(), Error> {
    let pool = child.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
    let parent = Header::with_id(&pool.with_flags_of(&child.pool), &origin.image_id).await?;
    let spec = ChildImageSpec {
        pool: child.pool.id(),
        image_id: child.id.clone(),
        namespace: child.pool.namespace().to_owned(),
    };
    ignore_missing(parent.change(&ChildDetach { snap: origin.snap, child: spec }).await)?;
    let details = match parent.details().await {
        // An earlier attempt removed the snapshot after detaching the clone.
        Err(Error::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    let snapshot = details.snapshots.iter().find(|snapshot| snapshot.id == origin.snap);
    let is_waiting = snapshot.is_some_and(|snapshot| {
        matches!(snapshot.kind, SnapshotKind::Trash { .. }) && snapshot.children == 0
    });
    if is_waiting {
        return remove_snapshot(&parent, &details, origin.snap).await;
    }
    parent.notify_changed().await
}

pub(super) fn ignore_missing(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}
