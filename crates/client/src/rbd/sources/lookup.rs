use super::source::{MigrationSource, SourceImage};
use super::spec::SourceSpec;
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::header::{Header, describe};
use onego_ceph::cls::rbd::MigrationSpec;
use onego_ceph::types::NOSNAP;

/// Returns the source of the image called `name`, from the migration `spec` in its header.
pub(in crate::rbd) async fn source_of(
    pool: &Pool,
    name: &str,
    spec: &MigrationSpec,
) -> Result<MigrationSource, Error> {
    if !spec.source_spec.is_empty() {
        return spec.source_spec.parse::<SourceSpec>()?.find(pool.cluster()).await;
    }
    if spec.image_id.is_empty() {
        return Err(Error::Unmet {
            what: format!("the source of {} is an image of format 1", describe(pool, name)),
            errno: Errno::OPNOTSUPP,
        });
    }
    let home = pool.cluster().pool_by_id(spec.pool).await?.in_namespace(&spec.namespace);
    let header = Header::v2(&home, &spec.image_id, &spec.image_name);
    Ok(MigrationSource::Image(SourceImage { header, head: NOSNAP }))
}

/// Returns the source's snapshot that corresponds to a snapshot of the image; `None` for one created since the start
/// of the migration, which shows the same as the image.
pub(in crate::rbd) fn snap_at(snap: u64, spec: &MigrationSpec) -> Option<u64> {
    let came_with = spec.snap_seqs.iter().find(|(from, to)| **to == snap && **from != NOSNAP);
    came_with.map(|(from, _)| *from)
}
