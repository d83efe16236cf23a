//! The reactor of a client of NFS: how it is made, and what can be submitted to it.

use super::config::Config;
use super::core::{Core, Done, FileRequest};
use super::error::Error;
use super::file::File;
use super::mount::Mount;
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use crate::reactor::EngineFailed;
use onego_buf::Pool;
use onego_nfs::client;
use std::sync::Arc;

/// Receive memory that a client keeps for reuse, bytes.
const POOL_LIMIT: usize = 32 << 20;

/// A client of a file server that is driven by the thread that owns it; see [the generic reactor](crate::Reactor).
pub type Reactor = crate::Reactor<Core>;

impl Reactor {
    /// A client, and a handle for its requests. Nothing is connected before that is [mounted](Mount::ready).
    pub(super) fn new(config: &Config) -> Result<(Self, super::mount::Requests), Error> {
        let mut xid = [0; 4];
        getrandom::fill(&mut xid)
            .map_err(|error| Error::Io { what: "asking for randomness", source: error.into() })?;
        // A device learns of memory once a slab.
        let registrable = match &config.rdma {
            Some(rdma) if rdma.device => POOL_LIMIT,
            _ => config.zero_copy.registrable(POOL_LIMIT),
        };
        let pool = Pool::registrable(POOL_LIMIT, registrable);
        let calls = client::Config::new(config.credential.clone(), u32::from_le_bytes(xid), pool.clone());
        let mailbox = Arc::new(Mailbox::new());
        let core = Core::new(calls, config.request_timeout, Arc::clone(&mailbox));
        let driver = Driver::open(config.engine, config.zero_copy, config.spin, |_| core)
            .map_err(EngineFailed::opening)?;
        mailbox.set_reactor(driver.waker());
        Ok((Self::over(driver), super::mount::Requests::new(mailbox, pool)))
    }

    /// Mounts an export, by a client that this thread drives.
    pub fn mount(config: &Config, export: &str) -> Result<(Self, Mount), Error> {
        let (mut reactor, requests) = Self::new(config)?;
        let mount = reactor.block_on(Mount::ready(requests, config, export))??;
        Ok((reactor, mount))
    }

    /// Mounts the export that a path lies in: gives the path in it, too.
    pub fn mount_path(config: &Config, path: &str) -> Result<(Self, Mount, String), Error> {
        let (mut reactor, requests) = Self::new(config)?;
        let (mount, path) = reactor.block_on(Mount::find(requests, config, path))??;
        Ok((reactor, mount, path))
    }

    /// Submits a request to a file; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    pub fn submit(&mut self, file: &File, request: FileRequest, tag: u64) {
        let (core, now) = self.core();
        core.start(now, file.handle(), request, Done::Tag(tag));
    }
}
