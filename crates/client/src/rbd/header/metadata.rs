//! Metadata of an image: entries in its header, which Ceph's `rbd image-meta` shows and changes.

use super::info::ImageInfo;
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{Metadata, MetadataGet, MetadataList, MetadataRemove, MetadataSet};
use std::collections::BTreeMap;

/// Returns the value of a metadata entry, or `None` if it does not exist.
pub async fn metadata(pool: &Pool, image: &ImageInfo, key: &str) -> Result<Option<Vec<u8>>, Error> {
    match pool.call(&image.header_object(), &MetadataGet { key: key.to_owned() }).await {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

const PAGE: u64 = 64;

pub(crate) async fn all(pool: &Pool, object: &str) -> Result<Metadata, Error> {
    let mut all = Metadata::new();
    loop {
        let after = all.last_key_value().map(|(key, _)| key.clone()).unwrap_or_default();
        let page = match pool.call(object, &MetadataList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(all),
            other => other?,
        };
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns all metadata of an image.
pub async fn all_metadata(pool: &Pool, image: &ImageInfo) -> Result<Metadata, Error> {
    all(pool, &image.header_object()).await
}

/// Sets a metadata entry of an image.
pub async fn set_metadata(pool: &Pool, image: &ImageInfo, key: &str, value: &[u8]) -> Result<(), Error> {
    let header = image.header_object();
    let entries = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    pool.operate_write(&header, WriteOp::new().call(&MetadataSet { entries })).await.map(drop)
}

/// Removes a metadata entry of an image if it exists, even if the pool is full.
pub async fn remove_metadata(pool: &Pool, image: &ImageInfo, key: &str) -> Result<(), Error> {
    let pool = pool.with_full_try();
    let header = image.header_object();
    let op = WriteOp::new().call(&MetadataRemove { key: key.to_owned() });
    match pool.operate_write(&header, op).await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
