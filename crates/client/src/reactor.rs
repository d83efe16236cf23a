//! What drives the client: a thread of its own, or the caller's.

use crate::core::{Core, Done, Outcome};
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use crate::rados::Cluster;
use crate::rbd::{Image, IoOp};
use crate::waiting::{Lookout, Report};
use crate::{Config, Error};
use onego_buf::{List, Pool, SegmentMut};
use onego_ceph::auth::Secret;
use onego_ceph::client;
use onego_engine::{Stats, Wait};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Receive memory that a client keeps for reuse, bytes: some hundred requests of 64 KiB, or a few of 4 MiB.
const POOL_LIMIT: usize = 32 << 20;

/// A client that is driven by the thread that owns it: no other thread, no wake-ups, no locks on the way of a request.
///
/// Two ways to use it, which mix: [`block_on`](Self::block_on) runs any future of this crate's API and drives the
/// client meanwhile; or requests to images are submitted with a tag ([`submit`](Self::submit)), and
/// [`turn`](Self::turn) and [`completion`](Self::completion) say which tags are done.
pub struct Reactor {
    driver: Driver<Core>,
}

/// A tagged request that is done with.
#[derive(Debug)]
pub struct Completed {
    /// The caller's name for the request.
    pub tag: u64,
    /// What came of it.
    pub result: Result<Outcome, Error>,
}

/// A tagged request to an image; offsets and lengths in bytes.
#[derive(Debug)]
pub enum ImageRequest {
    /// Fills the buffer from `offset` on. It comes back as [`Outcome::Buffer`].
    Read {
        /// First byte.
        offset: u64,
        /// Where the bytes go.
        buffer: SegmentMut,
    },
    /// Writes the bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: List,
    },
    /// Makes the bytes zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Completes when the writes submitted before are durable.
    Flush,
}

impl Reactor {
    /// A client of the cluster, and a handle for its requests. Connecting goes on while the reactor is driven.
    pub fn new(config: &Config) -> Result<(Self, Cluster), Error> {
        let mailbox = Arc::new(Mailbox::new());
        let client = client_config(config)?;
        let report = Report::default();
        let lookout = Lookout::new(report.clone(), config.on_waiting.clone());
        let driver = Driver::open(config.engine, config.zero_copy, config.spin, |now| {
            Core::new(&client, Arc::clone(&mailbox), lookout, now)
        })
        .map_err(failed("opening the event engine"))?;
        mailbox.set_reactor(driver.waker());
        Ok((Self { driver }, Cluster::new(mailbox, config.connect_timeout, report)))
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

    /// Submits a request to an image; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    pub fn submit(&mut self, image: &Image, request: ImageRequest, tag: u64) -> Result<(), Error> {
        let op = match request {
            ImageRequest::Read { offset, buffer } => IoOp::ReadInto { offset, buffer },
            ImageRequest::Write { offset, data } => IoOp::Write { offset, data },
            ImageRequest::WriteZeroes { offset, length } => IoOp::Zero { offset, length },
            ImageRequest::Flush => IoOp::Flush,
        };
        let shape = image.admit(&op)?;
        let now = self.driver.now();
        self.driver.machine_mut().start(now, shape, op, Done::Tag(tag));
        Ok(())
    }

    /// The next tagged request that is done with.
    pub fn completion(&mut self) -> Option<Completed> {
        self.driver.machine_mut().next_completed().map(|(tag, result)| Completed { tag, result })
    }

    /// Drives the client until its handles are gone.
    pub(crate) fn run(mut self) {
        while !self.driver.machine().is_over() {
            if let Err(error) = self.turn(Wait::Forever) {
                tracing::error!(%error, "the reactor stops");
                break;
            }
        }
    }
}

/// How long the end of a client may take: others wait for half a minute for a watch that was not given up, and an OSD
/// that can be reached answers at once.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

impl Drop for Reactor {
    fn drop(&mut self) {
        self.driver.machine().close();
        let now = self.driver.now();
        self.driver.machine_mut().give_up_watches(now);
        let until = now + FAREWELL;
        while self.driver.machine().is_unwatching() && self.driver.now() < until {
            if self.driver.turn(Wait::Until(until)).is_err() {
                return;
            }
        }
    }
}

const WAITING: &str = "waiting for events";

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { what, source }
}

fn client_config(config: &Config) -> Result<client::Config, Error> {
    let (mut random, mut secret_seed) = ([0; 12], vec![0; 32]);
    getrandom::fill(&mut random)
        .and_then(|()| getrandom::fill(&mut secret_seed))
        .map_err(|error| Error::Io { what: "asking for randomness", source: error.into() })?;
    let [n0, n1, n2, n3, seed @ ..] = random;
    let pool = Pool::registrable(POOL_LIMIT, config.zero_copy.registrable(POOL_LIMIT));
    Ok(client::Config {
        nonce: u32::from_le_bytes([n0, n1, n2, n3]),
        seed: u64::from_le_bytes(seed),
        versions: config.versions,
        data_crc: config.data_crc,
        compression: config.compression.clone(),
        as_osd: config.as_osd,
        secret_seed: Secret::new(secret_seed),
        credentials: config.credentials.clone(),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        osd: client::OsdConfig { request_timeout: config.request_timeout, ..client::OsdConfig::default() },
        mon: client::MonConfig { request_timeout: config.monitor_timeout, ..client::MonConfig::default() },
        ..client::Config::new(config.monitors.clone(), "admin", pool)
    })
}
