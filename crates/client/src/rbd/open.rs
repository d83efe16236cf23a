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

/// Errors of the cluster to a user who may not watch an image.
const MAY_NOT: [Errno; 2] = [Errno::PERM, Errno::ACCES];

impl Image {
    /// Opens the image called `name`. One that is being migrated to that name also shows the data that has not been
    /// copied yet; one that is being migrated away cannot be opened.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        Self::open_watched(&Header::named(pool, name).await?).await
    }

    /// Like [`open`](Self::open), for an image by its id, which may be in the trash.
    pub async fn open_by_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        Self::open_watched(&Header::with_id_and_name(pool, id).await?).await
    }

    /// Like [`open`](Self::open), for an image whose info is known, even if it has been renamed since.
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

    /// Opens the image called `name` read-only, as a user with the capabilities of `rbd-read-only` can. The image is
    /// not watched: other clients do not see it in use, and it keeps its current size.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Self, Error> {
        Self::open_unwatched(&Header::named(pool, name).await?).await
    }

    /// Like [`open_read_only`](Self::open_read_only), for an image by its id, which may be in the trash.
    pub async fn open_by_id_read_only(pool: &Pool, id: &str) -> Result<Self, Error> {
        Self::open_unwatched(&Header::with_id_and_name(pool, id).await?).await
    }

    /// Like [`open_read_only`](Self::open_read_only), for an image whose info is known, even if it has been renamed
    /// since.
    pub async fn open_known_read_only(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        Self::open_unwatched(&Header::of(pool, image).renamed().await?).await
    }

    async fn open_unwatched(header: &Header) -> Result<Self, Error> {
        let (info, facts) = known(header, NOSNAP).await?;
        moved_here(&header.pool, &info).await?;
        Self::start(&header.pool, info, facts, OpenAs::Unwatched).await
    }

    /// Opens the image called `name` at the snapshot `snapshot`, read-only. Reads fail once the snapshot is removed;
    /// a user who may not watch the image then reads zeros instead.
    pub async fn open_at(pool: &Pool, name: &str, snapshot: &str) -> Result<Self, Error> {
        let header = Header::named(pool, name).await?;
        let snap = header.snapshot_id(snapshot).await?;
        Self::open_snap(&header, snap).await
    }

    /// Like [`open_at`](Self::open_at), for an image whose info is known, even if it has been renamed since, and a
    /// snapshot of any kind by its number.
    pub async fn open_known_at(pool: &Pool, image: &ImageInfo, snapshot: u64) -> Result<Self, Error> {
        Self::open_snap(&Header::of(pool, image).renamed().await?, snapshot).await
    }

    /// Opens an image at a snapshot by number; `NOSNAP` means the present.
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

    pub(super) async fn open_source(header: &Header, snap: u64) -> Result<Self, Error> {
        let (info, facts) = known(header, snap).await?;
        Self::start(&header.pool, info, facts, OpenAs::Unwatched).await
    }
}

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
        // The image may have been flattened meanwhile and its parent removed.
        let newer = header.info(snap).await?;
        if newer.parent == info.parent {
            return Err(missing);
        }
        info = newer;
    }
}
