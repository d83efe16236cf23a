//! Advisory locks of objects, by the class `lock`.

use super::op::WriteOp;
use super::pool::Pool;
use crate::ceph::error::Error;
use onego_ceph::cls::lock::{self, BreakLock, GetInfo, ListLocks, Lock};
use onego_ceph::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use std::time::{Duration, SystemTime};

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// By one client.
    Exclusive,
    /// By any number of clients.
    Shared,
    /// By one client; the object is deleted when the lock is let go.
    ExclusiveEphemeral,
}

/// How a lock is to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// By one or by several.
    pub kind: LockKind,
    /// The holder's own name for its hold: a client may hold a lock several times.
    pub cookie: String,
    /// All holders must give the same.
    pub tag: String,
    /// Shown to those that ask.
    pub description: String,
    /// How long it is held without being taken again, in whole seconds; zero: for ever.
    pub duration: Duration,
}

/// A lock, and its holders.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LockInfo {
    /// How it is held; `None`: it is not.
    pub kind: Option<LockKind>,
    /// On what its holders agree.
    pub tag: String,
    /// Its holders.
    pub holders: Vec<LockHolder>,
}

/// A holder of a lock.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The client.
    pub client: EntityName,
    /// Its own name for its hold.
    pub cookie: String,
    /// What it says of it.
    pub description: String,
    /// When it is let go by itself; `None`: never.
    pub expires: Option<SystemTime>,
    /// Where the client is.
    pub addr: EntityAddr,
}

impl Pool {
    /// Takes a lock of an object, which is made if it is not there. Fails with EBUSY ([`Error::Refused`]) if another client
    /// holds it, and with [`Error::Exists`] if this one does, under this cookie.
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

    /// Takes a lock away from a client that holds it under this cookie.
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

    /// The names of an object's locks.
    pub async fn locks(&self, object: &str) -> Result<Vec<String>, Error> {
        Ok(self.call(object, &ListLocks {}).await?.locks)
    }

    /// The holders of a lock.
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
