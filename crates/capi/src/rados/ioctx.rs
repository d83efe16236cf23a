//! Handles of pools.

use super::cluster::Rados;
use crate::border::{Errno, Handle, Out, Text, call, done};
use crate::runtime::{Flights, SharedClient, block_on, lock};
use onego::rados::{Cluster, Pool, PoolUsage};
use onego_ceph::client::Request;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::flag;
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_wire::text::{from_bytes, to_bytes};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex, MutexGuard};

/// A handle of a pool (`rados_ioctx_t`). It holds the pool's number, so it stays when the pool is renamed.
pub(crate) struct IoCtx {
    rados: Arc<Rados>,
    client: Arc<SharedClient>,
    pool: i64,
    view: Mutex<View>,
    flights: Arc<Flights>,
}

/// How a handle sees the pool.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) namespace: Vec<u8>,
    /// Hashed instead of objects' names, unless it is empty.
    pub(in crate::rados) key: Vec<u8>,
    /// The snapshot that is read.
    pub(in crate::rados) snap: u64,
    /// The snapshots that a write keeps.
    pub(in crate::rados) snap_context: SnapContext,
    /// Flags of all requests.
    pub(in crate::rados) flags: u32,
    /// Of the object that was read or written last.
    pub(in crate::rados) version: u64,
}

impl IoCtx {
    fn create(rados: &Arc<Rados>, pool: i64) -> Result<Arc<Self>, Errno> {
        let view = View {
            namespace: Vec::new(),
            key: Vec::new(),
            snap: NOSNAP,
            snap_context: SnapContext::default(),
            flags: 0,
            version: 0,
        };
        let (rados, client) = (Arc::clone(rados), rados.client()?);
        Ok(Arc::new(Self { rados, client, pool, view: Mutex::new(view), flights: Arc::default() }))
    }

    pub(crate) fn rados(&self) -> &Arc<Rados> {
        &self.rados
    }

    pub(crate) fn client(&self) -> &Arc<SharedClient> {
        &self.client
    }

    /// What is in flight of it.
    pub(in crate::rados) fn flights(&self) -> &Arc<Flights> {
        &self.flights
    }

    pub(crate) fn pool_id(&self) -> i64 {
        self.pool
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// The pool as Onego's client has it.
    pub(crate) fn pool(&self) -> Result<Pool, Errno> {
        block_on(self.pool_now(self.client.cluster()))
    }

    /// The same, for a future.
    pub(in crate::rados) async fn pool_now(&self, cluster: &Cluster) -> Result<Pool, Errno> {
        let name = cluster.osd_map().await?.pool_names.get(&self.pool).cloned();
        let pool = cluster.pool(&name.ok_or(Errno::NOENT)?).await?;
        Ok(pool.in_namespace(&from_bytes(&self.view().namespace)))
    }

    /// What the pool is called now.
    pub(crate) fn name(&self) -> Result<String, Errno> {
        let map = block_on(self.client.cluster().osd_map())?;
        map.pool_names.get(&self.pool).cloned().ok_or(Errno::NOENT)
    }

    /// A request to an object, as this handle sees it.
    pub(in crate::rados) fn request(&self, object: &[u8]) -> Request {
        let view = self.view();
        Request {
            key: view.key.clone(),
            snap: view.snap,
            snap_context: view.snap_context.clone(),
            ..Request::new(self.pool, ObjectName::new(object))
                .in_namespace(&view.namespace)
                .with_flags(view.flags)
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_create(cluster: Handle<Rados>, name: Text, ioctx: Out<Handle<IoCtx>>) -> c_int {
    done(|| {
        let cluster = cluster.share()?;
        let pool = block_on(cluster.client()?.cluster().pool(&name.text()?))?;
        ioctx.give(IoCtx::create(&cluster, pool.id())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_create2(cluster: Handle<Rados>, pool: i64, ioctx: Out<Handle<IoCtx>>) -> c_int {
    done(|| {
        let cluster = cluster.share()?;
        let client = cluster.client()?;
        let is_known = |map: &onego_ceph::osdmap::OsdMap| map.pools.contains_key(&pool);
        if !is_known(&*block_on(client.cluster().osd_map())?)
            && !is_known(&*block_on(client.cluster().newest_osd_map())?)
        {
            return Err(Errno::NOENT);
        }
        ioctx.give(IoCtx::create(&cluster, pool)?)
    })
}

/// Requests in flight go on.
#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_destroy(ioctx: Handle<IoCtx>) {
    call(|| ioctx.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_get_cluster(ioctx: Handle<IoCtx>) -> Handle<Rados> {
    call(|| Ok(Handle::of(ioctx.get()?.rados())))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_cct(ioctx: Handle<IoCtx>) -> Handle<Rados> {
    call(|| Ok(Handle::of(ioctx.get()?.rados())))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_get_id(ioctx: Handle<IoCtx>) -> i64 {
    call(|| Ok(ioctx.get()?.pool))
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_get_pool_name(ioctx: Handle<IoCtx>, buf: Out<u8>, len: c_uint) -> c_int {
    call(|| {
        let name = ioctx.get()?.name()?;
        buf.copy_text(&to_bytes(&name), len as usize)?;
        Ok(to_bytes(&name).len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_set_namespace(ioctx: Handle<IoCtx>, namespace: Text) {
    call(|| {
        ioctx.get()?.view().namespace = namespace.bytes_or_empty().to_vec();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_get_namespace(ioctx: Handle<IoCtx>, buf: Out<u8>, len: c_uint) -> c_int {
    call(|| {
        let namespace = ioctx.get()?.view().namespace.clone();
        buf.copy_text(&namespace, len as usize)?;
        Ok(namespace.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_locator_set_key(ioctx: Handle<IoCtx>, key: Text) {
    call(|| {
        ioctx.get()?.view().key = key.bytes_or_empty().to_vec();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_set_pool_full_try(ioctx: Handle<IoCtx>) {
    full_try(ioctx, true);
}

#[unsafe(no_mangle)]
extern "C" fn rados_unset_pool_full_try(ioctx: Handle<IoCtx>) {
    full_try(ioctx, false);
}

#[unsafe(no_mangle)]
extern "C" fn rados_set_osdmap_full_try(ioctx: Handle<IoCtx>) {
    full_try(ioctx, true);
}

#[unsafe(no_mangle)]
extern "C" fn rados_unset_osdmap_full_try(ioctx: Handle<IoCtx>) {
    full_try(ioctx, false);
}

fn full_try(ioctx: Handle<IoCtx>, is_set: bool) {
    call(|| {
        let mut view = ioctx.get()?.view();
        view.flags = if is_set { view.flags | flag::FULL_TRY } else { view.flags & !flag::FULL_TRY };
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rados_get_last_version(ioctx: Handle<IoCtx>) -> u64 {
    call(|| Ok(ioctx.get()?.view().version))
}

/// How a pool is used (`struct rados_pool_stat_t`).
#[repr(C)]
#[derive(Default)]
struct PoolStat {
    num_bytes: u64,
    num_kb: u64,
    num_objects: u64,
    num_object_clones: u64,
    num_object_copies: u64,
    num_objects_missing_on_primary: u64,
    num_objects_unfound: u64,
    num_objects_degraded: u64,
    num_rd: u64,
    num_rd_kb: u64,
    num_wr: u64,
    num_wr_kb: u64,
    num_user_bytes: u64,
    compressed_bytes_orig: u64,
    compressed_bytes: u64,
    compressed_bytes_alloc: u64,
}

impl From<&PoolUsage> for PoolStat {
    fn from(usage: &PoolUsage) -> Self {
        Self {
            num_bytes: usage.used,
            num_kb: usage.used.div_ceil(1024),
            num_objects: usage.objects,
            num_object_clones: usage.clones,
            num_object_copies: usage.copies,
            num_objects_missing_on_primary: usage.missing_on_primary,
            num_objects_unfound: usage.unfound,
            num_objects_degraded: usage.degraded,
            num_rd: usage.reads.0,
            num_rd_kb: usage.reads.1,
            num_wr: usage.writes.0,
            num_wr_kb: usage.writes.1,
            num_user_bytes: usage.stored,
            compressed_bytes_orig: usage.compressed.1,
            compressed_bytes: 0,
            compressed_bytes_alloc: usage.compressed.0,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_ioctx_pool_stat(ioctx: Handle<IoCtx>, stat: Out<PoolStat>) -> c_int {
    done(|| {
        let ioctx = ioctx.get()?;
        let name = ioctx.name()?;
        let pools = block_on(ioctx.client.cluster().pool_usage(vec![name.clone()]))?;
        // Nobody has told the monitors of a pool that is new.
        stat.set(pools.get(&name).map(PoolStat::from).unwrap_or_default())
    })
}
