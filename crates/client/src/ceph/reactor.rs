//! The reactor of a client of Ceph: how it is made, and what can be submitted to it.

use super::config::Config;
use super::core::{Core, Done, Outcome};
use super::error::Error;
use super::waiting::{Lookout, Report};
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use crate::rados::Cluster;
use crate::rbd::Image;
use crate::rbd::io::IoOp;
use crate::reactor::EngineFailed;
use onego_buf::{List, Pool, SegmentMut};
use onego_ceph::client;
use onego_msgr::auth::Secret;
use std::sync::Arc;

/// Receive memory that a client keeps for reuse, bytes: some hundred requests of 64 KiB, or a few of 4 MiB.
const POOL_LIMIT: usize = 32 << 20;

/// A client of a Ceph cluster that is driven by the thread that owns it; see [the generic reactor](crate::Reactor).
pub type Reactor = crate::Reactor<Core>;

/// A tagged request to an image that is done with.
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
    /// A client of the cluster, and a handle for its requests. Connecting goes on while the reactor is driven:
    /// [`Cluster::ready`] waits for it. Fails if the machine refuses what the event engine needs.
    pub fn new(config: &Config) -> Result<(Self, Cluster), Error> {
        let mailbox = Arc::new(Mailbox::new());
        let client = client_config(config)?;
        let report = Report::default();
        let lookout = Lookout::new(report.clone(), config.on_waiting.clone());
        let driver = Driver::open(config.engine, config.zero_copy, config.spin, |now| {
            Core::new(&client, Arc::clone(&mailbox), lookout, now)
        })
        .map_err(EngineFailed::opening)?;
        mailbox.set_reactor(driver.waker());
        Ok((Self::over(driver), Cluster::new(mailbox, config.connect_timeout, report)))
    }

    /// Submits a request to an image; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    /// Fails at once, without a completion, if the request does not fit the image.
    pub fn submit(&mut self, image: &Image, request: ImageRequest, tag: u64) -> Result<(), Error> {
        let op = match request {
            ImageRequest::Read { offset, buffer } => IoOp::read_into(offset, buffer, Done::Tag(tag)),
            ImageRequest::Write { offset, data } => IoOp::write(offset, data, Done::Tag(tag)),
            ImageRequest::WriteZeroes { offset, length } => IoOp::zero(offset, length, Done::Tag(tag)),
            ImageRequest::Flush => IoOp::Flush { done: Done::Tag(tag) },
        };
        let shape = image.admit(&op)?;
        let (core, now) = self.core();
        core.start(now, shape, op);
        Ok(())
    }
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
