//! Advisory object locks, implemented by the object class `lock`.

use super::op::WriteOp;
use super::pool::Pool;
use crate::ceph::error::Error;
use onego_ceph::cls::lock::{self, BreakLock, GetInfo, ListLocks, Lock};
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use std::time::{Duration, SystemTime};

/// Mode of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// Held by one client.
    Exclusive,
    /// Held by any number of clients.
    Shared,
    /// Held by one client; releasing it deletes the object.
    ExclusiveEphemeral,
}

/// Parameters of a lock to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// Exclusive or shared.
    pub kind: LockKind,
    /// Name of this hold, chosen by the holder: a client may hold a lock several times.
    pub cookie: String,
    /// Tag that all holders must share.
    pub tag: String,
    /// Description shown when the lock is listed.
    pub description: String,
    /// Lease duration in whole seconds unless renewed; zero means indefinite.
    pub duration: Duration,
}

/// A lock and its holders.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Mode of the lock; `None` if it is not held.
    pub kind: Option<LockKind>,
    /// Tag shared by the holders.
    pub tag: String,
    /// Current holders.
    pub holders: Vec<LockHolder>,
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Entity name of the client.
    pub client: EntityName,
    /// Name of this hold, chosen by the client.
    pub cookie: String,
    /// Description given by the client.
    pub description: String,
    /// Expiry time; `None` means never.
    pub expires: Option<SystemTime>,
    /// Address of the client.
    pub addr: EntityAddr,
}

impl Pool {
    /// Takes a lock on an object; creates the object if it does not exist. Fails with EBUSY ([`Error::Refused`]) if
    /// another client holds the lock, and with [`Error::Exists`] if this client already holds it under this cookie.
    pub async fn lock(&self, object: &str, name: &str, request: LockRequest) -> Result<(), Error> {
        let LockRequest { kind, cookie, tag, description, duration } = request;
        let kind = match kind {
            LockKind::Exclusive => lock::kind::EXCLUSIVE,
            LockKind::Shared => lock::kind::SHARED,
            LockKind::ExclusiveEphemeral => lock::kind::EXCLUSIVE_EPHEMERAL,
        };
        let duration = Utime { sec: u32::try_from(duration.as_secs()).unwrap_or(u32::MAX), nsec: 0 };
        let call = Lock { name: name.to_owned(), kind, cookie, tag, description, duration, flags: 0 };
        self.operate_write(object, WriteOp::new().call(&call)).await.map(drop)
    }

    /// Breaks the lock that a client holds under this cookie.
    pub async fn break_lock(
        &self,
        object: &str,
        name: &str,
        holder: EntityName,
        cookie: &str,
    ) -> Result<(), Error> {
        let call = BreakLock { name: name.to_owned(), locker: holder, cookie: cookie.to_owned() };
        self.operate_write(object, WriteOp::new().call(&call)).await.map(drop)
    }

    /// Lists the names of an object's locks.
    pub async fn locks(&self, object: &str) -> Result<Vec<String>, Error> {
        Ok(self.call(object, &ListLocks {}).await?.locks)
    }

    /// Returns a lock's mode and holders.
    pub async fn lock_info(&self, object: &str, name: &str) -> Result<LockInfo, Error> {
        let info = self.call(object, &GetInfo { name: name.to_owned() }).await?;
        let kind = match info.kind {
            lock::kind::EXCLUSIVE => Some(LockKind::Exclusive),
            lock::kind::SHARED => Some(LockKind::Shared),
            lock::kind::EXCLUSIVE_EPHEMERAL => Some(LockKind::ExclusiveEphemeral),
            _ => None,
        };
        let holder = |(id, info): (lock::LockerId, lock::LockerInfo)| {
            let Utime { sec, nsec } = info.expiration;
            let expires = SystemTime::UNIX_EPOCH + Duration::new(sec.into(), nsec);
            LockHolder {
                client: id.locker,
                cookie: id.cookie,
                description: info.description,
                expires: (expires > SystemTime::UNIX_EPOCH).then_some(expires),
                addr: info.addr,
            }
        };
        Ok(LockInfo { kind, tag: info.tag, holders: info.lockers.into_iter().map(holder).collect() })
    }
}
