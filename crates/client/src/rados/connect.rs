//! Start of a Ceph client, on its own thread or on the caller's.

use super::cluster::{Cluster, ReactorThread};
use crate::ceph::commands::CephCommand;
use crate::ceph::config::{Config, TurnHook};
use crate::ceph::core::Core;
use crate::ceph::error::Error;
use crate::ceph::reactor::Reactor;
use crate::ceph::source_files::SourceFilesPolicy;
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use crate::reactor::EngineFailed;
use crate::waiting::{Report, StallMonitor, WaitingHook};
use futures_channel::oneshot;
use futures_util::FutureExt as _;
use onego_buf::Pool;
use onego_ceph::client;
use onego_engine::Waker;
use onego_msgr::auth::Secret;
use onego_wire::Time;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Receive memory that a client keeps for reuse, in bytes: several hundred requests of 64 KiB, or a few of 4 MiB.
const POOL_LIMIT: usize = 32 << 20;

pub(crate) struct Unconnected {
    mailbox: Arc<Mailbox<CephCommand>>,
    client: client::Config,
    report: Report<client::Waiting>,
    on_waiting: Option<WaitingHook<client::Waiting>>,
    timeout: Duration,
    source_files: SourceFilesPolicy,
}

impl Unconnected {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        Ok(Self {
            mailbox: Arc::new(Mailbox::new()),
            client: client_config(config)?,
            report: Report::default(),
            on_waiting: config.on_waiting.clone(),
            timeout: config.connect_timeout,
            source_files: SourceFilesPolicy::new(config.source_folder.clone()),
        })
    }

    pub(crate) fn core(&self, now: Time) -> Core {
        let stall_monitor = StallMonitor::new(self.report.clone(), self.on_waiting.clone());
        Core::new(&self.client, Arc::clone(&self.mailbox), stall_monitor, now)
    }

    pub(crate) fn cluster(self, reactor: Waker, figures: client::ClientFigures) -> Cluster {
        self.mailbox.set_reactor(reactor);
        Cluster::new(self.mailbox, self.timeout, self.report, figures, self.source_files)
    }
}

/// State machine of a client, created by [`machine`].
pub type ClientMachine = Core;

/// Creates the state machine of a client and a handle on it, for a caller that drives it with its own engine.
/// Programs use [`Reactor`] or [`Cluster::connect`]; simulations drive clients in virtual time.
///
/// `waker` wakes the machine's pump. All its randomness derives from the seed in `config`, including image ids.
pub fn machine(
    config: &client::Config,
    timeout: Duration,
    waker: Waker,
    now: Time,
) -> (ClientMachine, Cluster) {
    let mailbox = Arc::new(Mailbox::new());
    let report = Report::default();
    let core = Core::new(config, Arc::clone(&mailbox), StallMonitor::new(report.clone(), None), now);
    mailbox.set_reactor(waker);
    let cluster = Cluster::seeded(mailbox, timeout, report, core.figures(), config.seed);
    (core, cluster)
}

impl Reactor {
    /// Creates a client of the cluster and a handle for its requests. It connects while the reactor is driven;
    /// [`Cluster::ready`] waits for that. Fails if the system refuses resources to the event engine.
    pub fn new(config: &Config) -> Result<(Self, Cluster), Error> {
        let unconnected = Unconnected::new(config)?;
        let driver = Driver::open(config.engine, config.zero_copy, config.spin, |now| unconnected.core(now))
            .map_err(EngineFailed::opening)?;
        let cluster = unconnected.cluster(driver.waker(), driver.machine().figures());
        Ok((Self::over(driver), cluster))
    }
}

impl Cluster {
    /// Connects to a cluster. A separate thread drives the connection; to avoid it use [`Reactor`].
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let (started, start) = oneshot::channel();
        let (running, ended) = oneshot::channel::<()>();
        let ended = ended.shared();
        let config = config.clone();
        // The engine's ring belongs to its creating thread, so the reactor is created where it runs.
        std::thread::Builder::new()
            .name("onego-reactor".into())
            .spawn(move || match Reactor::new(&config) {
                Ok((reactor, cluster)) => {
                    let thread = ReactorThread { id: thread::current().id(), ended };
                    cluster.set_thread(thread);
                    // If the caller is gone, this drops the cluster's handle and the reactor ends at once.
                    drop(started.send(Ok(cluster)));
                    reactor.run(|| config.after_turn.iter().for_each(TurnHook::call));
                    drop(running);
                }
                Err(error) => drop(started.send(Err(error))),
            })
            .map_err(|source| Error::Io { what: "starting the reactor's thread", source })?;
        let cluster = start.await.map_err(|_| Error::Closed)??;
        cluster.ready().await?;
        Ok(cluster)
    }
}

fn client_config(config: &Config) -> Result<client::Config, Error> {
    let (mut random, mut secret_seed) = ([0; 12], vec![0; 32]);
    getrandom::fill(&mut random)
        .and_then(|()| getrandom::fill(&mut secret_seed))
        .map_err(|error| Error::Io { what: "reading random numbers", source: error.into() })?;
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
        osd: client::OsdConfig {
            request_timeout: config.request_timeout,
            // The configuration is bounded.
            watch_timeout: config.watch_timeout.as_secs() as u32,
            slow: config.slow,
            ..client::OsdConfig::default()
        },
        mon: client::MonConfig { request_timeout: config.monitor_timeout, ..client::MonConfig::default() },
        ..client::Config::new(config.monitors.clone(), "admin", pool)
    })
}
