use crate::ceph::error::{Errno, Error};
use crate::rados::{LockInfo, LockKind, LockRequest, Pool};
use crate::rbd::header::Header;
use onego_ceph::types::EntityName;
use onego_rbd::LOCK_NAME;
use std::time::Duration;

/// Returns the advisory lock of an image.
pub async fn locks(pool: &Pool, image: &str) -> Result<LockInfo, Error> {
    let header = Header::named(pool, image).await?;
    header.pool.lock_info(&header.object(), LOCK_NAME).await
}

/// Takes the advisory lock of an image: exclusively, or shared with holders of the same tag. It is held until
/// [`remove_lock`] releases it, even after this client is gone.
pub async fn add_lock(pool: &Pool, image: &str, id: &str, shared_tag: Option<&str>) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    let request = LockRequest {
        kind: if shared_tag.is_some() { LockKind::Shared } else { LockKind::Exclusive },
        cookie: id.to_owned(),
        tag: shared_tag.unwrap_or_default().to_owned(),
        description: String::new(),
        duration: Duration::ZERO,
    };
    header.pool.lock(&header.object(), LOCK_NAME, request).await.map_err(|error| match error {
        Error::Refused { errno: Errno::BUSY, .. } => {
            Error::Busy { what: header.describe(), reason: "another client already holds the lock".into() }
        }
        Error::Exists { .. } => Error::Exists { what: format!("lock {id} on {}", header.describe()) },
        error => error,
    })
}

/// Removes the lock of a holder, even if the pool is full.
pub async fn remove_lock(pool: &Pool, image: &str, id: &str, locker: &str) -> Result<(), Error> {
    let number = locker.strip_prefix("client.").and_then(|number| number.parse().ok());
    let number =
        number.ok_or_else(|| Error::Invalid(format!("invalid locker {locker:?}: write client.NUMBER")))?;
    let header = Header::named(pool, image).await?.with_full_try();
    let holder = EntityName::client(number);
    match header.pool.break_lock(&header.object(), LOCK_NAME, holder, id).await {
        Err(Error::NotFound { .. }) => {
            Err(Error::NotFound { what: format!("lock {id} of {locker} on {}", header.describe()) })
        }
        other => other,
    }
}
