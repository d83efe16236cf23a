//! The class `lock` (ceph `src/cls/lock/cls_lock.cc`).

use super::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::lock::{
    AssertLocked, BreakLock, GetInfo, ListLocks, Lock, LockInfo, LockNames, LockerId, LockerInfo, SetCookie,
    Unlock, XATTR_PREFIX, flag, kind,
};
use onego_ceph::types::Utime;
use onego_msgr::addr::{AddrKind, EntityAddr};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Reader, text};

fn is_valid(lock_kind: u8) -> bool {
    matches!(lock_kind, kind::EXCLUSIVE | kind::SHARED | kind::EXCLUSIVE_EPHEMERAL)
}

fn check_name(name: &str) -> Outcome<()> {
    if name.is_empty() { Err(Errno::INVAL) } else { Ok(()) }
}

fn plus(time: Utime, duration: Utime) -> Utime {
    let nsec = time.nsec + duration.nsec % 1_000_000_000;
    let carry = nsec / 1_000_000_000;
    let sec = time.sec.saturating_add(duration.sec).saturating_add(carry);
    Utime { sec, nsec: nsec % 1_000_000_000 }
}

/// The attribute that has a lock.
fn attribute(name: &str) -> Vec<u8> {
    text::to_bytes(&[XATTR_PREFIX, name].concat()).into_owned()
}

/// The lock without those whose time is up. ENOENT: the object does not exist.
fn read(context: &Context<'_>, name: &str) -> Outcome<LockInfo> {
    context.must_exist()?;
    let Some(bytes) = context.state.meta().xattrs().get(&attribute(name)) else {
        return Ok(LockInfo::default());
    };
    let mut info = LockInfo::decode(&mut Reader::new(bytes)).map_err(|_| Errno::IO)?;
    info.lockers
        .retain(|_, holder| holder.expiration == Utime::default() || holder.expiration >= context.now);
    Ok(info)
}

fn write(context: &mut Context<'_>, name: &str, info: &LockInfo) {
    context.changes();
    context.state.set_xattr(attribute(name), info.to_bytes());
}

fn caller(context: &Context<'_>, cookie: String) -> LockerId {
    LockerId { locker: context.origin.name, cookie }
}

pub(super) fn lock(context: &mut Context<'_>, call: Lock) -> Outcome<()> {
    let may_renew = call.flags & flag::MAY_RENEW != 0;
    let must_renew = call.flags & flag::MUST_RENEW != 0;
    if !is_valid(call.kind) || call.name.is_empty() || (may_renew && must_renew) {
        return Err(Errno::INVAL);
    }
    let mut info = match read(context, &call.name) {
        Err(Errno::NOENT) => LockInfo::default(),
        other => other?,
    };
    let id = caller(context, call.cookie);
    if !info.lockers.is_empty() && info.tag != call.tag {
        return Err(Errno::BUSY);
    }
    match info.lockers.remove(&id) {
        Some(_) if !may_renew && !must_renew => return Err(Errno::EXIST),
        None if must_renew => return Err(Errno::NOENT),
        _ => {}
    }
    let shared = call.kind == kind::SHARED && info.kind == kind::SHARED;
    if !info.lockers.is_empty() && !shared {
        return Err(Errno::BUSY);
    }
    info.kind = call.kind;
    info.tag = call.tag;
    let expiration = match call.duration {
        Utime { sec: 0, nsec: 0 } => Utime::default(),
        duration => plus(context.now, duration),
    };
    // A client may come over either protocol; what tells it from others is the rest of its address.
    let addr = EntityAddr { kind: AddrKind::Legacy, ..context.origin.addr };
    info.lockers.insert(id, LockerInfo { expiration, addr, description: call.description });
    write(context, &call.name, &info);
    Ok(())
}

fn remove(context: &mut Context<'_>, name: &str, id: &LockerId) -> Outcome<()> {
    let mut info = read(context, name)?;
    info.lockers.remove(id).ok_or(Errno::NOENT)?;
    if info.kind == kind::EXCLUSIVE_EPHEMERAL {
        context.remove();
    } else {
        write(context, name, &info);
    }
    Ok(())
}

pub(super) fn unlock(context: &mut Context<'_>, call: Unlock) -> Outcome<()> {
    let id = caller(context, call.cookie);
    remove(context, &call.name, &id)
}

pub(super) fn break_lock(context: &mut Context<'_>, call: BreakLock) -> Outcome<()> {
    let BreakLock { name, locker, cookie } = call;
    remove(context, &name, &LockerId { locker, cookie })
}

pub(super) fn get_info(context: &mut Context<'_>, call: GetInfo) -> Outcome<LockInfo> {
    read(context, &call.name)
}

pub(super) fn list_locks(context: &mut Context<'_>, _: ListLocks) -> Outcome<LockNames> {
    context.must_exist()?;
    let attributes = context.state.meta().xattrs().keys();
    let names = attributes.filter_map(|name| name.strip_prefix(XATTR_PREFIX.as_bytes()));
    Ok(LockNames { locks: names.map(|name| text::from_bytes(name).into_owned()).collect() })
}

/// The lock, if the caller holds it in this way.
fn held(context: &Context<'_>, name: &str, lock_kind: u8, tag: &str, id: &LockerId) -> Outcome<LockInfo> {
    if !is_valid(lock_kind) {
        return Err(Errno::INVAL);
    }
    check_name(name)?;
    let info = read(context, name)?;
    let held = info.kind == lock_kind && info.tag == tag && info.lockers.contains_key(id);
    if held { Ok(info) } else { Err(Errno::BUSY) }
}

pub(super) fn assert_locked(context: &mut Context<'_>, call: AssertLocked) -> Outcome<()> {
    let id = caller(context, call.cookie);
    held(context, &call.name, call.kind, &call.tag, &id).map(drop)
}

pub(super) fn set_cookie(context: &mut Context<'_>, call: SetCookie) -> Outcome<()> {
    let id = caller(context, call.cookie);
    let mut info = held(context, &call.name, call.kind, &call.tag, &id)?;
    let renamed = caller(context, call.new_cookie);
    if info.lockers.contains_key(&renamed) {
        return Err(Errno::BUSY);
    }
    if let Some(holder) = info.lockers.remove(&id) {
        info.lockers.insert(renamed, holder);
    }
    write(context, &call.name, &info);
    Ok(())
}
