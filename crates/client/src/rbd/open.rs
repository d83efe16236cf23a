//! How images are opened by their names and their ids.

use super::ancestors::{ancestors, ancestors_by_header, moved_here};
use super::header::{Header, ImageInfo};
use super::image::{Image, OpenAs};
use super::migration::ObjectCopier;
use super::owner::ImageOperator;
use crate::ceph::error::{Errno, Error};
use crate::ceph::operator::Watched;
use crate::rados::Pool;
use onego_ceph::client::Error as ProtocolError;
use onego_ceph::types::NOSNAP;
use onego_rbd::{ImageFacts, Migration};

/// What the cluster says to a user that may not watch an image.
const MAY_NOT: [Errno; 2] = [Errno::PERM, Errno::ACCES];

impl Image {
    /// Opens the image called `name`. One that is being moved to that name shows what has not come yet, too; one that is being
    /// moved away is not opened.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        Self::open_watched(&Header::named(pool, name).await?).await
    }

    /// The same of an image by its id, which may be in the trash.
    pub async fn open_by_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        Self::open_watched(&Header::with_id_and_name(pool, id).await?).await
    }

    /// The same of an image that was known before, whatever it is called by now.
    pub async fn open_known(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        Self::open_watched(&Header::of(pool, image).renamed().await?).await
    }

    pub(super) async fn open_watched(header: &Header) -> Result<Self, Error> {
        let pool = &header.pool;
        let (info, facts) = known(header, NOSNAP).await?;
        let (mut migration, mut copier) = (None, None);
        if let Some(spec) = moved_here(pool, &info).await? {
            let newest_snap = spec.snap_seqs.values().copied().filter(|snap| *snap != NOSNAP).max();
            let parent = ancestors_by_header(pool, &info).await?;
            migration = Some(Migration { newest_snap: newest_snap.unwrap_or(0), parent });
            copier = Some(ObjectCopier::new(pool, &info, &spec).await?);
        }
        let operator = Some(Box::new(ImageOperator::new(pool, &info, copier)) as Box<_>);
        Self::start(pool, info, facts, OpenAs::ReadWrite(Watched { operator, migration })).await
    }

    /// Opens the image called `name` for reading alone, as users may who have the capabilities of `rbd-read-only`. It
    /// is not watched: it is not known to be in use, and has the size that it has now.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Self, Error> {
        Self::open_unwatched(&Header::named(pool, name).await?).await
    }

    /// The same of an image by its id, which may be in the trash.
    pub async fn open_by_id_read_only(pool: &Pool, id: &str) -> Result<Self, Error> {
        Self::open_unwatched(&Header::with_id_and_name(pool, id).await?).await
    }

    /// The same of an image that was known before, whatever it is called by now.
    pub async fn open_known_read_only(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        Self::open_unwatched(&Header::of(pool, image).renamed().await?).await
    }

    async fn open_unwatched(header: &Header) -> Result<Self, Error> {
        let (info, facts) = known(header, NOSNAP).await?;
        moved_here(&header.pool, &info).await?;
        Self::start(&header.pool, info, facts, OpenAs::Unwatched).await
    }

    /// Opens the image called `name` as it was at the snapshot `snapshot`, for reading alone. Reads fail once the snapshot is
    /// removed. A user that may not watch the image does not see that, and reads zeros then.
    pub async fn open_at(pool: &Pool, name: &str, snapshot: &str) -> Result<Self, Error> {
        let header = Header::named(pool, name).await?;
        let snap = header.snapshot_id(snapshot).await?;
        Self::open_snap(&header, snap).await
    }

    /// The same of an image that was known before, whatever it is called by now, and of a snapshot of any kind by its number.
    pub async fn open_known_at(pool: &Pool, image: &ImageInfo, snapshot: u64) -> Result<Self, Error> {
        Self::open_snap(&Header::of(pool, image).renamed().await?, snapshot).await
    }

    /// The same of a snapshot by its number; `NOSNAP` is the image as it is.
    pub(super) async fn open_snap(header: &Header, snap: u64) -> Result<Self, Error> {
        let pool = &header.pool;
        let (info, facts) = known(header, snap).await?;
        moved_here(pool, &info).await?;
        match Self::start(pool, info.clone(), facts.clone(), OpenAs::ReadOnly).await {
            Err(Error::Protocol(ProtocolError::Refused { errno })) if MAY_NOT.contains(&Errno(-errno)) => {
                Self::start(pool, info, facts, OpenAs::Unwatched).await
            }
            other => other,
        }
    }

    /// The same of an image that is being moved away. It is not watched.
    pub(super) async fn open_source(header: &Header, snap: u64) -> Result<Self, Error> {
        let (info, facts) = known(header, snap).await?;
        Self::start(&header.pool, info, facts, OpenAs::Unwatched).await
    }
}

/// What has to be known of an image to open it, at a snapshot or without one.
async fn known(header: &Header, snap: u64) -> Result<(ImageInfo, ImageFacts), Error> {
    let pool = &header.pool;
    let mut info = header.info(snap).await?;
    loop {
        let missing = match ancestors(pool, &info, snap).await {
            Ok(parent) => {
                let facts = ImageFacts { parent, ..info.facts(pool, snap) };
                return Ok((info, facts));
            }
            Err(error @ Error::NotFound { .. }) => error,
            Err(error) => return Err(error),
        };
        // It may have got all of the parent's bytes meanwhile, and the parent may be gone.
        let newer = header.info(snap).await?;
        if newer.parent == info.parent {
            return Err(missing);
        }
        info = newer;
    }
}
