//! Format 1: the header is the data of the object `NAME.rbd`, and the image directory is a map in the data of its
//! object.
//!
//! Sources: ceph `src/librbd/internal.cc` (`create_v1`), `src/librbd/image/RefreshRequest.cc`, `src/librbd/operation/`.

use super::details::ImageDetails;
use super::handle::Header;
use super::info::ImageInfo;
use super::metadata;
use super::place::describe;
use crate::ceph::error::{Errno, Error, undecodable};
use crate::rados::{Pool, WriteOp};
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use onego_ceph::cls::rbd::{
    Format1Header, Format1SnapshotAdd, Format1SnapshotRemove, Format1SnapshotRename, MetadataSet, protection,
};
use onego_ceph::ops::{Op, Tmap, TmapCommand};
use onego_ceph::rbd::{DIRECTORY, ImageFormat, Layout};
use onego_ceph::types::NOSNAP;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_rbd::ImageState;
use onego_wire::{Reader, Writer, text};
use std::collections::BTreeMap;

async fn read(header: &Header) -> Result<Format1Header, Error> {
    let bytes = header.pool.read(&header.object(), 0, 0).await?.to_segment();
    Format1Header::decode(&mut Reader::new(&bytes)).map_err(|error| undecodable(header.describe(), error))
}

pub(super) async fn info(header: &Header, snap: u64) -> Result<ImageInfo, Error> {
    info_of(header, &read(header).await?, snap)
}

fn info_of(header: &Header, read: &Format1Header, snap: u64) -> Result<ImageInfo, Error> {
    let bad = |error| undecodable(header.describe(), error);
    let missing = || Error::NotFound { what: format!("snapshot {snap} of {}", header.describe()) };
    let state = ImageState::of_v1(read, snap).map_err(bad)?.ok_or_else(missing)?;
    Ok(ImageInfo {
        name: header.name.clone(),
        id: String::new(),
        format: ImageFormat::V1,
        size: state.size,
        layout: Layout::plain(read.order())?,
        features: state.features,
        object_prefix: read.object_prefix().map_err(bad)?.to_owned(),
        data_pool: None,
        snapshots: state.snap_context.snaps.clone(),
        created: None,
        parent: None,
        state,
    })
}

pub(super) async fn details(header: &Header) -> Result<ImageDetails, Error> {
    let read = read(header).await?;
    let snapshots = read.snapshots.iter().rev().map(|snapshot| Snapshot {
        id: snapshot.id,
        name: snapshot.name.clone(),
        kind: SnapshotKind::User,
        size: snapshot.image_size,
        created: None,
        children: 0,
        overlap: None,
        protection: protection::UNPROTECTED,
        flags: 0,
    });
    Ok(ImageDetails {
        flags: 0,
        op_features: 0,
        group: None,
        accessed: None,
        modified: None,
        snapshots: snapshots.collect(),
        origin: None,
        info: info_of(header, &read, NOSNAP)?,
    })
}

pub(super) async fn add_snapshot(
    header: &Header,
    name: &str,
    snap: u64,
    kind: &SnapshotKind,
) -> Result<(), Error> {
    if *kind != SnapshotKind::User {
        header.needs_v2("snapshots of groups", Errno::OPNOTSUPP)?;
    }
    header.change(&Format1SnapshotAdd { name: name.to_owned(), snap }).await
}

pub(super) async fn remove_snapshot(header: &Header, snapshot: &Snapshot) -> Result<(), Error> {
    header.change(&Format1SnapshotRemove { name: snapshot.name.clone() }).await
}

pub(super) async fn rename_snapshot(header: &Header, snap: u64, to: &str) -> Result<(), Error> {
    header.change(&Format1SnapshotRename { snap, name: to.to_owned() }).await
}

pub(in crate::rbd) async fn create(
    pool: &Pool,
    name: &str,
    (order, size): (u8, u64),
    metadata: &BTreeMap<String, Vec<u8>>,
) -> Result<(), Error> {
    let random = pool.cluster().random()?;
    // Named as by librbd, with numbers unique in the pool.
    let prefix = format!("rb.0.{:x}.{:x}", random >> 32, random as u32);
    let made = Format1Header::new(&prefix, order, size);
    let mut op = WriteOp::new().create(true).write_full(made.to_bytes());
    if !metadata.is_empty() {
        op = op.call(&MetadataSet { entries: metadata.clone() });
    }
    let header = Header::v1(pool, name);
    // Of two concurrent creations, one creates the header, and that one lists it.
    header.operate(op).await.map_err(|error| taken(error, pool, name))?;
    let listed = change_directory(pool, &[TmapCommand::Set { key: &text::to_bytes(name), value: &[] }]).await;
    if listed.is_err() {
        // Leftovers would block the name forever. The first error is the one to report.
        let _ = pool.remove(&header.object()).await;
    }
    listed
}

/// Renames an image by creating another header with all its metadata. Clients that have the image open lose it.
///
/// Source: ceph `src/librbd/operation/RenameRequest.cc`.
pub(in crate::rbd) async fn rename(header: &Header, to: &str) -> Result<(), Error> {
    let pool = &header.pool;
    let bytes = pool.read(&header.object(), 0, 0).await?;
    let mut op = WriteOp::new().create(true).write_full(bytes);
    let entries = metadata::all(pool, &header.object()).await?;
    if !entries.is_empty() {
        op = op.call(&MetadataSet { entries });
    }
    let renamed = Header::v1(pool, to);
    renamed.operate(op).await.map_err(|error| taken(error, pool, to))?;
    let (old, new) = (text::to_bytes(&header.name), text::to_bytes(to));
    let change = [TmapCommand::Set { key: &new, value: &[] }, TmapCommand::RemoveIfThere { key: &old }];
    if let Err(error) = change_directory(pool, &change).await {
        // Undo the unlisted header. The first error is the one to report.
        let _ = pool.remove(&renamed.object()).await;
        return Err(error);
    }
    pool.remove(&header.object()).await
}

/// Adds the name of the existing image to an error of the kind `Exists`.
fn taken(error: Error, pool: &Pool, name: &str) -> Error {
    match error {
        Error::Exists { .. } => Error::Exists { what: describe(pool, name) },
        error => error,
    }
}

pub(super) async fn forget_name(pool: &Pool, name: &str) -> Result<(), Error> {
    change_directory(pool, &[TmapCommand::RemoveIfThere { key: &text::to_bytes(name) }]).await
}

/// Removes a name without an image from the directory, a leftover of an interrupted removal. Fails with
/// [`Error::NotFound`] if the name is not listed.
pub(in crate::rbd) async fn forget_lost_name(pool: &Pool, name: &str) -> Result<(), Error> {
    change_directory(pool, &[TmapCommand::Remove { key: &text::to_bytes(name) }]).await
}

pub(in crate::rbd) async fn names(pool: &Pool) -> Result<Vec<String>, Error> {
    let bytes = match pool.read(DIRECTORY, 0, 0).await {
        Err(Error::NotFound { .. }) => return Ok(Vec::new()),
        other => other?,
    };
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let bad = |error| undecodable(format!("the directory of images of pool {}", pool.name()), error);
    let bytes = bytes.to_segment();
    let map = Tmap::decode(&bytes).map_err(bad)?;
    Ok(map.entries.into_keys().map(|key| text::from_bytes(key).into_owned()).collect())
}

async fn change_directory(pool: &Pool, commands: &[TmapCommand<'_>]) -> Result<(), Error> {
    let mut w = Writer::new();
    commands.iter().for_each(|command| command.encode(&mut w));
    let op = Op::TmapUpdate { input: w.into_vec().into() };
    pool.operate_write(DIRECTORY, WriteOp::new().and(op)).await.map(drop)
}
