//! Ancestors of an image, which supply the data of absent objects: the parent snapshot of a clone, or the source
//! image or file of a migration, and their own ancestors in turn.

use super::header::{Header, ImageInfo, Parent, describe};
use super::sources::{MigrationSource, SourceFile, SourceImage, snap_at, source_of};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_ceph::cls::rbd::{GetSize, MigrationGet, MigrationSpec, migration_side};
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use onego_rbd::{Ancestor, AncestorData, DataObjects};
use std::sync::Arc;

/// Most ancestors of a clone. Ceph's own tools flatten long before (`rbd_max_clone_depth` defaults to 16).
const MAX_ANCESTORS: usize = 64;

pub(super) async fn migration_of(pool: &Pool, info: &ImageInfo) -> Result<Option<MigrationSpec>, Error> {
    if !info.features.contains(Features::MIGRATING) {
        return Ok(None);
    }
    pool.call(&info.header_object(), &MigrationGet {}).await.map(Some)
}

/// Returns the migration of an image that is being migrated here. Fails for one that is being migrated away, because
/// the data changes elsewhere.
pub(super) async fn moved_here(pool: &Pool, info: &ImageInfo) -> Result<Option<MigrationSpec>, Error> {
    let Some(spec) = migration_of(pool, info).await? else { return Ok(None) };
    if spec.side == migration_side::DESTINATION {
        return Ok(Some(spec));
    }
    Err(Error::Unmet {
        what: format!(
            "{} is being migrated to image {}: open that image, or undo the migration with \"rbd migration abort\"",
            describe(pool, &info.name),
            spec.image_name
        ),
        errno: Errno::ROFS,
    })
}

pub(super) struct Generation {
    pub(super) home: Pool,
    pub(super) info: ImageInfo,
    pub(super) snapshot: u64,
    /// Number of visible bytes from the start of the ancestor.
    pub(super) overlap: u64,
}

impl Generation {
    pub(super) fn data(&self) -> DataObjects {
        self.info.data(&self.home, self.snapshot)
    }
}

enum Beneath {
    Image(Parent),
    /// A source file, with the number of its visible bytes.
    File(SourceFile, u64),
}

#[derive(Default)]
struct Lineage {
    /// Ancestor images, the nearest first.
    generations: Vec<Generation>,
    /// Source file of the last ancestor image.
    file: Option<Ancestor>,
}

pub(super) async fn ancestors(
    pool: &Pool,
    info: &ImageInfo,
    snap: u64,
) -> Result<Option<Arc<Ancestor>>, Error> {
    let next = beneath(pool, info, snap).await?;
    Ok(chain(lineage_from(pool, info, next).await?))
}

/// Returns the ancestors of an image through the parent in its header, ignoring a migration in progress.
pub(super) async fn ancestors_by_header(
    pool: &Pool,
    info: &ImageInfo,
) -> Result<Option<Arc<Ancestor>>, Error> {
    let next = info.parent.clone().map(Beneath::Image);
    Ok(chain(lineage_from(pool, info, next).await?))
}

fn chain(Lineage { generations, file }: Lineage) -> Option<Arc<Ancestor>> {
    let descend = |parent, ancestor: Generation| {
        let data = AncestorData::Objects(ancestor.data());
        Some(Arc::new(Ancestor { data, overlap: ancestor.overlap, parent }))
    };
    generations.into_iter().rev().fold(file.map(Arc::new), descend)
}

/// Returns the ancestors of an image at a snapshot or at present, the nearest first. Fails if a file is among them.
pub(super) async fn lineage(pool: &Pool, info: &ImageInfo, snap: u64) -> Result<Vec<Generation>, Error> {
    let next = beneath(pool, info, snap).await?;
    let Lineage { generations, file } = lineage_from(pool, info, next).await?;
    match file {
        None => Ok(generations),
        Some(_) => {
            let what = format!(
                "{} is being imported from a file: finish the import first",
                describe(pool, &info.name)
            );
            Err(Error::Unmet { what, errno: Errno::OPNOTSUPP })
        }
    }
}

async fn lineage_from(pool: &Pool, info: &ImageInfo, mut next: Option<Beneath>) -> Result<Lineage, Error> {
    let mut found = Lineage::default();
    while let Some(beneath_it) = next {
        let parent = match beneath_it {
            Beneath::Image(parent) => parent,
            Beneath::File(file, overlap) => {
                let data = AncestorData::External(Arc::new(file));
                found.file = Some(Ancestor { data, overlap, parent: None });
                break;
            }
        };
        if found.generations.len() >= MAX_ANCESTORS {
            let reason =
                format!("it has more than {MAX_ANCESTORS} ancestors: flatten it with \"rbd flatten\"");
            return Err(Error::Invalid(format!("{}: {reason}", describe(pool, &info.name))));
        }
        let home = pool.cluster().pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
        let name = format!("image with id {} (an ancestor of {})", parent.image, info.name);
        let known = Header::v2(&home, &parent.image, &name).info(parent.snapshot).await?;
        next = beneath(&home, &known, parent.snapshot).await?;
        let (snapshot, overlap) = (parent.snapshot, parent.overlap);
        found.generations.push(Generation { home, info: known, snapshot, overlap });
    }
    Ok(found)
}

async fn beneath(pool: &Pool, info: &ImageInfo, snap: u64) -> Result<Option<Beneath>, Error> {
    let spec = migration_of(pool, info).await?.filter(|spec| spec.side == migration_side::DESTINATION);
    let Some(spec) = spec else { return Ok(info.parent.clone().map(Beneath::Image)) };
    let overlap = if snap == NOSNAP { spec.overlap.max(largest(pool, info).await?) } else { info.size };
    let from = snap_at(snap, &spec);
    Ok(Some(match source_of(pool, &info.name, &spec).await? {
        MigrationSource::Files(files) => Beneath::File(files.at(from.unwrap_or(NOSNAP))?, overlap),
        MigrationSource::Image(SourceImage { header, head }) => Beneath::Image(Parent {
            pool: header.pool.id(),
            namespace: header.pool.namespace().to_owned(),
            image: header.id,
            snapshot: from.unwrap_or(head),
            overlap,
        }),
    }))
}

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
