use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps::{change_map, invalidate, map_object};
use crate::rbd::objects::for_each_object;
use crate::rbd::owner::Progress;
use onego_ceph::cls::rbd::{
    MAX_OBJECTS, ObjectMap, ObjectMapLoad, ObjectMapSave, SetFlags, image_flag, state,
};
use onego_ceph::outputs::CloneInfos;
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use onego_rbd::notify::Operation;
use std::sync::{Mutex, PoisonError};

/// Rebuilds the object maps of an image and its snapshots, or that of one snapshot, by examining every object. Calls
/// `progress` with (done, total) in objects.
///
/// With fast-diff the maps also record which objects are unchanged since the previous snapshot.
pub async fn rebuild_object_map(
    pool: &Pool,
    image: &str,
    snapshot: Option<&str>,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = &Header::named(pool, image).await?;
    let ask = |id| Operation::RebuildObjectMap { id };
    let progress = &Progress::new(progress);
    header
        .owned_or_asked(ask, progress, |details| async move {
            let times = times(&details, snapshot)?;
            rebuild(header, &details, &times, &mut |done, all| progress.report(done, all)).await
        })
        .await
}

pub(in crate::rbd) async fn rebuild_all(
    header: &Header,
    details: &ImageDetails,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<(), Error> {
    rebuild(header, details, &times(details, None)?, progress).await
}

async fn rebuild(
    header: &Header,
    details: &ImageDetails,
    times: &[(u64, u64)],
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<(), Error> {
    check_map(header, details)?;
    let all = total(details, times);
    let mut before = 0;
    for &(snap, size) in times {
        let objects = details.info.layout.objects(size);
        let map = right_map(header, details, snap, objects, |done, _| progress(before + done, all)).await?;
        before += objects;
        change_map(header, snap, WriteOp::new().call(&ObjectMapSave { map })).await?;
        let mask = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
        header.change(&SetFlags { flags: 0, mask, snap }).await?;
    }
    header.notify_changed().await
}

/// Compares the object maps of an image and its snapshots, or that of one snapshot, with the objects. Marks wrong
/// maps as invalid. Returns whether all are correct. Calls `progress` with (done, total) in objects.
pub async fn check_object_map(
    pool: &Pool,
    image: &str,
    snapshot: Option<&str>,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<bool, Error> {
    let header = &Header::named(pool, image).await?;
    header
        .owned(|details| async move {
            check(header, &details, &times(&details, snapshot)?, &mut progress).await
        })
        .await
}

async fn check(
    header: &Header,
    details: &ImageDetails,
    times: &[(u64, u64)],
    progress: &mut (impl FnMut(u64, u64) + Send),
) -> Result<bool, Error> {
    check_map(header, details)?;
    let all = total(details, times);
    let (mut before, mut right) = (0, true);
    for &(snap, size) in times {
        let objects = details.info.layout.objects(size);
        let right_map =
            right_map(header, details, snap, objects, |done, _| progress(before + done, all)).await?;
        before += objects;
        let known = header.pool.call(&map_object(&header.id, snap), &ObjectMapLoad {}).await;
        if !known.is_ok_and(|known| agree(&known, &right_map)) {
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
            "{} has {objects} objects, more than the {MAX_OBJECTS} of an object map",
            header.describe()
        ))),
        _ => Ok(()),
    }
}

/// Returns the numbers and sizes of the image's snapshots, oldest first, and of the image itself; or of one snapshot.
fn times(details: &ImageDetails, snapshot: Option<&str>) -> Result<Vec<(u64, u64)>, Error> {
    if let Some(name) = snapshot {
        let snapshot = details.snapshot(name)?;
        return Ok(vec![(snapshot.id, snapshot.size)]);
    }
    let snapshots = details.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.size));
    Ok(snapshots.chain([(NOSNAP, details.info.size)]).collect())
}

fn total(details: &ImageDetails, times: &[(u64, u64)]) -> u64 {
    times.iter().map(|(_, size)| details.info.layout.objects(*size)).sum()
}

/// Computes the correct map at a snapshot or at present.
async fn right_map(
    header: &Header,
    details: &ImageDetails,
    snap: u64,
    objects: u64,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<ObjectMap, Error> {
    let data = header.data_pool(&details.info).await?;
    let names = details.info.data_names();
    let snapshots: Vec<u64> = details.snapshots.iter().map(|snapshot| snapshot.id).collect();
    let has_clean = details.info.features.contains(Features::FAST_DIFF);
    let map = Mutex::new(ObjectMap::new(objects));
    for_each_object(objects, progress, |object| {
        let (data, map, name) = (&data, &map, names.name(object).to_string());
        let snapshots = &snapshots;
        async move {
            match data.clones(&name).await {
                Ok(clones) => {
                    let state = object_state(&clones, snapshots, snap, has_clean);
                    map.lock().unwrap_or_else(PoisonError::into_inner).set(object, state);
                    Ok(())
                }
                Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    })
    .await?;
    Ok(map.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the state of an object at a snapshot or at present: clean if, as far as the OSD knows, it is unchanged
/// since the image's previous snapshot. `snapshots` are the image's, oldest first.
///
/// Source: ceph `src/librbd/operation/ObjectMapIterate.cc` (`get_object_state`).
fn object_state(clones: &CloneInfos, snapshots: &[u64], snap: u64, has_clean: bool) -> u8 {
    // The first snapshot of the image from `id` on; a clone may also be kept for other images' snapshots.
    let from = |id: u64| snapshots.iter().copied().find(|snapshot| *snapshot >= id).unwrap_or(NOSNAP);
    for clone in &clones.clones {
        let (first, last) = match clone.id {
            NOSNAP => (from(clones.seq + 1), NOSNAP),
            _ => (
                clone.snaps.first().map_or(NOSNAP, |first| from(*first)),
                clone.snaps.last().copied().unwrap_or(0),
            ),
        };
        if (first..=last).contains(&snap) {
            return if has_clean && first != snap { state::EXISTS_CLEAN } else { state::EXISTS };
        }
    }
    state::NONEXISTENT
}

/// Returns whether a map is sufficient: it includes every existing object, and every object changed since the
/// previous snapshot. Excess entries only cost a look at an object.
fn agree(known: &ObjectMap, right: &ObjectMap) -> bool {
    let claims = |object| match (known.get(object), right.get(object)) {
        (known, state::EXISTS_CLEAN) => known != state::NONEXISTENT,
        (known, state::EXISTS) => !matches!(known, state::NONEXISTENT | state::EXISTS_CLEAN),
        _ => true,
    };
    known.len() == right.len() && (0..right.len()).all(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::outputs::CloneInfo;

    #[test]
    fn a_map_may_claim_too_much_but_never_too_little() {
        let mut right = ObjectMap::new(4);
        right.set(1, state::EXISTS);
        right.set(3, state::EXISTS_CLEAN);
        let mut known = ObjectMap::new(4);
        assert!(!agree(&known, &right));
        known.set(3, state::EXISTS_CLEAN);
        for (claimed, is_right) in
            [(state::EXISTS, true), (state::PENDING, true), (state::EXISTS_CLEAN, false)]
        {
            known.set(1, claimed);
            assert_eq!(agree(&known, &right), is_right, "{claimed}");
        }
        known.set(1, state::EXISTS);
        known.set(2, state::EXISTS);
        assert!(agree(&known, &right));
        assert!(!agree(&ObjectMap::new(2), &right));
    }

    #[test]
    fn an_object_without_writes_since_the_previous_snapshot_is_clean() {
        let clone = |id, snaps: &[u64]| CloneInfo { id, snaps: snaps.to_vec(), ..CloneInfo::default() };
        // Written before snapshot 3, and between 5 and 8; snapshot 4 belongs to another image.
        let clones = CloneInfos { clones: vec![clone(5, &[3, 4, 5]), clone(NOSNAP, &[])], seq: 5 };
        let states = |clones: &CloneInfos, has_clean| {
            [2, 3, 5, 8, NOSNAP].map(|snap| object_state(clones, &[2, 3, 5, 8], snap, has_clean))
        };
        let (none, some, clean) = (state::NONEXISTENT, state::EXISTS, state::EXISTS_CLEAN);
        assert_eq!(states(&clones, true), [none, some, clean, some, clean]);
        assert_eq!(states(&clones, false), [none, some, some, some, some]);
        let gone = CloneInfos { clones: vec![clone(5, &[3, 5])], seq: 8 };
        assert_eq!(states(&gone, true), [none, some, clean, none, none]);
    }
}
