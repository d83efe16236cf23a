//! Advisory locks on objects.

use super::request::{How, submit};
use crate::border::{Errno, Handle, In, Out, Text, call, fill};
use crate::rados::ioctx::IoCtx;
use crate::runtime::AioCompletion;
use onego_ceph::cls::Method;
use onego_ceph::cls::lock::{BreakLock, GetInfo, Lock, LockInfo, Unlock, kind};
use onego_ceph::ops::flag;
use onego_ceph::types::Utime;
use onego_wire::text::to_bytes;
use std::ffi::c_int;

/// Seconds and microseconds (`struct timeval`).
#[repr(C)]
struct TimeVal {
    seconds: i64,
    microseconds: i64,
}

/// Calls a method that changes locks.
fn method<M: Method>(
    ioctx: Handle<IoCtx>,
    oid: Text,
    how: How,
    method: impl FnOnce() -> Result<M, Errno>,
) -> c_int {
    let ask = |request: &mut onego_ceph::client::Request, _: &_| {
        request.ops.push((method()?.call(), 0));
        request.flags |= flag::WRITE;
        Ok(())
    };
    submit(ioctx, oid, how, ask, |reply| Errno::check(reply.result).map(i64::from))
}

fn take(
    ioctx: Handle<IoCtx>,
    oid: Text,
    kind: u8,
    (name, cookie, tag, description): (Text, Text, Text, Text),
    duration: In<TimeVal>,
    flags: u8,
) -> c_int {
    method(ioctx, oid, How::Wait, || {
        let duration = duration.get().map(|time| Utime {
            sec: time.seconds as u32,
            nsec: (time.microseconds as u32).saturating_mul(1000),
        });
        Ok(Lock {
            name: name.text()?.into_owned(),
            kind,
            cookie: cookie.text()?.into_owned(),
            tag: tag.text_or_empty().into_owned(),
            description: description.text_or_empty().into_owned(),
            duration: duration.unwrap_or_default(),
            flags,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_lock_exclusive(
    ioctx: Handle<IoCtx>,
    oid: Text,
    name: Text,
    cookie: Text,
    description: Text,
    duration: In<TimeVal>,
    flags: u8,
) -> c_int {
    take(ioctx, oid, kind::EXCLUSIVE, (name, cookie, Text::NULL, description), duration, flags)
}

#[unsafe(no_mangle)]
extern "C" fn rados_lock_shared(
    ioctx: Handle<IoCtx>,
    oid: Text,
    name: Text,
    cookie: Text,
    tag: Text,
    description: Text,
    duration: In<TimeVal>,
    flags: u8,
) -> c_int {
    take(ioctx, oid, kind::SHARED, (name, cookie, tag, description), duration, flags)
}

fn unlock(ioctx: Handle<IoCtx>, oid: Text, how: How, name: Text, cookie: Text) -> c_int {
    method(ioctx, oid, how, || {
        Ok(Unlock { name: name.text()?.into_owned(), cookie: cookie.text()?.into_owned() })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_unlock(ioctx: Handle<IoCtx>, oid: Text, name: Text, cookie: Text) -> c_int {
    unlock(ioctx, oid, How::Wait, name, cookie)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_unlock(
    ioctx: Handle<IoCtx>,
    oid: Text,
    name: Text,
    cookie: Text,
    completion: Handle<AioCompletion>,
) -> c_int {
    unlock(ioctx, oid, How::Later(completion), name, cookie)
}

#[unsafe(no_mangle)]
extern "C" fn rados_break_lock(
    ioctx: Handle<IoCtx>,
    oid: Text,
    name: Text,
    client: Text,
    cookie: Text,
) -> c_int {
    method(ioctx, oid, How::Wait, || {
        Ok(BreakLock {
            name: name.text()?.into_owned(),
            locker: client.text()?.parse().map_err(|_| Errno::INVAL)?,
            cookie: cookie.text()?.into_owned(),
        })
    })
}

/// Asks an object for the holders of a lock.
pub(crate) fn holders(ioctx: Handle<IoCtx>, oid: Text, name: Text) -> Result<LockInfo, Errno> {
    let ioctx = ioctx.get()?;
    let mut request = ioctx.request(oid.bytes()?);
    request.ops.push((GetInfo { name: name.text()?.into_owned() }.call(), 0));
    let (reply, _) = crate::runtime::block_on(ioctx.client().cluster().request(request));
    let reply = reply?;
    Errno::check(reply.result)?;
    let output = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
    GetInfo::reply(&output).map_err(|_| Errno::IO)
}

/// Texts one behind the other, each with a zero.
fn joined(texts: impl Iterator<Item = String>) -> Vec<u8> {
    texts.flat_map(|text| to_bytes(&text).into_owned().into_iter().chain([0])).collect()
}

#[unsafe(no_mangle)]
extern "C" fn rados_list_lockers(
    ioctx: Handle<IoCtx>,
    oid: Text,
    name: Text,
    exclusive: Out<c_int>,
    tag: Out<u8>,
    tag_len: Out<usize>,
    clients: Out<u8>,
    clients_len: Out<usize>,
    cookies: Out<u8>,
    cookies_len: Out<usize>,
    addrs: Out<u8>,
    addrs_len: Out<usize>,
) -> isize {
    call(|| {
        let info = holders(ioctx, oid, name)?;
        let filled = [
            fill(tag, tag_len, &[&*to_bytes(&info.tag), b"\0"].concat()),
            fill(clients, clients_len, &joined(info.lockers.keys().map(|id| id.locker.to_string()))),
            fill(cookies, cookies_len, &joined(info.lockers.keys().map(|id| id.cookie.clone()))),
            fill(addrs, addrs_len, &joined(info.lockers.values().map(|locker| locker.addr.to_string()))),
        ];
        filled.into_iter().collect::<Result<(), _>>()?;
        exclusive.set((info.kind == kind::EXCLUSIVE).into())?;
        Ok(info.lockers.len() as isize)
    })
}
