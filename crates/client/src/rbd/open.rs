//! How images are opened by their names.

use super::ancestors::{ancestors, ancestors_from, moved_here};
use super::header::{image_id, info};
use super::image::Image;
use super::migration::ObjectCopier;
use super::owner::ImageOperator;
use super::snapshot_id::snapshot_id;
use crate::ceph::error::Error;
use crate::ceph::operator::Watched;
use crate::rados::Pool;
use onego_ceph::types::NOSNAP;
use onego_rbd::{ImageFacts, Migration};

impl Image {
    /// Opens the image called `name`. One that is being moved to that name shows what has not come yet, too; one that is being
    /// moved away is not opened.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        let info = info(pool, name).await?;
        let (mut migration, mut copier) = (None, None);
        if let Some(spec) = moved_here(pool, &info).await? {
            let newest_snap = spec.snap_seqs.values().copied().filter(|snap| *snap != NOSNAP).max();
            let parent = ancestors_from(pool, &info, info.parent.clone()).await?;
            migration = Some(Migration { newest_snap: newest_snap.unwrap_or(0), parent });
            copier = Some(ObjectCopier::new(pool, &info, &spec).await?);
        }
        let parent = ancestors(pool, &info, NOSNAP).await?;
        let facts = ImageFacts { parent, ..info.facts(pool, NOSNAP) };
        let operator = Some(Box::new(ImageOperator::new(pool, &info, copier)) as Box<_>);
        Self::start(pool, info, facts, Some(Watched { operator, migration })).await
    }

    /// Opens the image called `name` for reading alone, as users may who have the capabilities of `rbd-read-only`. It
    /// is not watched: it is not known to be in use, and has the size that it has now.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Self, Error> {
        let info = info(pool, name).await?;
        moved_here(pool, &info).await?;
        Self::open_unwatched(pool, info, NOSNAP).await
    }

    /// Opens the image called `name` as it was at the snapshot `snapshot`, for reading alone. It is not watched: a snapshot
    /// that is removed meanwhile reads as an error, or as zeros.
    pub async fn open_at(pool: &Pool, name: &str, snapshot: &str) -> Result<Self, Error> {
        let id = image_id(pool, name).await?;
        let snap = snapshot_id(pool, name, &id, snapshot).await?;
        Self::open_snap(pool, name, &id, snap).await
    }
}
