use crate::ceph::commands::{CephCommand, Question};
use crate::ceph::done::{OTHER_KIND, ReplyTo, RequestOutcome};
use crate::ceph::error::{Errno, Error};
use crate::ceph::image_key::{ImageControl, ImageKey};
use crate::ceph::source_files::SourceFilesPolicy;
use crate::mailbox::Mailbox;
use crate::waiting::Report;
use futures_channel::oneshot;
use futures_util::future::Shared;
use onego_buf::List;
use onego_ceph::client::{ClientFigures, ClientSnapshot, Outcome, Waiting, WatchId};
use onego_ceph::messages::{self, GetPoolStatsReply, PoolStat, StatfsReply};
use onego_ceph::osdmap::OsdMap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A connection to a Ceph cluster. Cheap to clone. It ends with [`close`](Self::close), or when the last clone, pool
/// and image is dropped.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Connection>,
}

struct Connection {
    mailbox: Arc<Mailbox<CephCommand>>,
    connect_timeout: Duration,
    report: Report<Waiting>,
    figures: ClientFigures,
    /// The thread that drives the client, unless the caller drives it.
    thread: OnceLock<ReactorThread>,
    /// Policy on files that may act as migration sources of images.
    source_files: Arc<SourceFilesPolicy>,
    /// Seed of the random numbers, if the system does not supply them.
    seed: Option<AtomicU64>,
}

pub(super) struct ReactorThread {
    pub(super) id: ThreadId,
    pub(super) ended: Shared<oneshot::Receiver<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.mailbox.close();
        // If the owner keeps driving the reactor, it releases the watches as well.
        self.mailbox.ask_sweep();
    }
}

#[derive(Clone)]
pub(super) struct WeakCluster(Weak<Connection>);

impl WeakCluster {
    pub(super) fn upgrade(&self) -> Option<Cluster> {
        self.0.upgrade().map(|shared| Cluster { shared })
    }
}

/// Step and mixing function of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
/// 2014).
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(state: u64) -> u64 {
    let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Output of a successful command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Text for humans.
    pub status: String,
    /// Data for programs.
    pub output: Vec<u8>,
}

/// Reply to a command, whether it succeeded or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandReply {
    /// Zero, or a negative error number.
    pub result: i32,
    /// Text for humans.
    pub status: String,
    /// Data for programs.
    pub output: Vec<u8>,
}

impl From<messages::CommandReply> for CommandReply {
    fn from(reply: messages::CommandReply) -> Self {
        let messages::CommandReply { result, status, output, .. } = reply;
        Self { result, status, output: output.to_vec() }
    }
}

/// Space usage of the cluster, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Total capacity.
    pub total: u64,
    /// Used capacity.
    pub used: u64,
    /// Free capacity.
    pub available: u64,
    /// Number of objects.
    pub objects: u64,
}

/// Space usage and I/O counters of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUsage {
    /// Bytes used in the object stores, including all copies.
    pub used: u64,
    /// Bytes of the pool's objects, each counted once.
    pub stored: u64,
    /// Number of objects.
    pub objects: u64,
    /// Object clones kept for snapshots.
    pub clones: u64,
    /// Object copies that should exist.
    pub copies: u64,
    /// Objects missing on their primary OSD.
    pub missing_on_primary: u64,
    /// Objects without any known copy.
    pub unfound: u64,
    /// Missing object copies.
    pub degraded: u64,
    /// Reads, and KiB read.
    pub reads: (u64, u64),
    /// Writes, and KiB written.
    pub writes: (u64, u64),
    /// Bytes of compressed data, after and before compression.
    pub compressed: (u64, u64),
}

impl PoolUsage {
    fn new(stat: PoolStat, per_pool: bool) -> Self {
        let used = if per_pool { stat.allocated + stat.omap_allocated } else { stat.num_bytes };
        Self {
            used,
            stored: stat.num_bytes,
            objects: stat.num_objects,
            clones: stat.num_object_clones,
            copies: stat.num_object_copies,
            missing_on_primary: stat.num_objects_missing_on_primary,
            unfound: stat.num_objects_unfound,
            degraded: stat.num_objects_degraded,
            reads: (stat.num_rd, stat.num_rd_kb),
            writes: (stat.num_wr, stat.num_wr_kb),
            compressed: (stat.compressed_allocated, stat.compressed_original),
        }
    }
}

/// A pool in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolInfo {
    /// Pool number.
    pub id: i64,
    /// Pool name.
    pub name: String,
    /// Copies of each object.
    pub size: u32,
    /// Number of placement groups.
    pub groups: u32,
}

impl Cluster {
    #[cfg(feature = "block")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn new(
        mailbox: Arc<Mailbox<CephCommand>>,
        connect_timeout: Duration,
        report: Report<Waiting>,
        figures: ClientFigures,
        source_files: SourceFilesPolicy,
    ) -> Self {
        Self::with_seed(mailbox, connect_timeout, report, figures, source_files, None)
    }

    pub(super) fn seeded(
        mailbox: Arc<Mailbox<CephCommand>>,
        connect_timeout: Duration,
        report: Report<Waiting>,
        figures: ClientFigures,
        seed: u64,
    ) -> Self {
        let source_files = SourceFilesPolicy::default();
        Self::with_seed(mailbox, connect_timeout, report, figures, source_files, Some(AtomicU64::new(seed)))
    }

    fn with_seed(
        mailbox: Arc<Mailbox<CephCommand>>,
        connect_timeout: Duration,
        report: Report<Waiting>,
        figures: ClientFigures,
        source_files: SourceFilesPolicy,
        seed: Option<AtomicU64>,
    ) -> Self {
        let shared = Connection {
            mailbox,
            connect_timeout,
            report,
            figures,
            thread: OnceLock::new(),
            source_files: Arc::new(source_files),
            seed,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn source_files(&self) -> &Arc<SourceFilesPolicy> {
        &self.shared.source_files
    }

    pub(crate) fn random(&self) -> Result<u64, Error> {
        if let Some(seed) = &self.shared.seed {
            return Ok(mixed(seed.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed)));
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Error::Io { what: "reading random numbers", source: error.into() })?;
        Ok(u64::from_le_bytes(random))
    }

    pub(super) fn downgrade(&self) -> WeakCluster {
        WeakCluster(Arc::downgrade(&self.shared))
    }

    pub(super) fn set_thread(&self, thread: ReactorThread) {
        // The thread is set once; a second call changes nothing.
        let _ = self.shared.thread.set(thread);
    }

    /// Returns what has held this client up for two seconds or more, and why. The client checks once a second; to
    /// receive changes use [`Config::on_waiting`](crate::ceph::Config::on_waiting).
    pub fn waiting(&self) -> Option<Waiting> {
        self.shared.report.get()
    }

    /// Returns this client's metrics: requests by pool and kind with bytes, errors and latencies, resent requests,
    /// and the map epoch. Callable at any time; it neither waits nor costs the client's thread anything.
    ///
    /// ```no_run
    /// # fn f(cluster: onego::rados::Cluster) {
    /// for (pool, seen) in cluster.metrics().pools {
    ///     for kind in seen.kinds {
    ///         let p99 = kind.latency.quantile(0.99).unwrap_or_default();
    ///         println!("{pool}: {} of kind {}, {} bytes, p99 {p99:?}", kind.operations(), kind.kind, kind.bytes);
    ///     }
    /// }
    /// # }
    /// ```
    pub fn metrics(&self) -> ClientSnapshot {
        self.shared.figures.snapshot()
    }

    /// Returns the same metrics as a source for a registry, which can read them even after the last handle on the
    /// client is dropped.
    pub fn figures(&self) -> ClientFigures {
        self.shared.figures.clone()
    }

    /// Closes the connection. Later requests of its other clones, pools and images fail with [`Error::Closed`].
    ///
    /// Waits at most a second for the release of locks and watches; without it other clients find images in use until
    /// the watches time out (30 s). Dropping the last handle releases them in the background, so a process that exits
    /// at once may end before that. If a [`Reactor`](crate::ceph::Reactor) drives the client, the reactor does the
    /// release.
    pub async fn close(self) {
        self.shared.mailbox.close();
        self.shared.mailbox.ask_sweep();
        if let Some(thread) = self.shared.thread.get()
            && thread.id != thread::current().id()
        {
            // The sender is dropped with the thread, however that ends.
            let _ = thread.ended.clone().await;
        }
    }

    /// Waits until the cluster has answered; fails after the configuration's `connect_timeout`.
    pub async fn ready(&self) -> Result<(), Error> {
        self.map(1).await.map(drop)
    }

    pub(crate) async fn send(&self, command: CephCommand) -> Result<(), Error> {
        Ok(self.shared.mailbox.send(command).await?)
    }

    /// Sends a command without waiting for room; the caller must bound the number of such commands.
    pub(crate) fn post(&self, command: CephCommand) {
        self.shared.mailbox.post(command);
    }

    pub(crate) fn unwatch(&self, watch: WatchId) {
        self.shared.mailbox.post(CephCommand::Unwatch { watch, done: None });
    }

    /// Removes a watch; the receiver resolves when that is done.
    pub(crate) fn end_watch(&self, watch: WatchId) -> oneshot::Receiver<RequestOutcome> {
        let (done, answer) = oneshot::channel();
        self.shared.mailbox.post(CephCommand::Unwatch { watch, done: Some(done) });
        answer
    }

    pub(crate) fn release_hold(&self, image: ImageKey) {
        self.shared.mailbox.post(CephCommand::ControlImage { image, control: ImageControl::ReleaseHold });
    }

    pub(crate) fn cancel_resize(&self, image: ImageKey, id: u64) {
        self.shared
            .mailbox
            .post(CephCommand::ControlImage { image, control: ImageControl::CancelResize(id) });
    }

    pub(crate) fn close_image(&self, image: ImageKey, done: Option<ReplyTo>) {
        self.shared.mailbox.post(CephCommand::ControlImage { image, control: ImageControl::Close(done) });
    }

    pub(crate) fn acknowledge(&self, watch: WatchId, notify_id: u64, reply: List) {
        self.shared.mailbox.post(CephCommand::Acknowledge { watch, notify_id, reply });
    }

    pub(crate) fn sweep(&self) {
        self.shared.mailbox.ask_sweep();
    }

    /// Returns the cluster map after it has reached `epoch`.
    pub(crate) async fn map(&self, epoch: u32) -> Result<Arc<OsdMap>, Error> {
        let (done, answer) = oneshot::channel();
        self.send(CephCommand::Map { epoch, timeout: self.shared.connect_timeout, done }).await?;
        self.answer(answer).await?
    }

    /// Sleeps for `time` by the client's clock.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        // No map reaches this epoch, so this waits for the timeout.
        self.send(CephCommand::Map { epoch: u32::MAX, timeout: time, done }).await?;
        match self.answer(answer).await? {
            Ok(_) | Err(Error::NoAnswer { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn newest_map(&self) -> Result<Arc<OsdMap>, Error> {
        match self.ask(Question::NewestMap).await? {
            Outcome::Version(version) => self.map(u32::try_from(version).unwrap_or(u32::MAX)).await,
            _ => Err(OTHER_KIND.into()),
        }
    }

    pub(super) async fn ask(&self, question: Question) -> Result<Outcome, Error> {
        let (done, answer) = oneshot::channel();
        self.send(CephCommand::Monitor { question, done }).await?;
        let (outcome, _): RequestOutcome = self.answer(answer).await?;
        Ok(outcome?)
    }

    /// Sends a command to the cluster: JSON with a `prefix`, as the `ceph` program sends it.
    ///
    /// ```no_run
    /// # async fn f(cluster: onego::rados::Cluster) -> Result<(), onego::ceph::Error> {
    /// let health = cluster.command(r#"{"prefix": "health", "format": "json"}"#, Default::default()).await?;
    /// println!("{}", String::from_utf8_lossy(&health.output));
    /// # Ok(()) }
    /// ```
    pub async fn command(&self, json: &str, input: List) -> Result<CommandOutput, Error> {
        match self.command_reply(json, input).await? {
            CommandReply { result: 0.., status, output } => Ok(CommandOutput { status, output }),
            CommandReply { result, status, .. } => {
                Err(Error::Command { what: json.to_owned(), status, errno: Errno(-result) })
            }
        }
    }

    /// Like [`command`](Self::command), but returns a failure as a reply, which may carry output as well.
    pub async fn command_reply(&self, json: &str, input: List) -> Result<CommandReply, Error> {
        match self.ask(Question::Command(json.to_owned(), input)).await? {
            Outcome::Command(reply) => Ok(reply.into()),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Returns the cluster's space usage.
    pub async fn usage(&self) -> Result<Usage, Error> {
        match self.ask(Question::Statfs(None)).await? {
            Outcome::Statfs(StatfsReply { kb, kb_used, kb_avail, objects, .. }) => {
                Ok(Usage { total: kb << 10, used: kb_used << 10, available: kb_avail << 10, objects })
            }
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Returns usage and counters of pools by name. Omits pools unknown to the monitors, which are all pools if no
    /// manager has reported yet.
    pub async fn pool_usage(&self, pools: Vec<String>) -> Result<BTreeMap<String, PoolUsage>, Error> {
        match self.ask(Question::PoolStats(pools)).await? {
            Outcome::PoolStats(GetPoolStatsReply { pools, per_pool, .. }) => {
                Ok(pools.into_iter().map(|(name, stat)| (name, PoolUsage::new(stat, per_pool))).collect())
            }
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Returns the cluster's identity.
    pub async fn fsid(&self) -> Result<String, Error> {
        Ok(self.map(1).await?.fsid.to_string())
    }

    /// Lists all pools.
    pub async fn pools(&self) -> Result<Vec<PoolInfo>, Error> {
        let map = self.newest_map().await?;
        Ok(map
            .pools
            .iter()
            .map(|(id, pool)| PoolInfo {
                id: *id,
                name: map.pool_names.get(id).cloned().unwrap_or_default(),
                size: pool.size.into(),
                groups: pool.pg_num,
            })
            .collect())
    }

    /// Deletes a pool with all its contents.
    pub async fn delete_pool(&self, name: &str) -> Result<(), Error> {
        if self.newest_map().await?.pool_id(name).is_none() {
            return Err(Error::NotFound { what: format!("pool {name}") });
        }
        let command = serde_json::json!({
            "prefix": "osd pool delete", "pool": name, "pool2": name, "yes_i_really_really_mean_it": true
        });
        self.command(&command.to_string(), List::new()).await?;
        self.newest_map().await.map(drop)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
