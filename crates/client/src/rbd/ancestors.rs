//! What shows through an image where it has no object: the snapshot that it is a clone of, or, while it is being moved, the
//! image that it comes from; and what shows through that in turn.

use super::header::{Header, ImageInfo, Parent, describe};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_ceph::cls::rbd::{GetSize, MigrationGet, MigrationSpec, migration_side};
use onego_ceph::rbd::Features;
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
    pool.call(&info.header_object(), &MigrationGet {}).await.map(Some)
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

/// An ancestor of an image.
pub(super) struct Generation {
    /// Its pool.
    pub(super) home: Pool,
    pub(super) info: ImageInfo,
    pub(super) snapshot: u64,
    /// Bytes of it that show through, from the start.
    pub(super) overlap: u64,
}

impl Generation {
    /// Where its data lies.
    pub(super) fn data(&self) -> DataObjects {
        self.info.data(&self.home, self.snapshot)
    }
}

/// The ancestors of an image at a snapshot or without one.
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
    next: Option<Parent>,
) -> Result<Option<Arc<Ancestor>>, Error> {
    let descend = |parent, ancestor: Generation| {
        Some(Arc::new(Ancestor { data: ancestor.data(), overlap: ancestor.overlap, parent }))
    };
    Ok(lineage_from(pool, info, next).await?.into_iter().rev().fold(None, descend))
}

/// What is known of the ancestors of an image at a snapshot or without one, the nearest first.
pub(super) async fn lineage(pool: &Pool, info: &ImageInfo, snap: u64) -> Result<Vec<Generation>, Error> {
    let next = beneath(pool, info, snap).await?;
    lineage_from(pool, info, next).await
}

async fn lineage_from(
    pool: &Pool,
    info: &ImageInfo,
    mut next: Option<Parent>,
) -> Result<Vec<Generation>, Error> {
    let mut chain: Vec<Generation> = Vec::new();
    while let Some(parent) = next {
        if chain.len() >= MAX_ANCESTORS {
            let reason =
                format!("it has more than {MAX_ANCESTORS} ancestors: \"rbd flatten\" makes it whole");
            return Err(Error::Invalid(format!("{}: {reason}", describe(pool, &info.name))));
        }
        let home = pool.cluster().pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
        let name = format!("image with id {} (an ancestor of {})", parent.image, info.name);
        let known = Header::v2(&home, &parent.image, &name).info(parent.snapshot).await?;
        next = beneath(&home, &known, parent.snapshot).await?;
        chain.push(Generation { home, info: known, snapshot: parent.snapshot, overlap: parent.overlap });
    }
    Ok(chain)
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
        match pool.call(&info.header_object(), &GetSize { snap: *snap }).await {
            Ok(size) => largest = largest.max(size.size),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(largest)
}
