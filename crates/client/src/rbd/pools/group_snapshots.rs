use super::group::Group;
use super::group_images::images;
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::create::new_id;
use crate::rbd::header::{GROUP_DIRECTORY, Header, ImageDetails, place};
use crate::rbd::release::remove_snapshot;
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use crate::rbd::snapshots::{Quiesce, create_in, quiesced, rollback_in};
use onego_ceph::cls::rbd::{
    DirGetName, GroupSnapGetById, GroupSnapList, GroupSnapRemove, GroupSnapSet, GroupSnapshot,
    ImageSnapshotSpec, group_snapshot_state,
};
use std::collections::BTreeSet;

const PAGE: u64 = 1024;

/// Lists the names of a group's snapshots, each with whether it is complete.
pub async fn group_snapshots(pool: &Pool, group: &str) -> Result<Vec<(String, bool)>, Error> {
    let records = records(&Group::named(pool, group).await?).await?;
    let is_whole = |record: &GroupSnapshot| record.state == group_snapshot_state::COMPLETE;
    Ok(records.into_iter().map(|record| (record.name.clone(), is_whole(&record))).collect())
}

/// Returns the names of the pool, the group and the group snapshot that a snapshot of an image in `pool` belongs to.
pub async fn group_snapshot_names(
    pool: &Pool,
    group_pool: i64,
    group: &str,
    snapshot: &str,
) -> Result<(String, String, String), Error> {
    let pool = pool.cluster().pool_by_id(group_pool).await?.in_namespace(pool.namespace());
    let name = pool.call(GROUP_DIRECTORY, &DirGetName { id: group.to_owned() }).await?;
    let group = Group { pool, id: group.to_owned() };
    let record = group.call(&GroupSnapGetById { id: snapshot.to_owned() }).await?;
    Ok((place(&group.pool), name, record.name))
}

/// Creates a snapshot of all images of a group.
///
/// Source: ceph `src/librbd/api/Group.cc`.
pub async fn create_group_snapshot(
    pool: &Pool,
    group: &str,
    name: &str,
    quiesce: Quiesce,
) -> Result<(), Error> {
    let found = Group::named(pool, group).await?;
    let mut record = GroupSnapshot {
        id: new_id(pool)?,
        name: name.to_owned(),
        state: group_snapshot_state::INCOMPLETE,
        snaps: Vec::new(),
    };
    let members = images(&found).await?;
    let planned = |spec: &onego_ceph::cls::rbd::GroupImageSpec| ImageSnapshotSpec {
        pool: spec.pool,
        image_id: spec.image_id.clone(),
        snap: 0,
    };
    record.snaps = members.iter().map(|member| planned(&member.spec)).collect();
    set(&found, &record).await?;
    let mut headers = Vec::new();
    for part in &record.snaps {
        headers.push(Header::with_id(&found.pool_of(part.pool).await?, &part.image_id).await?);
    }
    let make = async {
        for (part, header) in record.snaps.iter_mut().zip(&headers) {
            let name = format!(".group.{:x}_{}_{}", pool.id(), found.id, record.id);
            let kind = kind(&found, &record.id);
            part.snap =
                header.owned(|details| async move { create_in(header, &details, &name, kind).await }).await?;
        }
        record.state = group_snapshot_state::COMPLETE;
        set(&found, &record).await
    };
    let made = quiesced(&headers.iter().collect::<Vec<_>>(), quiesce, make).await;
    if let Err(error) = made {
        // An incomplete snapshot is useless. The first error is the one to report.
        let _ = remove_record(&found, &record).await;
        return Err(error);
    }
    Ok(())
}

/// Renames a group's snapshot.
pub async fn rename_group_snapshot(pool: &Pool, group: &str, from: &str, to: &str) -> Result<(), Error> {
    let exists = || Error::Exists { what: format!("snapshot {group}@{to}") };
    if from == to {
        return Err(exists());
    }
    let found = Group::named(pool, group).await?;
    let record = named(&found, group, from).await?;
    set(&found, &GroupSnapshot { name: to.to_owned(), ..record }).await
}

/// Removes a snapshot of a group.
pub async fn remove_group_snapshot(pool: &Pool, group: &str, name: &str) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let found = Group::named(pool, group).await?;
    remove_record(&found, &named(&found, group, name).await?).await
}

/// Rolls all images of a group back to its snapshot. Fails with [`Error::Invalid`] if images have been added to or
/// removed from the group since. Calls `progress` with (done, total) in images.
pub async fn rollback_group(
    pool: &Pool,
    group: &str,
    name: &str,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let found = Group::named(pool, group).await?;
    let record = named(&found, group, name).await?;
    let members: BTreeSet<_> =
        images(&found).await?.into_iter().map(|image| (image.spec.pool, image.spec.image_id)).collect();
    let parts: BTreeSet<_> = record.snaps.iter().map(|part| (part.pool, part.image_id.clone())).collect();
    if members != parts {
        return Err(Error::Invalid(format!("{group} contains other images than at its snapshot {name}")));
    }
    let all = record.snaps.len() as u64;
    for (done, part) in record.snaps.iter().enumerate() {
        let header = Header::with_id(&found.pool_of(part.pool).await?, &part.image_id).await?;
        let (header, found, id) = (&header, &found, &record.id);
        let back = header.owned(|details| async move {
            match of_group(&details, found, id) {
                Some(snapshot) => rollback_in(header, &details, snapshot, |_, _| {}).await,
                None => Ok(()),
            }
        });
        back.await?;
        progress(done as u64 + 1, all);
    }
    Ok(())
}

pub(super) async fn records(group: &Group) -> Result<Vec<GroupSnapshot>, Error> {
    let mut all: Vec<GroupSnapshot> = Vec::new();
    loop {
        let after = all.last().cloned().unwrap_or_default();
        let page = group.call(&GroupSnapList { after, max: PAGE }).await?;
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

async fn named(group: &Group, shown: &str, name: &str) -> Result<GroupSnapshot, Error> {
    let record = records(group).await?.into_iter().find(|record| record.name == name);
    record.ok_or_else(|| Error::NotFound { what: format!("snapshot {shown}@{name} of the group") })
}

async fn set(group: &Group, record: &GroupSnapshot) -> Result<(), Error> {
    match group.change(&GroupSnapSet { snapshot: record.clone() }).await {
        Err(Error::Exists { .. }) => {
            Err(Error::Exists { what: format!("snapshot {} of the group", record.name) })
        }
        other => other,
    }
}

/// Removes the snapshots of all images, and then the group snapshot's record.
pub(super) async fn remove_record(group: &Group, record: &GroupSnapshot) -> Result<(), Error> {
    for part in &record.snaps {
        let header = Header::with_id(&group.pool_of(part.pool).await?, &part.image_id).await?;
        let header = &header;
        let removed = header.owned(|details| async move {
            match of_group(&details, group, &record.id) {
                Some(snapshot) => remove_snapshot(header, &details, snapshot.id).await,
                None => Ok(()),
            }
        });
        removed.await?;
    }
    group.change(&GroupSnapRemove { id: record.id.clone() }).await
}

fn of_group<'a>(details: &'a ImageDetails, group: &Group, id: &str) -> Option<&'a Snapshot> {
    let kind = kind(group, id);
    details.snapshots.iter().find(|snapshot| snapshot.kind == kind)
}

fn kind(group: &Group, id: &str) -> SnapshotKind {
    SnapshotKind::Group { pool: group.pool.id(), group_id: group.id.clone(), snapshot_id: id.to_owned() }
}
