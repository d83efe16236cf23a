use super::sides::{Sides, migrating_objects, state};
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::image::Image;
use crate::rbd::objects::for_each_object;
use crate::rbd::owner::Progress;
use onego_rbd::notify::Operation;

/// Copies the data that the destination lacks, while it is in use. The image may be named by the source or the
/// destination. Calls `progress` with (done, total) in objects.
pub async fn execute(pool: &Pool, image: &str, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let sides = Sides::of(pool, image).await?;
    sides.check_state(
        &[state::PREPARED, state::EXECUTING],
        "is not prepared, or was already executed: finish with \"rbd migration commit\" or \"abort\"",
    )?;
    let destination = &sides.destination;
    sides.set_state(state::EXECUTING).await?;
    let ask = |id| Operation::Migrate { id };
    let progress = Progress::new(progress);
    destination.done_or_asked(ask, &progress, || copy(&sides, &progress)).await?;
    sides.set_state(state::EXECUTED).await?;
    destination.notify_changed().await
}

async fn copy(sides: &Sides, progress: &Progress<'_>) -> Result<(), Error> {
    let destination = &sides.destination;
    let image = Image::open(&destination.pool, &destination.name).await?;
    let copied = async {
        let _hold = image.hold_lock().await?;
        let objects = migrating_objects(destination).await?;
        for_each_object(objects, |done, all| progress.report(done, all), |object| image.copy_up(object)).await
    };
    let copied = copied.await;
    // The first error is the one to report.
    let closed = image.close().await;
    copied.and(closed)
}
