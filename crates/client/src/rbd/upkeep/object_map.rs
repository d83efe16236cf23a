use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps::{change_map, invalidate, map_object};
use crate::rbd::objects::for_each_object;
use onego_ceph::cls::rbd::{
    MAX_OBJECTS, ObjectMap, ObjectMapLoad, ObjectMapSave, SetFlags, image_flag, state,
};
use onego_ceph::outputs::CloneInfos;
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use onego_rbd::diff::{DiffScope, object_runs};
use onego_rbd::notify::Operation;
use std::cell::RefCell;

/// Makes the maps of an image and its snapshots anew, or that of one snapshot, by a look at every object. `progress` is told (done, all) in objects.
///
/// With fast-diff they say, too, what has not changed since the snapshot before.
pub async fn rebuild_object_map(
    pool: &Pool,
    image: &str,
    snapshot: Option<&str>,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    let ask = |id| Operation::RebuildObjectMap { id };
    header
        .owned_or_asked(ask, progress, async |details, progress| {
            rebuild(&header, details, &times(details, snapshot)?, progress).await
        })
        .await
}

/// Makes all maps anew.
pub(in crate::rbd) async fn rebuild_all(
    header: &Header,
    details: &ImageDetails,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    rebuild(header, details, &times(details, None)?, progress).await
}

async fn rebuild(
    header: &Header,
    details: &ImageDetails,
    times: &[(u64, u64)],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    check_map(header, details)?;
    let all = total(details, times);
    let mut before = 0;
    for &(snap, size) in times {
        let objects = details.info.layout.objects(size);
        let found = existing(header, details, snap, objects, |done, _| progress(before + done, all)).await?;
        let map = with_clean(header, details, snap, found).await?;
        before += objects;
        change_map(header, snap, WriteOp::new().call(&ObjectMapSave { map })).await?;
        let mask = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
        header.change(&SetFlags { flags: 0, mask, snap }).await?;
    }
    header.notify_changed().await
}

/// Compares the map of an image, and those of its snapshots, or that of one snapshot, with the objects. One that is wrong is marked as such. Gives
/// whether all are right. `progress` is told (done, all) in objects.
pub async fn check_object_map(
    pool: &Pool,
    image: &str,
    snapshot: Option<&str>,
    mut progress: impl FnMut(u64, u64),
) -> Result<bool, Error> {
    let header = Header::named(pool, image).await?;
    header
        .owned(async |details| check(&header, details, &times(details, snapshot)?, &mut progress).await)
        .await
}

async fn check(
    header: &Header,
    details: &ImageDetails,
    times: &[(u64, u64)],
    progress: &mut impl FnMut(u64, u64),
) -> Result<bool, Error> {
    check_map(header, details)?;
    let all = total(details, times);
    let (mut before, mut right) = (0, true);
    for &(snap, size) in times {
        let objects = details.info.layout.objects(size);
        let found = existing(header, details, snap, objects, |done, _| progress(before + done, all)).await?;
        before += objects;
        let known = header.pool.call(&map_object(&header.id, snap), &ObjectMapLoad {}).await;
        if !known.is_ok_and(|known| agree(&known, &found)) {
            right = false;
            invalidate(header, snap).await?;
        }
    }
    if !right {
        header.notify_changed().await?;
    }
    Ok(right)
}

fn check_map(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    if !details.info.features.contains(Features::OBJECT_MAP) {
        return Err(Error::Invalid(format!("{} has no object map", header.describe())));
    }
    let sizes = details.snapshots.iter().map(|snapshot| snapshot.size).chain([details.info.size]);
    match sizes.map(|size| details.info.layout.objects(size)).max() {
        Some(objects) if objects > MAX_OBJECTS => Err(Error::Invalid(format!(
            "{} has {objects} objects, and an object map at most {MAX_OBJECTS}",
            header.describe()
        ))),
        _ => Ok(()),
    }
}

/// The numbers and sizes of the image's snapshots, oldest first, and of the image itself; or of one snapshot.
fn times(details: &ImageDetails, snapshot: Option<&str>) -> Result<Vec<(u64, u64)>, Error> {
    if let Some(name) = snapshot {
        let snapshot = details.snapshot(name)?;
        return Ok(vec![(snapshot.id, snapshot.size)]);
    }
    let snapshots = details.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.size));
    Ok(snapshots.chain([(NOSNAP, details.info.size)]).collect())
}

/// Objects of the image at all these times.
fn total(details: &ImageDetails, times: &[(u64, u64)]) -> u64 {
    times.iter().map(|(_, size)| details.info.layout.objects(*size)).sum()
}

/// A map of the objects that exist.
async fn existing(
    header: &Header,
    details: &ImageDetails,
    snap: u64,
    objects: u64,
    progress: impl FnMut(u64, u64),
) -> Result<ObjectMap, Error> {
    let data = header.data_pool(&details.info).await?.at_snapshot(snap);
    let names = details.info.data_names();
    let map = RefCell::new(ObjectMap::new(objects));
    for_each_object(objects, progress, |object| {
        let (data, map, name) = (&data, &map, names.name(object).to_string());
        async move {
            match data.stat(&name).await {
                Ok(_) => map.borrow_mut().set(object, state::EXISTS),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        }
    })
    .await?;
    Ok(map.into_inner())
}

/// The same, with what has not changed since the snapshot before.
async fn with_clean(
    header: &Header,
    details: &ImageDetails,
    snap: u64,
    found: ObjectMap,
) -> Result<ObjectMap, Error> {
    let earlier = details.snapshots.iter().rev().find(|earlier| earlier.id < snap);
    let Some(earlier) = earlier.filter(|_| details.info.features.contains(Features::FAST_DIFF)) else {
        return Ok(found);
    };
    let scope = DiffScope { from: earlier.id, to: snap, whole_object: false };
    let data = header.data_pool(&details.info).await?;
    let names = details.info.data_names();
    let object_size = details.info.layout.object_size();
    let count = found.len();
    let map = RefCell::new(found);
    for_each_object(
        count,
        |_, _| {},
        |object| {
            let (data, map, name) = (&data, &map, names.name(object).to_string());
            async move {
                if map.borrow().get(object) != state::EXISTS {
                    return Ok(());
                }
                match data.clones(&name).await {
                    // An object may be there without bytes, which no diff shows: it counts as changed.
                    Ok(clones) if is_clean(&clones, scope, object_size) => {
                        map.borrow_mut().set(object, state::EXISTS_CLEAN);
                        Ok(())
                    }
                    Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        },
    )
    .await?;
    Ok(map.into_inner())
}

/// Was an object there at both ends, with the same bytes?
fn is_clean(clones: &CloneInfos, scope: DiffScope, object_size: u64) -> bool {
    let was_there =
        !object_runs(clones, DiffScope { from: 0, to: scope.from, ..scope }, object_size).is_empty();
    was_there && object_runs(clones, scope, object_size).is_empty()
}

/// Does a map know of all objects that exist? One that is said to exist and does not costs a look at it, no more.
fn agree(known: &ObjectMap, found: &ObjectMap) -> bool {
    let exists = |map: &ObjectMap, object| map.get(object) != state::NONEXISTENT;
    known.len() == found.len()
        && (0..found.len()).all(|object| exists(known, object) || !exists(found, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_may_know_too_much_and_never_too_little() {
        let mut found = ObjectMap::new(3);
        found.set(1, state::EXISTS);
        let mut known = ObjectMap::new(3);
        assert!(!agree(&known, &found));
        known.set(1, state::EXISTS_CLEAN);
        assert!(agree(&known, &found));
        known.set(2, state::EXISTS);
        assert!(agree(&known, &found));
        assert!(!agree(&ObjectMap::new(2), &found));
    }
}
