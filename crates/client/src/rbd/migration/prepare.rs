use super::remove::abort_sides;
use super::sides::{Sides, state};
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::clones::{attach, copy_metadata, has_children};
use crate::rbd::create::{CreateOptions, build, new_id};
use crate::rbd::header::{Header, ImageDetails, check_namespace, describe};
use crate::rbd::maps::change_map;
use crate::rbd::pools::{MIGRATION, hide, take_name};
use crate::rbd::snapshots::create_in;
use crate::rbd::upkeep::CopyKind;
use crate::rbd::view::refuse_own_key;
use onego_ceph::cls::rbd::{
    DirAddImage, MigrationSet, MigrationSpec, ObjectMapResize, SetProtectionStatus, migration_side,
    protection, state as object,
};
use onego_ceph::rbd::{DIRECTORY, Features, valid_image_name};
use onego_ceph::types::NOSNAP;
use std::collections::BTreeMap;
use std::time::Duration;

/// Begins to move an image. From then on the destination is used, which has the snapshots of the source, too, and the source is
/// in the trash. `options`: what the destination is to be; it has the source's size. `kind`: is it a clone, if the source is one?
///
/// Fails with [`Error::Busy`] if somebody has the image open.
pub async fn prepare(
    (pool, image): (&Pool, &str),
    (to_pool, to): (&Pool, &str),
    options: &CreateOptions,
    kind: CopyKind,
) -> Result<(), Error> {
    let source = Header::named(pool, image).await?;
    source.needs_v2("an id, by which Onego knows what is moved", Errno::OPNOTSUPP)?;
    options.needs_v2("what is moved")?;
    let details = source.details().await?;
    check_source(&source, &details).await?;
    if details.origin.is_some() && (kind == CopyKind::Flat || options.layout != details.info.layout) {
        let times = details.snapshots.iter().map(|snapshot| snapshot.id).chain([NOSNAP]);
        let advice =
            "its objects cannot get the parent's bytes: move it without --flatten and with the same objects";
        refuse_own_key(&source, times, advice).await?;
    }
    options.check_features(to)?;
    check_destination((pool, image), (to_pool, to)).await?;
    let destination = Header::v2(to_pool, &new_id(to_pool)?, to);
    let spec = MigrationSpec {
        side: migration_side::SOURCE,
        pool: to_pool.id(),
        namespace: to_pool.namespace().to_owned(),
        image_name: to.to_owned(),
        image_id: destination.id.clone(),
        flatten: kind == CopyKind::Flat,
        state: state::PREPARING,
        ..MigrationSpec::default()
    };
    hide(&source, MIGRATION, Duration::ZERO).await?;
    let sides = Sides { source, spec: spec.clone(), destination };
    let begun = async {
        sides.source.change(&MigrationSet { spec }).await?;
        sides.source.notify_changed().await?;
        make_destination(&sides, &details, options, kind).await
    };
    if let Err(error) = begun.await {
        // The first error is the one to tell.
        let _ = abort_sides(&sides, |_, _| {}).await;
        return Err(error);
    }
    Ok(())
}

async fn check_source(source: &Header, details: &ImageDetails) -> Result<(), Error> {
    let refuse = |errno, reason: &str| {
        Err(Error::Unmet { what: format!("{} cannot be moved: {reason}", source.describe()), errno })
    };
    if details.info.features.contains(Features::MIGRATING) {
        return refuse(Errno::BUSY, "it is being moved already");
    }
    let unknown = details.info.features.without(Features::WRITABLE);
    if !unknown.is_empty() {
        let image = source.name.clone();
        return Err(Error::Features { image, action: "moved", features: unknown, advice: "" });
    }
    if let Some(watcher) = source.pool.watchers(&source.object()).await?.first() {
        return Err(Error::Busy { what: source.describe(), reason: format!("{watcher} has it open") });
    }
    if details.snapshots.iter().any(|snapshot| !snapshot.is_users()) {
        return refuse(Errno::BUSY, "it has snapshots of groups, or hidden ones that clones need");
    }
    if details.group.is_some() {
        return refuse(Errno::BUSY, "it is in a group: \"rbd group image rm\" takes it out");
    }
    for snapshot in &details.snapshots {
        if has_children(source, snapshot.id).await? {
            return refuse(
                Errno::BUSY,
                "it has clones: flatten them, or move it by Ceph's \"rbd migration\"",
            );
        }
    }
    Ok(())
}

async fn check_destination((pool, image): (&Pool, &str), (to_pool, to): (&Pool, &str)) -> Result<(), Error> {
    if !valid_image_name(to) {
        return Err(Error::Invalid(format!("{to:?} is no name for an image")));
    }
    check_namespace(to_pool).await?;
    if (pool.id(), pool.namespace(), image) == (to_pool.id(), to_pool.namespace(), to) {
        return Ok(()); // the source gives the name up
    }
    match Header::named(to_pool, to).await {
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Exists { what: describe(to_pool, to) }),
    }
}

/// Makes the destination, and gives it its name last: who opens it finds that it is being moved.
async fn make_destination(
    sides: &Sides,
    details: &ImageDetails,
    options: &CreateOptions,
    kind: CopyKind,
) -> Result<(), Error> {
    let Sides { source, destination, .. } = sides;
    let first = details.snapshots.first();
    let size = first.map_or(details.info.size, |snapshot| snapshot.size);
    build(&destination.pool, &destination.id, &CreateOptions { size, ..options.clone() }).await?;
    if kind != CopyKind::Flat {
        attach_to_parent(source, details, destination, kind).await?;
    }
    let snap_seqs = copy_snapshots(details, destination).await?;
    set_size(destination, details.info.size).await?;
    copy_metadata(source, destination).await?;
    let spec = MigrationSpec {
        side: migration_side::DESTINATION,
        pool: source.pool.id(),
        namespace: source.pool.namespace().to_owned(),
        image_id: source.id.clone(),
        snap_seqs,
        overlap: details.info.size,
        flatten: kind == CopyKind::Flat,
        state: state::PREPARING,
        ..MigrationSpec::default()
    };
    destination.change(&MigrationSet { spec }).await?;
    sides.set_state(state::PREPARED).await?;
    let Header { pool, id, name, .. } = destination;
    take_name(pool, name, id).await?;
    let entry = DirAddImage { name: name.clone(), id: id.clone() };
    pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop)
}

/// Makes the destination a clone of what the source is a clone of.
async fn attach_to_parent(
    source: &Header,
    details: &ImageDetails,
    destination: &Header,
    kind: CopyKind,
) -> Result<(), Error> {
    let Some(origin) = &details.origin else { return Ok(()) };
    let head = details.info.parent.as_ref().map(|parent| parent.overlap);
    let overlap = details.snapshots.first().map_or(head, |snapshot| snapshot.overlap).unwrap_or(0);
    if overlap == 0 {
        return Ok(());
    }
    let pool = source.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
    let parent = Header::with_id(&pool, &origin.image_id).await?;
    let format = kind.format(details);
    attach(&parent, origin.clone(), overlap, destination, format).await
}

/// Makes the source's snapshots at the destination. Gives which became which.
async fn copy_snapshots(details: &ImageDetails, destination: &Header) -> Result<BTreeMap<u64, u64>, Error> {
    let mut snap_seqs = BTreeMap::new();
    for snapshot in &details.snapshots {
        set_size(destination, snapshot.size).await?;
        let known = destination.details().await?;
        let snap = create_in(destination, &known, &snapshot.name, snapshot.kind.clone()).await?;
        if snapshot.is_protected() {
            let status = protection::PROTECTED;
            destination.change(&SetProtectionStatus { snap, status }).await?;
        }
        snap_seqs.insert(snapshot.id, snap);
    }
    snap_seqs.insert(NOSNAP, NOSNAP);
    Ok(snap_seqs)
}

/// Changes the size of an image that nobody uses yet.
async fn set_size(header: &Header, size: u64) -> Result<(), Error> {
    let info = header.details().await?.info;
    if info.size == size {
        return Ok(());
    }
    header.set_size(size).await?;
    if !info.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    let resize = ObjectMapResize { objects: info.layout.objects(size), state: object::NONEXISTENT };
    change_map(header, NOSNAP, WriteOp::new().call(&resize)).await
}
