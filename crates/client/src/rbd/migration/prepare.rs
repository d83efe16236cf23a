use super::destination::{IncomingSnapshot, build_oldest, check_name, grow, reveal};
use super::remove::abort_sides;
use super::sides::{Origin, Sides, state};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::clones::{attach, copy_metadata, has_children};
use crate::rbd::create::{CreateOptions, new_id};
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::pools::{MIGRATION, hide};
use crate::rbd::upkeep::CopyKind;
use crate::rbd::view::refuse_own_key;
use onego_ceph::cls::rbd::{MigrationSet, MigrationSpec, migration_side};
use onego_ceph::rbd::Features;
use onego_ceph::types::NOSNAP;
use std::time::Duration;

/// Prepares the migration of an image. The destination, which has the source's snapshots and size, is usable from
/// then on, and the source moves to the trash. `options` are the parameters of the destination, and `kind` selects
/// whether it is a clone if the source is one.
///
/// Fails with [`Error::Busy`] if any client has the image open.
pub async fn prepare(
    (pool, image): (&Pool, &str),
    (to_pool, to): (&Pool, &str),
    options: &CreateOptions,
    kind: CopyKind,
) -> Result<(), Error> {
    let source = Header::named(pool, image).await?;
    source.needs_v2("the id that a migration requires", Errno::OPNOTSUPP)?;
    options.needs_v2("migration destinations")?;
    let details = source.details().await?;
    check_source(&source, &details).await?;
    if details.origin.is_some() && (kind == CopyKind::Flat || options.layout != details.info.layout) {
        let times = details.snapshots.iter().map(|snapshot| snapshot.id).chain([NOSNAP]);
        let advice = "its objects cannot receive the parent's data: migrate it without --flatten and with the same layout";
        refuse_own_key(&source, &times.collect::<Vec<_>>(), advice).await?;
    }
    options.check_features(to)?;
    options.check_pool(to_pool).await?;
    let gives_name_up = (pool.id(), pool.namespace(), image) == (to_pool.id(), to_pool.namespace(), to);
    check_name(to_pool, to, gives_name_up).await?;
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
    let sides = Sides::new(Origin::Moved(source.clone()), &spec, destination);
    let begun = async {
        source.change(&MigrationSet { spec }).await?;
        source.notify_changed().await?;
        make_destination(&sides, &source, &details, options, kind).await
    };
    if let Err(error) = begun.await {
        // The first error is the one to report.
        let _ = abort_sides(&sides, |_, _| {}).await;
        return Err(error);
    }
    Ok(())
}

async fn check_source(source: &Header, details: &ImageDetails) -> Result<(), Error> {
    let refuse = |errno, reason: &str| {
        Err(Error::Unmet { what: format!("{} cannot be migrated: {reason}", source.describe()), errno })
    };
    if details.info.features.contains(Features::MIGRATING) {
        return refuse(Errno::BUSY, "it is already being migrated");
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
        return refuse(Errno::BUSY, "it is in a group: remove it with \"rbd group image rm\" first");
    }
    for snapshot in &details.snapshots {
        if has_children(source, snapshot.id).await? {
            return refuse(
                Errno::BUSY,
                "it has clones: flatten them, or migrate it with Ceph's \"rbd migration\"",
            );
        }
    }
    Ok(())
}

async fn make_destination(
    sides: &Sides,
    source: &Header,
    details: &ImageDetails,
    options: &CreateOptions,
    kind: CopyKind,
) -> Result<(), Error> {
    let destination = &sides.destination;
    // Only user snapshots: others were refused.
    let snapshots: Vec<_> = details.snapshots.iter().map(IncomingSnapshot::from).collect();
    let size = details.info.size;
    build_oldest(destination, options, &snapshots, size).await?;
    if kind != CopyKind::Flat {
        attach_to_parent(source, details, destination, kind).await?;
    }
    let snap_seqs = grow(destination, &snapshots, size).await?;
    copy_metadata(source, destination).await?;
    let spec = MigrationSpec {
        side: migration_side::DESTINATION,
        pool: source.pool.id(),
        namespace: source.pool.namespace().to_owned(),
        image_id: source.id.clone(),
        snap_seqs,
        overlap: size,
        flatten: kind == CopyKind::Flat,
        state: state::PREPARING,
        ..MigrationSpec::default()
    };
    reveal(sides, spec).await
}

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
