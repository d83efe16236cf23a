use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::create::check_map;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps::{change_map, invalidate, map_object};
use crate::rbd::owner::Progress;
use crate::rbd::release::ignore_missing;
use onego_ceph::cls::rbd::{ObjectMapResize, SetFeatures, SetFlags, feature, image_flag, state};
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use onego_rbd::notify::Operation;

/// Features that are only useful together.
const MAPS: Features = Features(feature::OBJECT_MAP | feature::FAST_DIFF);

/// Enables features of an image.
///
/// Source: ceph `src/librbd/operation/EnableFeaturesRequest.cc`.
pub async fn enable_features(pool: &Pool, image: &str, features: Features) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    header.needs_v2("features", Errno::INVAL)?;
    let features = with_maps(features);
    let ask = |id| Operation::UpdateFeatures { features: features.0, enabled: true, id };
    let body = |details| async move { enable(header, &details, features).await };
    header.owned_or_asked(ask, &Progress::ignored(), body).await
}

async fn enable(header: &Header, details: &ImageDetails, features: Features) -> Result<(), Error> {
    check_mutable(features, Features(feature::MUTABLE & !feature::JOURNALING))?;
    let there = details.info.features;
    if !Features(there.0 & features.0).without(MAPS).is_empty() || there.contains(features) {
        return Err(Error::Invalid("one or more requested features are already enabled".into()));
    }
    let all = there.with(features);
    if features.contains(Features::OBJECT_MAP) && !all.contains(Features::EXCLUSIVE_LOCK) {
        return Err(Error::Invalid("object-map requires exclusive-lock: enable that too".into()));
    }
    if features.without(there).contains(Features::OBJECT_MAP) {
        let sizes = details.snapshots.iter().map(|snapshot| snapshot.size).chain([details.info.size]);
        check_map(features, details.info.layout.objects(sizes.max().unwrap_or(0)))?;
        make_maps(header, details).await?;
    }
    set(header, all, features).await?;
    header.notify_changed().await
}

/// Disables features of an image, even if the pool is full.
///
/// Source: ceph `src/librbd/operation/DisableFeaturesRequest.cc`.
pub async fn disable_features(pool: &Pool, image: &str, features: Features) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?.with_full_try();
    header.needs_v2("features", Errno::INVAL)?;
    let features = with_maps(features);
    let ask = |id| Operation::UpdateFeatures { features: features.0, enabled: false, id };
    let body = |details| async move { disable(header, &details, features).await };
    header.owned_or_asked(ask, &Progress::ignored(), body).await
}

async fn disable(header: &Header, details: &ImageDetails, features: Features) -> Result<(), Error> {
    let mutable = feature::MUTABLE | feature::DISABLE_ONLY;
    check_mutable(features, Features(mutable & !feature::JOURNALING))?;
    let there = details.info.features;
    if !there.contains(features) {
        return Err(Error::Invalid("one or more requested features are already disabled".into()));
    }
    let left = there.without(features);
    let needs_lock = Features::OBJECT_MAP.with(Features::JOURNALING);
    if features.contains(Features::EXCLUSIVE_LOCK) && !Features(left.0 & needs_lock.0).is_empty() {
        return Err(Error::Invalid(format!(
            "{} require exclusive-lock: disable them first",
            Features(left.0 & needs_lock.0)
        )));
    }
    if features.contains(Features::OBJECT_MAP) {
        for snap in snaps(details) {
            ignore_missing(header.pool.remove(&map_object(&header.id, snap)).await)?;
            let mask = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
            header.change(&SetFlags { flags: 0, mask, snap }).await?;
        }
    }
    set(header, left, features).await?;
    header.notify_changed().await
}

pub(in crate::rbd) async fn update_features(
    header: &Header,
    details: &ImageDetails,
    features: Features,
    enabled: bool,
) -> Result<(), Error> {
    let features = with_maps(features);
    if enabled { enable(header, details, features).await } else { disable(header, details, features).await }
}

fn with_maps(features: Features) -> Features {
    if Features(features.0 & MAPS.0).is_empty() { features } else { features.with(MAPS) }
}

fn check_mutable(features: Features, mutable: Features) -> Result<(), Error> {
    let fixed = features.without(mutable);
    if features.is_empty() || !fixed.is_empty() {
        return Err(Error::Invalid(format!("features that cannot be changed on an existing image: {fixed}")));
    }
    Ok(())
}

async fn set(header: &Header, features: Features, mask: Features) -> Result<(), Error> {
    header.change(&SetFeatures { features: features.0, mask: mask.0 }).await
}

fn snaps(details: &ImageDetails) -> impl Iterator<Item = u64> {
    details.snapshots.iter().map(|snapshot| snapshot.id).chain([NOSNAP])
}

/// Creates object maps that are invalid until rebuilt.
async fn make_maps(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    for snap in snaps(details) {
        let snapshot = details.snapshots.iter().find(|snapshot| snapshot.id == snap);
        let size = snapshot.map_or(details.info.size, |snapshot| snapshot.size);
        let resize =
            ObjectMapResize { objects: details.info.layout.objects(size), state: state::NONEXISTENT };
        change_map(header, snap, WriteOp::new().call(&resize)).await?;
        invalidate(header, snap).await?;
    }
    Ok(())
}
