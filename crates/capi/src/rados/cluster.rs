//! Handles of clusters.

use super::conf::Conf;
use super::context;
use super::log::LogFollower;
use super::watches::Watches;
use crate::border::{Errno, Handle, Opaque, Out, Text, call, done};
use crate::runtime::{SharedClient, block_on, lock};
use onego::ceph::{AuthName, Identity};
use onego_wire::text::to_bytes;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A handle of a cluster (`rados_t`). It is cheap: connected handles of one process, identity and configuration share a client.
pub(crate) struct Rados {
    conf: Mutex<Conf>,
    client: Mutex<Option<Arc<SharedClient>>>,
    watches: Watches,
    /// The program's callback for the cluster's log.
    log: Mutex<Option<Arc<LogFollower>>>,
    /// The program has registered as a service's daemon, which a handle does once.
    is_service: AtomicBool,
}

impl Rados {
    fn give(cluster: Out<Handle<Self>>, conf: Conf) -> Result<(), Errno> {
        let (conf, client) = (Mutex::new(conf), Mutex::new(None));
        let (watches, log) = (Watches::default(), Mutex::new(None));
        let made = Arc::new(Self { conf, client, watches, log, is_service: AtomicBool::new(false) });
        let address = Handle::of(&made).address();
        cluster.give(made)?;
        context::given(address);
        Ok(())
    }

    /// Its client; ENOTCONN before it is connected.
    pub(crate) fn client(&self) -> Result<Arc<SharedClient>, Errno> {
        lock(&self.client).clone().ok_or(Errno::NOTCONN)
    }

    /// Its client, or one for the moment where it is not connected.
    pub(super) fn connected(&self) -> Result<Arc<SharedClient>, Errno> {
        match self.client() {
            Ok(client) => Ok(client),
            Err(_) => {
                let conf = self.conf().clone();
                SharedClient::connect(&conf.identity, &conf.settings)
            }
        }
    }

    /// Replaces the callback for the cluster's log, or removes it.
    pub(super) fn follow_log(&self, follower: Option<Arc<LogFollower>>) {
        let before = std::mem::replace(&mut *lock(&self.log), follower);
        before.into_iter().for_each(|before| before.end());
    }

    /// Notes that the program is a service's daemon. Fails the second time.
    pub(super) fn register_service(&self) -> Result<(), Errno> {
        if self.is_service.swap(true, Ordering::Relaxed) { Err(Errno::EXIST) } else { Ok(()) }
    }

    pub(super) fn watches(&self) -> &Watches {
        &self.watches
    }

    pub(crate) fn conf(&self) -> MutexGuard<'_, Conf> {
        lock(&self.conf)
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_version(major: Out<c_int>, minor: Out<c_int>, extra: Out<c_int>) {
    major.set_if_wanted(3);
    minor.set_if_wanted(0);
    extra.set_if_wanted(0);
}

#[unsafe(no_mangle)]
extern "C" fn rados_create(cluster: Out<Handle<Rados>>, id: Text) -> c_int {
    done(|| {
        let name = if id.is_null() { AuthName::client("admin") } else { AuthName::client(&id.text()?) };
        Rados::give(cluster, Conf::new(Identity::default().with_name(name)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_create2(
    cluster: Out<Handle<Rados>>,
    cluster_name: Text,
    name: Text,
    _flags: u64,
) -> c_int {
    done(|| {
        let mut identity = Identity::default();
        if !name.is_null() {
            identity = identity.with_name(name.text()?.parse().map_err(|_| Errno::INVAL)?);
        }
        if !cluster_name.text_or_empty().is_empty() {
            identity = identity.with_cluster(&cluster_name.text()?);
        }
        Rados::give(cluster, Conf::new(identity))
    })
}

/// A context of ours is the handle that it was asked of: this makes another handle like it.
#[unsafe(no_mangle)]
extern "C" fn rados_create_with_context(cluster: Out<Handle<Rados>>, context: Handle<Rados>) -> c_int {
    done(|| {
        let conf = match context.address() {
            0 => return Err(Errno::INVAL),
            ours if context::is_ours(ours) => context.get()?.conf().clone(),
            _ => context::foreign()?,
        };
        Rados::give(cluster, conf)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_cct(cluster: Handle<Rados>) -> Handle<Rados> {
    cluster
}

#[unsafe(no_mangle)]
extern "C" fn rados_connect(cluster: Handle<Rados>) -> c_int {
    done(|| {
        let cluster = cluster.get()?;
        let mut client = lock(&cluster.client);
        if client.is_some() {
            return Err(Errno::ISCONN);
        }
        let conf = cluster.conf().clone();
        let connected = SharedClient::connect(&conf.identity, &conf.settings);
        *client = Some(connected.map_err(|errno| if conf.has_monitors() { errno } else { Errno::NOENT })?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_shutdown(cluster: Handle<Rados>) {
    call(|| {
        context::taken(cluster.address());
        let cluster = cluster.take()?;
        cluster.watches.clear();
        cluster.follow_log(None);
        // A pool's handle that the program forgot keeps this one, but not its connection.
        let client = lock(&cluster.client).take();
        drop(client);
        Ok(())
    });
}

/// How full a cluster is (`struct rados_cluster_stat_t`).
#[repr(C)]
struct ClusterStat {
    kb: u64,
    kb_used: u64,
    kb_avail: u64,
    num_objects: u64,
}

#[unsafe(no_mangle)]
extern "C" fn rados_cluster_stat(cluster: Handle<Rados>, result: Out<ClusterStat>) -> c_int {
    done(|| {
        let stat = block_on(cluster.get()?.client()?.cluster().statfs(None))?;
        result.set(ClusterStat {
            kb: stat.kb,
            kb_used: stat.kb_used,
            kb_avail: stat.kb_avail,
            num_objects: stat.objects,
        })
    })
}

const ZERO_FSID: &str = "00000000-0000-0000-0000-000000000000";

#[unsafe(no_mangle)]
extern "C" fn rados_cluster_fsid(cluster: Handle<Rados>, buf: Out<u8>, len: usize) -> c_int {
    call(|| {
        // librados gives a handle that is not connected the zero id.
        let fsid = match cluster.get()?.client() {
            Ok(client) => block_on(client.cluster().fsid())?,
            Err(_) => ZERO_FSID.to_owned(),
        };
        buf.copy_text(&to_bytes(&fsid), len)?;
        Ok(fsid.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_wait_for_latest_osdmap(cluster: Handle<Rados>) -> c_int {
    done(|| Ok(block_on(cluster.get()?.client()?.cluster().newest_osd_map()).map(drop)?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_buffer_free(buf: Opaque) {
    crate::border::free(buf.0);
}
