use super::quiesce::{Quiesce, quiesced};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps;
use crate::rbd::owner::Progress;
use crate::rbd::snapshot::{SnapshotKind, taken, users};
use onego_rbd::notify::Operation;

/// Error of the class for a number older than that of a concurrently created snapshot.
const STALE: Errno = Errno(116);

const ATTEMPTS: u32 = 16;

/// Creates a snapshot of an image. Users of the image pause their writes meanwhile; otherwise creation fails.
pub async fn create(pool: &Pool, image: &str, name: &str) -> Result<(), Error> {
    check_name(name)?;
    create_quiesced(pool, image, name, Quiesce::Must).await
}

/// Fails for snapshot names that commands cannot express. Ceph's `rbd` refuses them too, unlike its library.
pub fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.contains(['/', '@']) {
        return Err(Error::Invalid(format!(
            "invalid snapshot name {name:?}: it must not be empty, and not contain / or @"
        )));
    }
    Ok(())
}

/// Creates a snapshot of an image with any name (see [`check_name`]).
pub async fn create_quiesced(pool: &Pool, image: &str, name: &str, quiesce: Quiesce) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    refuse_existing(&header, &header.details().await?, name, &SnapshotKind::User)?;
    // The users' last writes happen before this client takes the lock, and they are paused by then.
    let flags = Quiesce::Skip.flags();
    let ask = |id| Operation::SnapCreate { snapshot: users(name), id, flags };
    let header = &header;
    let make = |details| async move { create_in(header, &details, name, SnapshotKind::User).await.map(drop) };
    let progress = Progress::ignored();
    quiesced(&[header], quiesce, header.owned_or_asked(ask, &progress, make)).await
}

pub(in crate::rbd) async fn create_in(
    header: &Header,
    details: &ImageDetails,
    name: &str,
    kind: SnapshotKind,
) -> Result<u64, Error> {
    refuse_existing(header, details, name, &kind)?;
    let data = header.data_pool(&details.info).await?;
    let snap = add(header, &data, name, kind).await?;
    maps::snapshot_made(header, details, snap).await?;
    header.notify_changed().await?;
    Ok(snap)
}

fn refuse_existing(
    header: &Header,
    details: &ImageDetails,
    name: &str,
    kind: &SnapshotKind,
) -> Result<(), Error> {
    let exists = details.snapshots.iter().any(|snapshot| snapshot.name == name && snapshot.kind == *kind);
    if exists { Err(Error::Exists { what: format!("snapshot {}@{name}", header.name) }) } else { Ok(()) }
}

async fn add(header: &Header, data: &Pool, name: &str, kind: SnapshotKind) -> Result<u64, Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let snap = data.new_snap_id().await?;
        let Err(error) = header.add_snapshot(name, snap, &kind).await else { return Ok(snap) };
        // The first error is the one to report.
        let _ = data.remove_snap_id(snap).await;
        match error {
            Error::Refused { errno: STALE, .. } if attempts < ATTEMPTS => {}
            Error::Refused { errno: Errno::DQUOT, .. } => {
                return Err(Error::Unmet {
                    what: format!("{} has reached its snapshot limit", header.describe()),
                    errno: Errno::DQUOT,
                });
            }
            error => return Err(taken(error, &header.name, name)),
        }
    }
}
