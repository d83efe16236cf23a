//! Updates of object maps when snapshots are created and removed. A failed update invalidates the map; it never fails
//! the operation.
//!
//! Source: ceph `src/librbd/object_map/Snapshot{Create,Remove,Rollback}Request.cc`.

use super::header::{Header, ImageDetails};
use super::snapshot::Snapshot;
use crate::ceph::error::Error;
use crate::rados::WriteOp;
use onego_ceph::cls::rbd::{
    MAX_OBJECTS, ObjectMap, ObjectMapLoad, ObjectMapSave, ObjectMapSnapAdd, ObjectMapSnapRemove, SetFlags,
    image_flag, state,
};
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;

const INVALID: u64 = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;

pub(super) fn map_object(id: &str, snap: u64) -> String {
    match snap {
        NOSNAP => format!("rbd_object_map.{id}"),
        snap => format!("rbd_object_map.{id}.{snap:016x}"),
    }
}

pub(super) async fn invalidate(header: &Header, snap: u64) -> Result<(), Error> {
    header.change(&SetFlags { flags: INVALID, mask: INVALID, snap }).await
}

/// Handles a new snapshot: it gets a copy of the map, and the image's own map starts to track changes since.
pub(super) async fn snapshot_made(header: &Header, details: &ImageDetails, snap: u64) -> Result<(), Error> {
    if !details.info.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    let copied = async {
        let map = header.pool.read(&map_object(&header.id, NOSNAP), 0, 0).await?;
        header.pool.write_full(&map_object(&header.id, snap), map).await?;
        if details.info.features.contains(Features::FAST_DIFF) {
            change_map(header, NOSNAP, WriteOp::new().call(&ObjectMapSnapAdd {})).await?;
        }
        Ok::<_, Error>(())
    };
    match copied.await {
        Ok(()) => Ok(()),
        Err(_) => {
            invalidate(header, snap).await?;
            invalidate(header, NOSNAP).await
        }
    }
}

/// Handles the removal of a snapshot: its changes are merged into the next one's.
pub(super) async fn snapshot_removed(
    header: &Header,
    details: &ImageDetails,
    snap: u64,
) -> Result<(), Error> {
    if !details.info.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    let object = map_object(&header.id, snap);
    let next = details.snapshots.iter().find(|later| later.id > snap).map_or(NOSNAP, |later| later.id);
    if details.info.features.contains(Features::FAST_DIFF) {
        let merged = async {
            let map = header.pool.call(&object, &ObjectMapLoad {}).await?;
            change_map(header, next, WriteOp::new().call(&ObjectMapSnapRemove { map })).await
        };
        if merged.await.is_err() {
            invalidate(header, next).await?;
        }
    }
    match header.pool.remove(&object).await {
        Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Prepares a rollback to a snapshot: until it is done, all objects of either state may exist. Returns the map for
/// the image afterwards, if maps are kept: all existing objects are marked as changed since the newest snapshot,
/// because OSDs treat each rollback of an object as a change.
pub(super) async fn rolling_back(
    header: &Header,
    details: &ImageDetails,
    snapshot: &Snapshot,
) -> Result<Option<ObjectMap>, Error> {
    if !details.info.features.contains(Features::OBJECT_MAP) {
        return Ok(None);
    }
    let objects = details.info.layout.objects(snapshot.size);
    let load = async |snap| header.pool.call(&map_object(&header.id, snap), &ObjectMapLoad {}).await;
    let joined = async {
        if objects > MAX_OBJECTS {
            return Err(Error::Invalid(format!("{objects} objects exceed the limit of an object map")));
        }
        let mut after = load(snapshot.id).await?;
        after.resize(objects, state::NONEXISTENT);
        mark_changed(&mut after);
        let joined = joined(&after, load(NOSNAP).await?);
        change_map(header, NOSNAP, WriteOp::new().call(&ObjectMapSave { map: joined })).await?;
        Ok::<_, Error>(after)
    };
    let valid = snapshot.flags & image_flag::OBJECT_MAP_INVALID == 0;
    match joined.await {
        Ok(after) if valid => Ok(Some(after)),
        _ => invalidate(header, NOSNAP).await.map(|()| None),
    }
}

/// Completes a rollback by saving the map, if maps are kept.
pub(super) async fn rolled_back(header: &Header, after: Option<ObjectMap>) -> Result<(), Error> {
    let Some(map) = after else { return Ok(()) };
    match change_map(header, NOSNAP, WriteOp::new().call(&ObjectMapSave { map })).await {
        Ok(()) => Ok(()),
        Err(_) => invalidate(header, NOSNAP).await,
    }
}

/// Merges two maps: objects of either may exist.
fn joined(after: &ObjectMap, mut now: ObjectMap) -> ObjectMap {
    now.resize(now.len().max(after.len()), state::NONEXISTENT);
    for object in (0..after.len()).filter(|object| after.get(*object) != state::NONEXISTENT) {
        now.set(object, after.get(object));
    }
    now
}

fn mark_changed(map: &mut ObjectMap) {
    for object in 0..map.len() {
        if map.get(object) != state::NONEXISTENT {
            map.set(object, state::EXISTS);
        }
    }
}

pub(super) async fn change_map(header: &Header, snap: u64, op: WriteOp) -> Result<(), Error> {
    header.pool.operate_write(&map_object(&header.id, snap), op).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_objects_have_the_names_of_librbd() {
        assert_eq!(map_object("10eb82de2980", NOSNAP), "rbd_object_map.10eb82de2980");
        assert_eq!(map_object("10eb82de2980", 0x1f), "rbd_object_map.10eb82de2980.000000000000001f");
    }

    #[test]
    fn during_a_rollback_objects_of_both_states_may_exist() {
        let map = |states: &[u8]| {
            let mut map = ObjectMap::new(states.len() as u64);
            (0..).zip(states).for_each(|(object, state)| map.set(object, *state));
            map
        };
        let (gone, written, clean) = (state::NONEXISTENT, state::EXISTS, state::EXISTS_CLEAN);
        let joined = joined(&map(&[gone, gone, written, clean]), map(&[gone, written, clean]));
        assert_eq!(joined.iter().collect::<Vec<_>>(), [gone, written, written, clean]);
    }
}
