//! Snapshots by their names.

use super::header::describe;
use crate::ceph::error::Error;
use crate::rados::{Pool, ReadOp};
use onego_ceph::cls::rbd::{GetSnapContext, SnapshotGet, SnapshotNamespace};
use onego_ceph::rbd::header_object;

/// Snapshots asked about in one request.
const PAGE: usize = 256;

/// The number of the snapshot called `snapshot` that a user has made of an image.
pub(super) async fn snapshot_id(pool: &Pool, image: &str, id: &str, snapshot: &str) -> Result<u64, Error> {
    let header = header_object(id).to_string();
    let mut context = pool.call(&header, &GetSnapContext {}).await?;
    loop {
        match named(pool, &header, &context.snaps, snapshot).await {
            Ok(Some(id)) => return Ok(id),
            Ok(None) => {
                return Err(Error::NotFound {
                    what: format!("snapshot {snapshot} of {}", describe(pool, image)),
                });
            }
            Err(error @ Error::NotFound { .. }) => {
                // Another snapshot was removed since the list was read.
                let newer = pool.call(&header, &GetSnapContext {}).await?;
                if newer == context {
                    return Err(error);
                }
                context = newer;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The number of the user's snapshot called `snapshot`, which is one of `snaps`.
async fn named(pool: &Pool, header: &str, snaps: &[u64], snapshot: &str) -> Result<Option<u64>, Error> {
    for page in snaps.chunks(PAGE) {
        let mut op = ReadOp::new();
        let outputs: Vec<_> = page.iter().map(|snap| op.call(&SnapshotGet { snap: *snap })).collect();
        let reply = pool.operate_read(header, op).await?;
        for output in &outputs {
            let info = reply.get(output)?;
            if info.name == snapshot && info.namespace == SnapshotNamespace::User {
                return Ok(Some(info.id));
            }
        }
    }
    Ok(None)
}
