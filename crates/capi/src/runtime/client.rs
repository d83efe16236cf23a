//! Clients of clusters, which handles of one process and identity share.

use super::block::block_on;
use super::callbacks::Callbacks;
use super::lock::lock;
use crate::border::Errno;
use onego::ceph::{Config, Identity, Settings, TurnHook};
use onego::rados::Cluster;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// Requests in flight of one client; a call that would begin another waits. librados has the same bound
/// (`objecter_inflight_ops`). It is not above what the client's queue holds, so requests of one thread stay in order.
const MAX_IN_FLIGHT: usize = 1024;

/// A connection to a cluster: one thread for all handles that share it.
pub(crate) struct SharedClient {
    cluster: Cluster,
    callbacks: Arc<Callbacks>,
    in_flight: Mutex<InFlight>,
    changed: Condvar,
    /// Process that connected: the client's thread does not survive a fork.
    process: u32,
}

#[derive(Default)]
struct InFlight {
    count: usize,
    waiters: usize,
}

/// What two handles must agree on to share a client.
#[derive(PartialEq)]
struct ClientKey {
    /// Threads do not survive a fork.
    process: u32,
    identity: Identity,
    settings: Settings,
}

static CLIENTS: Mutex<Vec<(ClientKey, Weak<SharedClient>)>> = Mutex::new(Vec::new());

impl SharedClient {
    /// Connects, or shares the connection of others.
    pub(crate) fn connect(identity: &Identity, settings: &Settings) -> Result<Arc<Self>, Errno> {
        let key =
            ClientKey { process: std::process::id(), identity: identity.clone(), settings: settings.clone() };
        let mut clients = lock(&CLIENTS);
        clients.retain(|(key, client)| {
            if key.process != std::process::id() {
                // A parent's: to drop it would tell threads that are not here.
                return true;
            }
            client.strong_count() > 0
        });
        let shared = clients.iter().find(|(other, _)| *other == key).and_then(|(_, client)| client.upgrade());
        if let Some(shared) = shared {
            return Ok(shared);
        }
        let callbacks = Callbacks::of_process().map_err(|_| Errno(libc::EAGAIN))?;
        let ended = Arc::clone(&callbacks);
        let config = Config::from_settings(settings, identity)?
            .with_after_turn(TurnHook::new(move || ended.end_turn()));
        let cluster = block_on(Cluster::connect(&config))?;
        let client = Arc::new(Self {
            cluster,
            callbacks,
            in_flight: Mutex::default(),
            changed: Condvar::new(),
            process: std::process::id(),
        });
        clients.push((key, Arc::downgrade(&client)));
        Ok(client)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn callbacks(&self) -> Arc<Callbacks> {
        Arc::clone(&self.callbacks)
    }

    pub(super) fn admit(&self) {
        let mut in_flight = lock(&self.in_flight);
        while in_flight.count >= MAX_IN_FLIGHT {
            in_flight.waiters += 1;
            in_flight = self.changed.wait(in_flight).unwrap_or_else(PoisonError::into_inner);
            in_flight.waiters -= 1;
        }
        in_flight.count += 1;
    }

    pub(super) fn release(&self) {
        let mut in_flight = lock(&self.in_flight);
        in_flight.count -= 1;
        let is_awaited = in_flight.waiters > 0;
        drop(in_flight);
        if is_awaited {
            self.changed.notify_one();
        }
    }
}
impl Drop for SharedClient {
    fn drop(&mut self) {
        // The process may end next, and its watches must not outlive it. A fork has no thread to wait for.
        if self.process == std::process::id() {
            block_on(self.cluster.clone().close());
        }
    }
}
