use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, check_new_name, describe, v1};
use onego_ceph::cls::rbd::{DirRenameImage, SetId};
use onego_ceph::rbd::{DIRECTORY, ImageFormat, id_object};

/// Renames an image.
///
/// Source: ceph `src/librbd/operation/RenameRequest.cc`.
pub async fn rename(pool: &Pool, from: &str, to: &str) -> Result<(), Error> {
    let header = Header::named(pool, from).await?;
    if header.format == ImageFormat::V1 {
        check_new_name(pool, to, ImageFormat::V1).await?;
        return v1::rename(&header, to).await;
    }
    header.refuse_migrating(&header.details().await?.info)?;
    take_name(pool, to, &header.id).await?;
    let rename = DirRenameImage { from: from.to_owned(), to: to.to_owned(), id: header.id.clone() };
    if let Err(error) = pool.operate_write(DIRECTORY, WriteOp::new().call(&rename)).await {
        // Undo the new name. The first error is the one to report.
        let _ = pool.remove(&id_object(to).to_string()).await;
        return Err(error);
    }
    pool.remove(&id_object(from).to_string()).await?;
    header.notify_changed().await
}

pub(in crate::rbd) async fn take_name(pool: &Pool, name: &str, id: &str) -> Result<(), Error> {
    check_new_name(pool, name, ImageFormat::V2).await?;
    let named = WriteOp::new().create(true).call(&SetId { id: id.to_owned() });
    match pool.operate_write(&id_object(name).to_string(), named).await {
        Err(Error::Exists { .. }) => Err(Error::Exists { what: describe(pool, name) }),
        other => other.map(drop),
    }
}
