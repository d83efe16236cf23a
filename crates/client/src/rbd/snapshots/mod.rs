//! Snapshots of images: creation, listing, renaming, protection, rollback and removal.

mod create;
mod protect;
mod quiesce;
mod remove;
mod rollback;

pub use super::snapshot::{Snapshot, SnapshotKind};
pub(super) use create::create_in;
pub use create::{check_name, create, create_quiesced};
pub use protect::{protect, unprotect};
pub(super) use protect::{protect_in, unprotect_in};
pub use quiesce::Quiesce;
pub(super) use quiesce::quiesced;
pub use remove::{purge, remove, remove_by_id};
pub use rollback::rollback;
pub(super) use rollback::rollback_in;

use super::header::{Header, ImageDetails};
use super::owner::Progress;
use super::snapshot::{taken, users};
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_ceph::cls::rbd::{SnapshotGetLimit, SnapshotSetLimit};
use onego_rbd::notify::Operation;

/// Lists the snapshots of an image, oldest first.
pub async fn list(pool: &Pool, image: &str) -> Result<Vec<Snapshot>, Error> {
    Ok(ImageDetails::of(pool, image).await?.snapshots)
}

/// Renames a user's snapshot.
pub async fn rename(pool: &Pool, image: &str, from: &str, to: &str) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    let known = header.details().await?.snapshot(from)?.id;
    let ask = |id| Operation::SnapRename { snap: known, snapshot: users(to), id };
    header
        .owned_or_asked(ask, &Progress::ignored(), |details| async move {
            rename_in(header, details.snapshot(from)?.id, to).await
        })
        .await
}

pub(super) async fn rename_in(header: &Header, snap: u64, to: &str) -> Result<(), Error> {
    header.rename_snapshot(snap, to).await.map_err(|error| taken(error, &header.name, to))?;
    header.notify_changed().await
}

/// Returns the maximum number of snapshots of an image; `None` if unlimited.
pub async fn limit(pool: &Pool, image: &str) -> Result<Option<u64>, Error> {
    let limit = Header::named(pool, image).await?.call(&SnapshotGetLimit {}).await?;
    Ok(Some(limit).filter(|limit| *limit != u64::MAX))
}

/// Sets the maximum number of snapshots of an image. Existing snapshots above the limit stay.
pub async fn set_limit(pool: &Pool, image: &str, limit: Option<u64>) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    header.change(&SnapshotSetLimit { limit: limit.unwrap_or(u64::MAX) }).await?;
    header.notify_changed().await
}
