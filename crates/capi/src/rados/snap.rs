//! Snapshots of pools, and those that programs manage themselves.

use super::ioctx::IoCtx;
use crate::border::{Errno, Handle, In, Out, Text, call, done};
use crate::runtime::{AioCompletion, block_on};
use onego_ceph::messages::{PoolOp, PoolOpKind, PoolOpReply};
use onego_ceph::osdmap::PoolSnap;
use onego_ceph::types::SnapContext;
use onego_wire::text::to_bytes;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

/// Has the monitors change a pool's snapshots.
async fn operation(ioctx: &IoCtx, op: PoolOpKind, snap: u64, name: &str) -> Result<PoolOpReply, Errno> {
    let cluster = ioctx.client().cluster();
    let op = PoolOp {
        fsid: cluster.osd_map().await?.fsid,
        pool: ioctx.pool_id() as u32,
        op,
        snap,
        name: name.to_owned(),
        crush_rule: 0,
    };
    let reply = cluster.pool_op(op).await?;
    Errno::check(reply.result)?;
    Ok(reply)
}

/// The same, waiting for it.
fn operate(ioctx: &IoCtx, op: PoolOpKind, snap: u64, name: &str) -> Result<PoolOpReply, Errno> {
    block_on(operation(ioctx, op, snap, name))
}

/// The id of a snapshot that the monitors have made.
fn created(reply: &PoolOpReply) -> Result<u64, Errno> {
    let id = reply.output.as_deref().and_then(|output| output.first_chunk()).ok_or(Errno::IO)?;
    Ok(u64::from_le_bytes(*id))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_create(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| {
        // As below.
        if named(ioctx, name).is_ok() {
            return Err(Errno::EXIST);
        }
        operate(ioctx.get()?, PoolOpKind::CreateSnap, 0, &name.text()?).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_remove(ioctx: Handle<IoCtx>, name: Text) -> c_int {
    done(|| {
        // The monitors take it for done if there is none.
        named(ioctx, name)?;
        operate(ioctx.get()?, PoolOpKind::DeleteSnap, 0, &name.text()?).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_selfmanaged_snap_create(ioctx: Handle<IoCtx>, snap: Out<u64>) -> c_int {
    done(|| snap.set(created(&operate(ioctx.get()?, PoolOpKind::CreateUnmanagedSnap, 0, "")?)?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_selfmanaged_snap_remove(ioctx: Handle<IoCtx>, snap: u64) -> c_int {
    done(|| operate(ioctx.get()?, PoolOpKind::DeleteUnmanagedSnap, snap, "").map(drop))
}

/// Has the monitors change a pool's snapshots, and tells the completion. `take` is given their answer.
fn operate_later(
    ioctx: Handle<IoCtx>,
    (op, snap): (PoolOpKind, u64),
    completion: Handle<AioCompletion>,
    take: impl FnOnce(&PoolOpReply) -> Result<(), Errno> + Send + 'static,
) {
    call(|| {
        let (ioctx, completion) = (ioctx.share()?, completion.share()?);
        let (client, flight) = (Arc::clone(ioctx.client()), ioctx.flights().begin());
        client.start(completion, Some(flight), |_| {
            Ok(async move {
                let reply = operation(&ioctx, op, snap, "").await?;
                take(&reply).map(|()| 0)
            })
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_ioctx_selfmanaged_snap_create(
    ioctx: Handle<IoCtx>,
    snap: Out<u64>,
    completion: Handle<AioCompletion>,
) {
    operate_later(ioctx, (PoolOpKind::CreateUnmanagedSnap, 0), completion, move |reply| {
        snap.set(created(reply)?)
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_ioctx_selfmanaged_snap_remove(
    ioctx: Handle<IoCtx>,
    snap: u64,
    completion: Handle<AioCompletion>,
) {
    operate_later(ioctx, (PoolOpKind::DeleteUnmanagedSnap, snap), completion, |_| Ok(()));
}

/// Ids come newest first, and none is newer than `seq`.
#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_selfmanaged_snap_set_write_ctx(
    ioctx: Handle<IoCtx>,
    seq: u64,
    snaps: In<u64>,
    count: c_int,
) -> c_int {
    done(|| {
        let snaps = snaps.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
        let is_descending = snaps.windows(2).all(|pair| pair[0] > pair[1]);
        if !is_descending || snaps.first().is_some_and(|first| *first > seq) {
            return Err(Errno::INVAL);
        }
        ioctx.get()?.view().snap_context = SnapContext { seq, snaps: snaps.to_vec() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_set_read(ioctx: Handle<IoCtx>, snap: u64) {
    call(|| {
        ioctx.get()?.view().snap = snap;
        Ok(())
    });
}

/// What the newest map says of a pool's snapshots.
fn in_map<T>(ioctx: Handle<IoCtx>, what: impl FnOnce(&BTreeMap<u64, PoolSnap>) -> T) -> Result<T, Errno> {
    let ioctx = ioctx.get()?;
    let map = block_on(ioctx.client().cluster().osd_map())?;
    let pool = map.pools.get(&ioctx.pool_id()).ok_or(Errno::NOENT)?;
    Ok(what(&pool.snaps))
}

pub(super) fn named(ioctx: Handle<IoCtx>, name: Text) -> Result<u64, Errno> {
    let name = name.text()?;
    let by_name =
        |snaps: &BTreeMap<u64, PoolSnap>| snaps.values().find(|snap| snap.name == name).map(|snap| snap.id);
    in_map(ioctx, by_name)?.ok_or(Errno::NOENT)
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_list(ioctx: Handle<IoCtx>, snaps: Out<u64>, most: c_int) -> c_int {
    call(|| {
        let ids = in_map(ioctx, |snaps| snaps.keys().copied().collect::<Vec<_>>())?;
        snaps.copy(&ids, usize::try_from(most).map_err(|_| Errno::INVAL)?)?;
        Ok(ids.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_lookup(ioctx: Handle<IoCtx>, name: Text, snap: Out<u64>) -> c_int {
    done(|| snap.set(named(ioctx, name)?))
}

fn numbered<T>(ioctx: Handle<IoCtx>, id: u64, what: impl FnOnce(&PoolSnap) -> T) -> Result<T, Errno> {
    in_map(ioctx, |snaps| snaps.get(&id).map(what))?.ok_or(Errno::NOENT)
}

/// What is left of the memory is filled with zeros: Python's bindings take all of it for the name.
#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_get_name(ioctx: Handle<IoCtx>, id: u64, name: Out<u8>, len: c_int) -> c_int {
    done(|| {
        let found = numbered(ioctx, id, |snap| snap.name.clone())?;
        let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
        let mut found = [&*to_bytes(&found), b"\0"].concat();
        found.resize(found.len().max(len), 0);
        name.copy(&found, len)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_snap_get_stamp(ioctx: Handle<IoCtx>, id: u64, time: Out<libc::time_t>) -> c_int {
    done(|| time.set(numbered(ioctx, id, |snap| snap.stamp.sec)?.into()))
}
