//! The class `lock`: advisory locks on an object, held by clients.
//!
//! Sources: ceph `src/cls/lock/cls_lock_{ops,types}.{h,cc}`.

use super::{methods, structure};
use crate::types::{EntityName, Utime};
use onego_msgr::addr::EntityAddr;
use std::collections::BTreeMap;

/// How a lock is held (`ClsLockType`). A number on the wire, so that one that is not known can be refused by the class
/// itself.
pub mod kind {
    /// Not held.
    pub const NONE: u8 = 0;
    /// By one holder.
    pub const EXCLUSIVE: u8 = 1;
    /// By any number of holders.
    pub const SHARED: u8 = 2;
    /// By one holder; the object is deleted when the lock is let go.
    pub const EXCLUSIVE_EPHEMERAL: u8 = 3;
}

/// Flags of [`Lock`].
pub mod flag {
    /// The holder of the lock may take it again.
    pub const MAY_RENEW: u8 = 1;
    /// Only who holds the lock already may take it.
    pub const MUST_RENEW: u8 = 2;
}

/// What the name of the extended attribute that holds a lock starts with; the lock's name follows.
pub const XATTR_PREFIX: &str = "lock.";

structure! {
    /// The holder of a lock (`locker_id_t`): the same client may hold it several times, under different cookies.
    #[derive(PartialOrd, Ord, Hash)]
    LockerId v 1 {
        /// The client.
        locker: EntityName,
        /// The client's own name for its hold.
        cookie: String,
    }
}

structure! {
    /// How somebody holds a lock (`locker_info_t`).
    LockerInfo v 1 {
        /// When the hold ends by itself; zero: never.
        expiration: Utime,
        /// Where the holder is.
        addr: EntityAddr,
        /// What the holder says about it.
        description: String,
    }
}

structure! {
    /// A lock as the object keeps it and as [`GetInfo`] replies (`lock_info_t`, `cls_lock_get_info_reply`).
    LockInfo v 1 {
        /// The holders.
        lockers: BTreeMap<LockerId, LockerInfo>,
        /// See [`kind`].
        kind: u8,
        /// Holders must agree on it.
        tag: String,
    }
}

impl Default for LockInfo {
    fn default() -> Self {
        Self { lockers: BTreeMap::new(), kind: kind::NONE, tag: String::new() }
    }
}

structure! {
    /// The reply to [`ListLocks`].
    LockNames v 1 {
        /// Names of the locks.
        locks: Vec<String>,
    }
}

methods! { "lock":
    /// Takes a lock. EBUSY: somebody else holds it; EEXIST: the caller holds it already.
    "lock" Lock v 1 {
        /// The lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// The caller's name for its hold.
        cookie: String,
        /// All holders must give the same.
        tag: String,
        /// Shown to who asks.
        description: String,
        /// How long the lock is held without being taken again; zero: for ever.
        duration: Utime,
        /// See [`flag`].
        flags: u8,
    } -> ();
    /// Lets go of a lock. ENOENT: the caller does not hold it.
    "unlock" Unlock v 1 {
        /// The lock.
        name: String,
        /// The caller's name for its hold.
        cookie: String,
    } -> ();
    /// Takes a lock away from its holder. ENOENT: the client that is named does not hold it.
    "break_lock" BreakLock v 1 {
        /// The lock.
        name: String,
        /// Its holder.
        locker: EntityName,
        /// The holder's name for its hold.
        cookie: String,
    } -> ();
    /// The holders of a lock.
    "get_info" GetInfo v 1 {
        /// The lock.
        name: String,
    } -> LockInfo;
    /// The names of all locks of the object.
    "list_locks" ListLocks {} -> LockNames;
    /// EBUSY unless the caller holds the lock in this way.
    "assert_locked" AssertLocked v 1 {
        /// The lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// The caller's name for its hold.
        cookie: String,
        /// The lock's tag.
        tag: String,
    } -> ();
    /// Gives the caller's hold another name.
    "set_cookie" SetCookie v 1 {
        /// The lock.
        name: String,
        /// See [`kind`].
        kind: u8,
        /// The caller's name for its hold.
        cookie: String,
        /// The lock's tag.
        tag: String,
        /// The name from now on.
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
    fn a_call_carries_what_the_class_decodes() {
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
    fn a_reply_reads_back() {
        let id = LockerId { locker: EntityName::client(4), cookie: "c".into() };
        let holder =
            LockerInfo { expiration: Utime::default(), addr: EntityAddr::default(), description: "d".into() };
        let info = LockInfo { lockers: BTreeMap::from([(id, holder)]), kind: kind::SHARED, tag: "t".into() };
        assert_eq!(GetInfo::reply(&info.to_bytes().into()), Ok(info));
    }
}
