//! Creation of a migration's destination: it starts with the state of the oldest snapshot, and gets its name last.

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

/// A user's snapshot that is copied with an image.
pub(super) struct IncomingSnapshot {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) is_protected: bool,
}

impl From<&Snapshot> for IncomingSnapshot {
    fn from(snapshot: &Snapshot) -> Self {
        let Snapshot { id, name, size, .. } = snapshot;
        Self { id: *id, name: name.clone(), size: *size, is_protected: snapshot.is_protected() }
    }
}

/// Fails unless an image can be created under a name. `is_given_up` means that the current owner of the name will
/// release it.
pub(super) async fn check_name(pool: &Pool, name: &str, is_given_up: bool) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!("invalid image name {name:?}")));
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

/// Creates an unnamed image with the size of the source's oldest snapshot, or with `size` if there is none.
pub(super) async fn build_oldest(
    destination: &Header,
    options: &CreateOptions,
    snapshots: &[IncomingSnapshot],
    size: u64,
) -> Result<(), Error> {
    let size = snapshots.first().map_or(size, |snapshot| snapshot.size);
    build(&destination.pool, &destination.id, &CreateOptions { size, ..options.clone() }).await
}

/// Creates the source's snapshots at the destination, and sets the source's size. Returns the mapping of snapshot
/// numbers.
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

/// Records the source in the destination's header, and gives it its name: from then on clients that open it see the
/// migration.
pub(super) async fn reveal(sides: &Sides, spec: MigrationSpec) -> Result<(), Error> {
    let Header { pool, id, name, .. } = &sides.destination;
    sides.destination.change(&MigrationSet { spec }).await?;
    sides.set_state(state::PREPARED).await?;
    take_name(pool, name, id).await?;
    let entry = DirAddImage { name: name.clone(), id: id.clone() };
    pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop)
}

/// Changes the size of an image without users.
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
