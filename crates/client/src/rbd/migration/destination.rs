//! How the destination of a migration comes to be: first as it was at its oldest snapshot, and with its name last.

use super::sides::{Sides, state};
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::create::{CreateOptions, build};
use crate::rbd::header::{Header, check_namespace, describe};
use crate::rbd::maps::change_map;
use crate::rbd::pools::take_name;
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use crate::rbd::snapshots::create_in;
use onego_ceph::cls::rbd::{
    DirAddImage, MigrationSet, MigrationSpec, ObjectMapResize, SetProtectionStatus, protection,
    state as object,
};
use onego_ceph::rbd::{DIRECTORY, Features, valid_image_name};
use onego_ceph::types::NOSNAP;
use std::collections::BTreeMap;

/// A user's snapshot that comes with an image.
pub(super) struct IncomingSnapshot {
    /// Its number at the source.
    pub(super) id: u64,
    pub(super) name: String,
    /// Bytes of the image at that time.
    pub(super) size: u64,
    pub(super) is_protected: bool,
}

impl From<&Snapshot> for IncomingSnapshot {
    fn from(snapshot: &Snapshot) -> Self {
        let Snapshot { id, name, size, .. } = snapshot;
        Self { id: *id, name: name.clone(), size: *size, is_protected: snapshot.is_protected() }
    }
}

/// Fails unless an image can be made under a name. `is_given_up`: the image that has the name gives it up.
pub(super) async fn check_name(pool: &Pool, name: &str, is_given_up: bool) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!("{name:?} is no name for an image")));
    }
    check_namespace(pool).await?;
    if is_given_up {
        return Ok(());
    }
    match Header::named(pool, name).await {
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Exists { what: describe(pool, name) }),
    }
}

/// Makes an image without a name, which has the size of the source's oldest snapshot. `size`: that of the source without any.
pub(super) async fn build_oldest(
    destination: &Header,
    options: &CreateOptions,
    snapshots: &[IncomingSnapshot],
    size: u64,
) -> Result<(), Error> {
    let size = snapshots.first().map_or(size, |snapshot| snapshot.size);
    build(&destination.pool, &destination.id, &CreateOptions { size, ..options.clone() }).await
}

/// Makes the source's snapshots at the destination, and gives that the source's size. Gives which snapshot became which.
pub(super) async fn grow(
    destination: &Header,
    snapshots: &[IncomingSnapshot],
    size: u64,
) -> Result<BTreeMap<u64, u64>, Error> {
    let mut snap_seqs = BTreeMap::new();
    for snapshot in snapshots {
        set_size(destination, snapshot.size).await?;
        let known = destination.details().await?;
        let snap = create_in(destination, &known, &snapshot.name, SnapshotKind::User).await?;
        if snapshot.is_protected {
            let status = protection::PROTECTED;
            destination.change(&SetProtectionStatus { snap, status }).await?;
        }
        snap_seqs.insert(snapshot.id, snap);
    }
    snap_seqs.insert(NOSNAP, NOSNAP);
    set_size(destination, size).await?;
    Ok(snap_seqs)
}

/// Notes where the destination's bytes come from, and gives it its name: a client that opens it finds that it is being moved.
pub(super) async fn reveal(sides: &Sides, spec: MigrationSpec) -> Result<(), Error> {
    let Header { pool, id, name, .. } = &sides.destination;
    sides.destination.change(&MigrationSet { spec }).await?;
    sides.set_state(state::PREPARED).await?;
    take_name(pool, name, id).await?;
    let entry = DirAddImage { name: name.clone(), id: id.clone() };
    pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop)
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
