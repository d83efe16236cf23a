//! The class `lock`: advisory locks on an object, held by clients.
//!
//! Sources: ceph `src/cls/lock/cls_lock_{ops,types}.{h,cc}`.

use super::{methods, structure};
use crate::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use std::collections::BTreeMap;

/// Kinds of locks (`ClsLockType`). Numbers, so that the class itself can reject an unknown one.
pub mod kind {
    /// Not held.
    pub const NONE: u8 = 0;
    /// One holder.
    pub const EXCLUSIVE: u8 = 1;
    /// Any number of holders.
    pub const SHARED: u8 = 2;
    /// One holder; releasing the lock deletes the object.
    pub const EXCLUSIVE_EPHEMERAL: u8 = 3;
}

/// Flags of [`Lock`].
pub mod flag {
    /// The holder of the lock may renew it.
    pub const MAY_RENEW: u8 = 1;
    /// Only the current holder may take the lock.
    pub const MUST_RENEW: u8 = 2;
}

/// Prefix of the extended attribute that stores a lock; the lock's name follows.
pub const XATTR_PREFIX: &str = "lock.";

structure! {
    /// Holder of a lock (`locker_id_t`). The same client may hold it several times, with different cookies.
    #[derive(PartialOrd, Ord, Hash)]
    LockerId v 1 {
        /// Client.
        locker: EntityName,
        /// Client's own name for its hold.
        cookie: String,
    }
}

structure! {
    /// Properties of a hold (`locker_info_t`).
    LockerInfo v 1 {
        /// Time at which the hold expires; zero: never.
        expiration: Utime,
        /// Address of the holder.
        addr: EntityAddr,
        /// Holder's description of it.
        description: String,
    }
}

structure! {
    /// Stored form of a lock, also the reply to [`GetInfo`] (`lock_info_t`, `cls_lock_get_info_reply`).
    LockInfo v 1 {
        /// Holders.
        lockers: BTreeMap<LockerId, LockerInfo>,
        /// See [`kind`].
        kind: u8,
        /// Common tag of all holders.
        tag: String,
    }
}

impl Default for LockInfo {
    fn default() -> Self {
        Self { lockers: BTreeMap::new(), kind: kind::NONE, tag: String::new() }
    }
}

structure! {
    /// Reply to [`ListLocks`].
    LockNames v 1 {
        /// Names of the locks.
        locks: Vec<String>,
    }
}

methods! { "lock":
    /// Takes a lock. EBUSY: another client holds it; EEXIST: the caller already holds it.
    "lock" Lock v 1 {
        /// Name of the lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// Cookie of the caller.
        cookie: String,
        /// Tag that all holders must agree on.
        tag: String,
        /// Description for other clients.
        description: String,
        /// Time after which the lock expires unless renewed; zero: never.
        duration: Utime,
        /// See [`flag`].
        flags: u8,
    } -> ();
    /// Releases a lock. ENOENT: the caller does not hold it.
    "unlock" Unlock v 1 {
        /// Name of the lock.
        name: String,
        /// Cookie of the caller.
        cookie: String,
    } -> ();
    /// Breaks a lock. ENOENT: the named client does not hold it.
    "break_lock" BreakLock v 1 {
        /// Name of the lock.
        name: String,
        /// Holder.
        locker: EntityName,
        /// Holder's cookie.
        cookie: String,
    } -> ();
    /// Returns the holders of a lock.
    "get_info" GetInfo v 1 {
        /// Name of the lock.
        name: String,
    } -> LockInfo;
    /// Returns the names of all locks of the object.
    "list_locks" ListLocks {} -> LockNames;
    /// Fails with EBUSY unless the caller holds the lock with these properties.
    "assert_locked" AssertLocked v 1 {
        /// Name of the lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// Cookie of the caller.
        cookie: String,
        /// Tag of the lock.
        tag: String,
    } -> ();
    /// Changes the cookie of the caller's hold.
    "set_cookie" SetCookie v 1 {
        /// Name of the lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// Cookie of the caller.
        cookie: String,
        /// Tag of the lock.
        tag: String,
        /// New cookie.
        new_cookie: String,
    } -> ();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cls::Method;
    use crate::ops::Op;
    use onego_msgr::encoding::{Decode, Encode};

    #[test]
    fn a_call_carries_the_encoded_arguments() {
        let lock = Lock {
            name: "rbd_lock".into(),
            kind: kind::EXCLUSIVE,
            cookie: "auto 1".into(),
            tag: "internal".into(),
            description: String::new(),
            duration: Utime::default(),
            flags: flag::MAY_RENEW,
        };
        let Op::Call { class, method, input } = lock.call() else { panic!("not a call") };
        assert_eq!((class.as_str(), method.as_str()), ("lock", "lock"));
        assert_eq!(Lock::from_bytes(&input.to_vec()), Ok(lock));
    }

    #[test]
    fn a_reply_survives_a_round_trip() {
        let id = LockerId { locker: EntityName::client(4), cookie: "c".into() };
        let holder =
            LockerInfo { expiration: Utime::default(), addr: EntityAddr::default(), description: "d".into() };
        let info = LockInfo { lockers: BTreeMap::from([(id, holder)]), kind: kind::SHARED, tag: "t".into() };
        assert_eq!(GetInfo::reply(&info.to_bytes().into()), Ok(info));
    }
}
