//! Identity of a device's source: what stays the same for one source, and differs between two of one name.

use crate::access::Access;
use crate::device::Source;
use crate::failure::Failure;
use onego::rbd;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the identity of a source: for an image the ids of its cluster, pool, image and snapshot, which outlast names; for a file
/// its number; else its name. Memory is another thing each time it is mapped.
pub(super) fn of(access: &Access, source: &Source, pool: Option<&str>) -> Result<String, Failure> {
    Ok(match source {
        Source::Image(spec) => access.with_cluster(async |cluster| {
            let (pool, name) = (spec.image.place(pool).open(cluster).await?, &spec.image.image);
            let id = rbd::info(&pool, name).await?.id;
            let (fsid, namespace) = (cluster.fsid().await?, pool.namespace());
            let image = format!("rbd:{fsid}/{}/{namespace}/{id}", pool.id());
            let Some(snapshot) = &spec.snapshot else { return Ok(image) };
            // A snapshot of the same name may be made again.
            let found = rbd::snapshots::list(&pool, name).await?;
            let found = found.iter().find(|found| found.is_users() && found.name == *snapshot);
            let missing = || onego::ceph::Error::NotFound { what: format!("snapshot {name}@{snapshot}") };
            Ok(format!("{image}@{}", found.ok_or_else(missing)?.id))
        })?,
        Source::Disk(path) => {
            let about = fs::metadata(path).map_err(Failure::file(path))?;
            match about.file_type().is_block_device() {
                true => format!("block:{}", about.rdev()),
                false => format!("file:{}/{}", about.dev(), about.ino()),
            }
        }
        Source::Nfs(_) | Source::Nbd(_) => source.identity(pool),
        Source::Memory(_) | Source::Null(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{source}@{}.{}", std::process::id(), now.as_nanos())
        }
    })
}
