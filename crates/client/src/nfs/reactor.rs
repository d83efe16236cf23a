//! What drives the client: a thread of its own, or the caller's.

use super::core::{Completed, Core, Done, FileRequest};
use super::{Config, Error, File, Mount};
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use onego_buf::Pool;
use onego_engine::{Stats, Wait};
use onego_nfs::client;
use std::io;
use std::sync::Arc;

/// Receive memory that a client keeps for reuse, bytes.
const POOL_LIMIT: usize = 32 << 20;

/// A client that is driven by the thread that owns it: no other thread, no wake-ups, no locks on the way of a request.
///
/// Two ways to use it, which mix: [`block_on`](Self::block_on) runs any future of this module's API and drives the
/// client meanwhile; or requests to files are submitted with a tag ([`submit`](Self::submit)), and
/// [`turn`](Self::turn) and [`completion`](Self::completion) say which tags are done.
pub struct Reactor {
    driver: Driver<Core>,
}

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
            .map_err(failed("opening the event engine"))?;
        mailbox.set_reactor(driver.waker());
        Ok((Self { driver }, super::mount::Requests::new(mailbox, pool)))
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

    /// Moves what can be moved, and sleeps as `wait` allows if there is nothing to do.
    pub fn turn(&mut self, wait: Wait) -> Result<(), Error> {
        self.driver.turn(wait).map_err(failed(WAITING))
    }

    /// What the engine has done so far: system calls and bytes.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// Runs a future to its end, driving the client meanwhile.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, Error> {
        self.driver.block_on(future).map_err(failed(WAITING))
    }

    /// May another request be submitted?
    pub fn has_room(&self) -> bool {
        self.driver.machine().has_room()
    }

    /// Submits a request to a file; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    pub fn submit(&mut self, file: &File, request: FileRequest, tag: u64) {
        let now = self.driver.now();
        self.driver.machine_mut().start(now, file.handle(), request, Done::Tag(tag));
    }

    /// The next tagged request that is done with.
    pub fn completion(&mut self) -> Option<Completed> {
        self.driver.machine_mut().next_completed()
    }

    /// Drives the client until its handles are gone.
    pub(super) fn run(mut self) {
        while !self.driver.machine().is_over() {
            if let Err(error) = self.turn(Wait::Forever) {
                tracing::error!(%error, "the reactor stops");
                break;
            }
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.driver.machine().close();
    }
}

const WAITING: &str = "waiting for events";

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { what, source }
}
