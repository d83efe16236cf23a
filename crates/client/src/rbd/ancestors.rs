//! What shows through an image where it has no object: the snapshot that it is a clone of, or, while it is being moved, the
//! image that it comes from; and what shows through that in turn.

use super::header::{ImageInfo, Parent, describe, info_by_id};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_ceph::cls::rbd::{GetSize, MigrationGet, MigrationSpec, migration_side};
use onego_ceph::rbd::{Features, header_object};
use onego_ceph::types::NOSNAP;
use onego_rbd::{Ancestor, DataObjects};
use std::sync::Arc;

/// Most ancestors that a clone may have. Ceph's own tools flatten long before (`rbd_max_clone_depth` would be 16).
const MAX_ANCESTORS: usize = 64;

/// What is known of the migration that an image is part of, on either side.
pub(super) async fn migration_of(pool: &Pool, info: &ImageInfo) -> Result<Option<MigrationSpec>, Error> {
    if !info.features.contains(Features::MIGRATING) {
        return Ok(None);
    }
    pool.call(&header_object(&info.id).to_string(), &MigrationGet {}).await.map(Some)
}

/// The migration of an image that is being moved here. Fails for one that is being moved away: its bytes change elsewhere by
/// now.
pub(super) async fn moved_here(pool: &Pool, info: &ImageInfo) -> Result<Option<MigrationSpec>, Error> {
    let Some(spec) = migration_of(pool, info).await? else { return Ok(None) };
    if spec.side == migration_side::DESTINATION {
        return Ok(Some(spec));
    }
    Err(Error::Unmet {
        what: format!(
            "{} is being moved to image {}: open that one, or end this by \"rbd migration abort\"",
            describe(pool, &info.name),
            spec.image_name
        ),
        errno: Errno::ROFS,
    })
}

/// The ancestors of an image at a snapshot or without one, the nearest first.
pub(super) async fn ancestors(
    pool: &Pool,
    info: &ImageInfo,
    snap: u64,
) -> Result<Option<Arc<Ancestor>>, Error> {
    let next = beneath(pool, info, snap).await?;
    ancestors_from(pool, info, next).await
}

/// The ancestors from one on.
pub(super) async fn ancestors_from(
    pool: &Pool,
    info: &ImageInfo,
    mut next: Option<Parent>,
) -> Result<Option<Arc<Ancestor>>, Error> {
    let mut chain: Vec<(DataObjects, u64)> = Vec::new();
    while let Some(parent) = next {
        if chain.len() >= MAX_ANCESTORS {
            let reason =
                format!("it has more than {MAX_ANCESTORS} ancestors: \"rbd flatten\" makes it whole");
            return Err(Error::Invalid(format!("{}: {reason}", describe(pool, &info.name))));
        }
        let home = pool.cluster().pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
        let name = format!("image with id {} (an ancestor of {})", parent.image, info.name);
        let known = info_by_id(&home, &name, &parent.image, parent.snapshot).await?;
        chain.push((known.data(&home, parent.snapshot), parent.overlap));
        next = beneath(&home, &known, parent.snapshot).await?;
    }
    Ok(chain
        .into_iter()
        .rev()
        .fold(None, |parent, (data, overlap)| Some(Arc::new(Ancestor { data, overlap, parent }))))
}

/// What shows through an image at a snapshot or without one.
async fn beneath(pool: &Pool, info: &ImageInfo, snap: u64) -> Result<Option<Parent>, Error> {
    let spec = migration_of(pool, info).await?.filter(|spec| spec.side == migration_side::DESTINATION);
    let Some(spec) = spec else { return Ok(info.parent.clone()) };
    if spec.image_id.is_empty() || !spec.source_spec.is_empty() {
        return Err(Error::Unmet {
            what: format!("{} comes from a stream or an image of format 1", describe(pool, &info.name)),
            errno: Errno::OPNOTSUPP,
        });
    }
    // Snapshots that were made here since show what the source has now.
    let source = spec.snap_seqs.iter().find(|(source, here)| **here == snap && **source != NOSNAP);
    let overlap = if snap == NOSNAP { spec.overlap.max(largest(pool, info).await?) } else { info.size };
    Ok(Some(Parent {
        pool: spec.pool,
        namespace: spec.namespace,
        image: spec.image_id,
        snapshot: source.map_or(NOSNAP, |(source, _)| *source),
        overlap,
    }))
}

/// Bytes of the largest snapshot.
async fn largest(pool: &Pool, info: &ImageInfo) -> Result<u64, Error> {
    let mut largest = 0;
    for snap in &info.snapshots {
        match pool.call(&header_object(&info.id).to_string(), &GetSize { snap: *snap }).await {
            Ok(size) => largest = largest.max(size.size),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(largest)
}
