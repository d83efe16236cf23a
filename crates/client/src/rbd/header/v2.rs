//! Format 2: the header consists of omap entries of the object `rbd_header.ID`, which the class `rbd` reads and
//! changes.

use super::details::{ImageDetails, time};
use super::handle::Header;
use super::info::{ImageInfo, Parent};
use crate::ceph::error::{Error, undecodable};
use crate::rados::ReadOp;
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use onego_ceph::cls::rbd::{
    GetAccessTimestamp, GetCreateTimestamp, GetDataPool, GetFlags, GetModifyTimestamp, GetObjectPrefix,
    GetProtectionStatus, GetSize, GetSnapContext, GetStripeUnitCount, GroupSpec, ImageGroupGet,
    OpFeaturesGet, ParentGet, ParentOverlapGet, SnapshotAdd, SnapshotGet, SnapshotRemove, SnapshotRename,
    StripeUnitCount,
};
use onego_ceph::rbd::{Features, ImageFormat, Layout};
use onego_ceph::types::{NOSNAP, Utime};
use onego_rbd::ImageState;
use std::time::SystemTime;

const PAGE: usize = 256;

pub(super) async fn info(header: &Header, snap: u64) -> Result<ImageInfo, Error> {
    let (pool, object) = (&header.pool, header.object());
    let mut op = ReadOp::new();
    let prefix = op.call(&GetObjectPrefix {});
    let size = op.call(&GetSize { snap });
    let queried: Vec<_> =
        ImageState::query(header.format, snap).into_iter().map(|query| op.raw(query)).collect();
    let reply = pool.operate_read(&object, op).await?;
    let outputs = queried.iter().map(|output| reply.get(output)).collect::<Result<Vec<_>, _>>()?;
    let state = ImageState::parse(header.format, snap, &outputs.iter().collect::<Vec<_>>());
    let missing = || Error::NotFound { what: format!("snapshot {snap} of {}", header.describe()) };
    let state = state.map_err(|error| undecodable(header.describe(), error))?.ok_or_else(missing)?;
    let order = reply.get(&size)?.order;
    let mut layout = Layout::plain(order)?;
    if state.features.contains(Features::STRIPING) {
        let StripeUnitCount { unit, count } = pool.call(&object, &GetStripeUnitCount {}).await?;
        layout = Layout::striped(order, unit, count)?;
    }
    let mut data_pool = None;
    if state.features.contains(Features::DATA_POOL) {
        data_pool = Some(pool.call(&object, &GetDataPool {}).await?).filter(|pool| *pool >= 0);
    }
    let has_parent = state.parent.pool >= 0 && !state.parent.image_id.is_empty() && state.overlap > 0;
    let parent = has_parent.then(|| Parent {
        pool: state.parent.pool,
        namespace: state.parent.namespace.clone(),
        image: state.parent.image_id.clone(),
        snapshot: state.parent.snap,
        overlap: state.overlap,
    });
    // Images of old clusters have no creation time.
    let created = pool.call(&object, &GetCreateTimestamp {}).await.ok();
    Ok(ImageInfo {
        name: header.name.clone(),
        id: header.id.clone(),
        format: ImageFormat::V2,
        size: state.size,
        layout,
        features: state.features,
        object_prefix: reply.get(&prefix)?,
        data_pool,
        snapshots: state.snap_context.snaps.clone(),
        created: created.map(time),
        parent,
        state,
    })
}

pub(super) async fn details(header: &Header) -> Result<ImageDetails, Error> {
    let info = info(header, NOSNAP).await?;
    let mut op = ReadOp::new();
    let flags = op.call(&GetFlags { snap: NOSNAP });
    let op_features = op.call(&OpFeaturesGet {});
    let origin = op.call(&ParentGet {});
    let group = op.call(&ImageGroupGet {});
    let accessed = op.call(&GetAccessTimestamp {});
    let modified = op.call(&GetModifyTimestamp {});
    let reply = header.pool.operate_read(&header.object(), op).await?;
    let GroupSpec { pool, group_id } = reply.get(&group)?;
    let mut snapshots = Vec::with_capacity(info.snapshots.len());
    for snap in info.snapshots.iter().rev() {
        snapshots.extend(snapshot(header, *snap).await?);
    }
    Ok(ImageDetails {
        flags: reply.get(&flags)?,
        op_features: reply.get(&op_features)?,
        group: (pool >= 0).then_some((pool, group_id)),
        accessed: known(reply.get(&accessed)?),
        modified: known(reply.get(&modified)?),
        origin: Some(reply.get(&origin)?).filter(|spec| spec.pool >= 0),
        snapshots,
        info,
    })
}

/// Converts a time, which is zero if the cluster did not record it.
fn known(at: Utime) -> Option<SystemTime> {
    (at != Utime::default()).then(|| time(at))
}

/// Returns a snapshot, or `None` if it was removed since it was listed.
async fn snapshot(header: &Header, snap: u64) -> Result<Option<Snapshot>, Error> {
    let mut op = ReadOp::new();
    let info = op.call(&SnapshotGet { snap });
    let protection = op.call(&GetProtectionStatus { snap });
    let flags = op.call(&GetFlags { snap });
    let overlap = op.call(&ParentOverlapGet { snap });
    let reply = match header.pool.operate_read(&header.object(), op).await {
        Err(Error::NotFound { .. }) => return Ok(None),
        other => other?,
    };
    let info = reply.get(&info)?;
    Ok(Some(Snapshot {
        id: info.id,
        name: info.name,
        kind: info.namespace,
        size: info.image_size,
        created: known(info.timestamp),
        children: info.child_count,
        protection: reply.get(&protection)?,
        flags: reply.get(&flags)?,
        overlap: reply.get(&overlap)?,
    }))
}

pub(super) async fn snapshot_id(header: &Header, snapshot: &str) -> Result<u64, Error> {
    let mut context = header.call(&GetSnapContext {}).await?;
    loop {
        match named(header, &context.snaps, snapshot).await {
            Ok(Some(id)) => return Ok(id),
            Ok(None) => {
                return Err(Error::NotFound {
                    what: format!("snapshot {snapshot} of {}", header.describe()),
                });
            }
            Err(error @ Error::NotFound { .. }) => {
                // Another snapshot was removed since the list was read: read it again.
                let newer = header.call(&GetSnapContext {}).await?;
                if newer == context {
                    return Err(error);
                }
                context = newer;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn named(header: &Header, snaps: &[u64], snapshot: &str) -> Result<Option<u64>, Error> {
    for page in snaps.chunks(PAGE) {
        let mut op = ReadOp::new();
        let outputs: Vec<_> = page.iter().map(|snap| op.call(&SnapshotGet { snap: *snap })).collect();
        let reply = header.pool.operate_read(&header.object(), op).await?;
        for output in &outputs {
            let info = reply.get(output)?;
            if info.name == snapshot && info.namespace == SnapshotKind::User {
                return Ok(Some(info.id));
            }
        }
    }
    Ok(None)
}

pub(super) async fn add_snapshot(
    header: &Header,
    name: &str,
    snap: u64,
    kind: &SnapshotKind,
) -> Result<(), Error> {
    header.change(&SnapshotAdd { name: name.to_owned(), snap, namespace: kind.clone() }).await
}

pub(super) async fn remove_snapshot(header: &Header, snapshot: &Snapshot) -> Result<(), Error> {
    header.change(&SnapshotRemove { snap: snapshot.id }).await
}

pub(super) async fn rename_snapshot(header: &Header, snap: u64, to: &str) -> Result<(), Error> {
    header.change(&SnapshotRename { snap, name: to.to_owned() }).await
}
