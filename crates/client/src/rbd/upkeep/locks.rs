use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::details::Header;
use onego_ceph::cls::lock::{BreakLock, GetInfo, Lock, kind};
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;

/// The lock that the image's owner, or users by hand, hold on its header (`RBD_LOCK_NAME`).
const LOCK: &str = "rbd_lock";

/// The lock on an image that its users agree on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImageLocks {
    /// May only one hold it?
    pub is_exclusive: bool,
    /// What all of its holders said; empty for one holder.
    pub tag: String,
    /// How it is held.
    pub holders: Vec<ImageLock>,
}

/// How somebody holds the lock.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImageLock {
    /// The client.
    pub locker: String,
    /// The client's own name for its hold.
    pub id: String,
    /// Where the client is.
    pub address: EntityAddr,
}

/// The lock on an image.
pub async fn locks(pool: &Pool, image: &str) -> Result<ImageLocks, Error> {
    let info = Header::named(pool, image).await?.call(&GetInfo { name: LOCK.to_owned() }).await?;
    let holder = |(id, at): (onego_ceph::cls::lock::LockerId, onego_ceph::cls::lock::LockerInfo)| ImageLock {
        locker: id.locker.to_string(),
        id: id.cookie,
        address: at.addr,
    };
    Ok(ImageLocks {
        is_exclusive: info.kind != kind::SHARED,
        tag: info.tag,
        holders: info.lockers.into_iter().map(holder).collect(),
    })
}

/// Takes the lock on an image: alone, or with all others that give the same tag. It is held until
/// [`remove_lock`] ends that, also when this client is gone.
pub async fn add_lock(pool: &Pool, image: &str, id: &str, shared_tag: Option<&str>) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    let lock = Lock {
        name: LOCK.to_owned(),
        kind: if shared_tag.is_some() { kind::SHARED } else { kind::EXCLUSIVE },
        cookie: id.to_owned(),
        tag: shared_tag.unwrap_or_default().to_owned(),
        description: String::new(),
        duration: Utime::default(),
        flags: 0,
    };
    header.change(&lock).await.map_err(|error| match error {
        Error::Refused { errno: Errno::BUSY, .. } => Error::Busy {
            what: header.describe(),
            reason: "the lock is held already by somebody else".into(),
        },
        Error::Exists { .. } => Error::Exists { what: format!("lock {id} on {}", header.describe()) },
        error => error,
    })
}

/// Takes the lock away from a holder.
pub async fn remove_lock(pool: &Pool, image: &str, id: &str, locker: &str) -> Result<(), Error> {
    let number = locker.strip_prefix("client.").and_then(|number| number.parse().ok());
    let number =
        number.ok_or_else(|| Error::Invalid(format!("{locker:?} is no client: write client.NUMBER")))?;
    let header = Header::named(pool, image).await?;
    let broken =
        BreakLock { name: LOCK.to_owned(), locker: EntityName::client(number), cookie: id.to_owned() };
    match header.change(&broken).await {
        Err(Error::NotFound { .. }) => {
            Err(Error::NotFound { what: format!("lock {id} of {locker} on {}", header.describe()) })
        }
        other => other,
    }
}
