use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps;
use crate::rbd::objects::for_each_object;
use crate::rbd::snapshot::Snapshot;
use crate::rbd::view::CopyDown;
use onego_ceph::ops::Op;

/// Rolls an image back to a user's snapshot. Calls `progress` with (done, total) in objects.
pub async fn rollback(
    pool: &Pool,
    image: &str,
    name: &str,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    header
        .owned(
            |details| async move { rollback_in(header, &details, details.snapshot(name)?, progress).await },
        )
        .await
}

/// Rolls an image back to a snapshot.
///
/// Source: ceph `src/librbd/operation/SnapshotRollbackRequest.cc`.
pub(in crate::rbd) async fn rollback_in(
    header: &Header,
    details: &ImageDetails,
    snapshot: &Snapshot,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let info = &details.info;
    if snapshot.overlap.is_some() {
        let shown = info.parent.as_ref().map_or(0, |parent| parent.overlap);
        CopyDown::new(header, details).await?.cut_objects(shown.min(snapshot.size)).await?;
    }
    let map = maps::rolling_back(header, details, snapshot).await?;
    let data = header.data_pool(info).await?.with_snap_context(&info.state.snap_context);
    let names = info.data_names();
    let objects = info.objects().max(info.layout.objects(snapshot.size));
    // The snapshot had nothing past its end, so objects there are removed as well.
    for_each_object(objects, progress, |object| {
        let (data, name) = (&data, names.name(object).to_string());
        async move {
            match data.change(&name, Op::Rollback { snap: snapshot.id }).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    })
    .await?;
    if snapshot.size != info.size {
        header.set_size(snapshot.size).await?;
    }
    maps::rolled_back(header, map).await?;
    header.notify_changed().await
}
