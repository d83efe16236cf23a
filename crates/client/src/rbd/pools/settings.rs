use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::metadata::all;
use onego_ceph::cls::rbd::{Metadata, MetadataGet, MetadataRemove, MetadataSet};

/// Object with the settings (`RBD_INFO`).
const INFO: &str = "rbd_info";

/// Returns the pool's metadata.
pub async fn pool_settings(pool: &Pool) -> Result<Metadata, Error> {
    all(pool, INFO).await
}

/// Returns the value of a key of the pool's metadata, if it has one. [`pool_settings`] omits an empty key, as the
/// class does.
pub async fn pool_setting(pool: &Pool, key: &str) -> Result<Option<Vec<u8>>, Error> {
    match pool.call(INFO, &MetadataGet { key: key.to_owned() }).await {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets a key of the pool's metadata.
pub async fn set_pool_setting(pool: &Pool, key: &str, value: &[u8]) -> Result<(), Error> {
    let entries = Metadata::from([(key.to_owned(), value.to_owned())]);
    pool.operate_write(INFO, WriteOp::new().call(&MetadataSet { entries })).await.map(drop)
}

/// Removes a key of the pool's metadata, even if the pool is full.
pub async fn remove_pool_setting(pool: &Pool, key: &str) -> Result<(), Error> {
    let pool = pool.with_full_try();
    pool.operate_write(INFO, WriteOp::new().call(&MetadataRemove { key: key.to_owned() })).await.map(drop)
}
