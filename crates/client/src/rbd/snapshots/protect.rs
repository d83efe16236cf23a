use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::clones::counted_children;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::owner::Progress;
use crate::rbd::snapshot::{Snapshot, users};
use onego_ceph::cls::rbd::{SetProtectionStatus, protection};
use onego_ceph::rbd::Features;
use onego_rbd::notify::Operation;

/// Protects a user's snapshot from removal, which clones of the first format require.
pub async fn protect(pool: &Pool, image: &str, name: &str) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    let ask = |id| Operation::SnapProtect { snapshot: users(name), id };
    header
        .owned_or_asked(ask, &Progress::ignored(), |details| async move {
            protect_in(header, &details, details.snapshot(name)?).await
        })
        .await
}

pub(in crate::rbd) async fn protect_in(
    header: &Header,
    details: &ImageDetails,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    if !details.info.features.contains(Features::LAYERING) {
        return Err(Error::Unmet {
            what: format!("{} lacks the feature layering", header.describe()),
            errno: Errno::NOSYS,
        });
    }
    if snapshot.is_protected() {
        return Err(Error::Unmet {
            what: format!("{} is already protected", header.describe_snapshot(snapshot)),
            errno: Errno::BUSY,
        });
    }
    set(header, snapshot.id, protection::PROTECTED).await?;
    header.notify_changed().await
}

/// Unprotects a user's snapshot, even if the pool is full. Fails with [`Error::Busy`] if it has clones of the first
/// format.
pub async fn unprotect(pool: &Pool, image: &str, name: &str) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?.with_full_try();
    let ask = |id| Operation::SnapUnprotect { snapshot: users(name), id };
    header
        .owned_or_asked(ask, &Progress::ignored(), |details| async move {
            unprotect_in(header, details.snapshot(name)?).await
        })
        .await
}

pub(in crate::rbd) async fn unprotect_in(header: &Header, snapshot: &Snapshot) -> Result<(), Error> {
    let header = &header.with_full_try();
    if snapshot.protection == protection::UNPROTECTED {
        return Err(Error::Invalid(format!("{} is not protected", header.describe_snapshot(snapshot))));
    }
    // From here on no clone can be created; then look for existing ones.
    set(header, snapshot.id, protection::UNPROTECTING).await?;
    header.notify_changed().await?;
    let found = counted_children(header, snapshot.id).await;
    let status = match &found {
        Ok(children) if children.is_empty() => protection::UNPROTECTED,
        _ => protection::PROTECTED,
    };
    set(header, snapshot.id, status).await?;
    header.notify_changed().await?;
    match found?.len() {
        0 => Ok(()),
        count => Err(Error::Unmet {
            what: format!(
                "{} has {count} clones: flatten or remove them; \"rbd children --all\" lists them, including those in the trash",
                header.describe_snapshot(snapshot)
            ),
            errno: Errno::BUSY,
        }),
    }
}

async fn set(header: &Header, snap: u64, status: u8) -> Result<(), Error> {
    header.change(&SetProtectionStatus { snap, status }).await
}
