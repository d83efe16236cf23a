use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::objects::for_each_object;
use crate::rbd::owner::Progress;
use crate::rbd::release::{detach_from_parent, ignore_missing};
use crate::rbd::view::{CopyDown, refuse_own_key};
use onego_ceph::cls::rbd::ParentDetach;
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use onego_rbd::notify::Operation;

/// Copies all parent data into a clone, which makes it independent. Calls `progress` with (done, total) in objects.
///
/// Source: ceph `src/librbd/operation/FlattenRequest.cc`.
pub async fn flatten(pool: &Pool, image: &str, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    if header.details().await?.info.parent.is_none() {
        return Err(Error::Invalid(format!("{} has no parent", header.describe())));
    }
    let ask = |id| Operation::Flatten { id };
    let progress = &Progress::new(progress);
    header
        .owned_or_asked(ask, progress, |details| async move {
            flatten_in(header, &details, |done, all| progress.report(done, all)).await
        })
        .await
}

async fn flatten_in(
    header: &Header,
    details: &ImageDetails,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    check_key(header).await?;
    copy_down(header, details, progress).await?;
    end_clone(header, details).await
}

/// Copies the parent data that a clone and its snapshots show.
pub(in crate::rbd) async fn copy_down(
    header: &Header,
    details: &ImageDetails,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let copy = CopyDown::new(header, details).await?;
    for_each_object(copy.objects(), progress, |object| copy.object(object)).await
}

pub(in crate::rbd) async fn end_clone(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    let deep = details.info.features.contains(Features::DEEP_FLATTEN);
    let others_need_parent = details.snapshots.iter().any(|snapshot| snapshot.overlap.is_some());
    // A concurrent flatten by this owner may have completed first.
    ignore_missing(header.change(&ParentDetach {}).await)?;
    // The parent's snapshot may be released only after no client reads the parent for this image any more.
    header.notify_changed().await?;
    if deep || !others_need_parent {
        detach_from_parent(header, details).await?;
    }
    Ok(())
}

/// Fails if the clone is encrypted with another key than its parent: without the parent its data would be unreadable.
pub(in crate::rbd) async fn check_key(header: &Header) -> Result<(), Error> {
    let advice = "flatten it with Ceph's rbd and --encryption-passphrase-file";
    refuse_own_key(header, &[NOSNAP], advice).await
}
