//! What programs note at an image's header, by key: Ceph's `rbd image-meta` shows and changes it.

use super::info::ImageInfo;
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{Metadata, MetadataGet, MetadataList, MetadataRemove, MetadataSet};
use std::collections::BTreeMap;

/// The value of a key of an image, if it has one.
pub async fn metadata(pool: &Pool, image: &ImageInfo, key: &str) -> Result<Option<Vec<u8>>, Error> {
    match pool.call(&image.header_object(), &MetadataGet { key: key.to_owned() }).await {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Entries asked for at a time when all are.
const PAGE: u64 = 64;

/// All keys and values of an object that has some: an image's header, or a pool's settings.
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

/// All keys of an image and their values.
pub async fn all_metadata(pool: &Pool, image: &ImageInfo) -> Result<Metadata, Error> {
    all(pool, &image.header_object()).await
}

/// Gives a key of an image a value.
pub async fn set_metadata(pool: &Pool, image: &ImageInfo, key: &str, value: &[u8]) -> Result<(), Error> {
    let header = image.header_object();
    let entries = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    pool.operate_write(&header, WriteOp::new().call(&MetadataSet { entries })).await.map(drop)
}

/// Removes a key of an image, if it has it, also while the pool is full.
pub async fn remove_metadata(pool: &Pool, image: &ImageInfo, key: &str) -> Result<(), Error> {
    let pool = pool.with_full_try();
    let header = image.header_object();
    let op = WriteOp::new().call(&MetadataRemove { key: key.to_owned() });
    match pool.operate_write(&header, op).await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
