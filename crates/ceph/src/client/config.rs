//! What a client is told, and the bounds that hold in it.

use onego_buf::Pool;
use onego_msgr::Compression;
use onego_msgr::addr::{AddrVec, MonHost, Versions};
use onego_msgr::auth::{AuthName, Credentials, Secret};
use std::time::Duration;

/// The settings of a client. The names in the comments are librados' options of the same meaning.
#[derive(Debug, Clone)]
pub struct Config {
    /// The monitors to begin with (`mon_host`). Once one has answered, its map of the monitors counts.
    pub monitors: Vec<Monitor>,
    /// In which versions of the messenger's protocol to connect.
    pub versions: Versions,
    /// Make and check the checksums of payloads. In version 1 each side decides for itself; in version 2 nothing on
    /// the wire tells, so that the cluster must be told the same (`ms_crc_data`).
    pub data_crc: bool,
    /// What is agreed to of compression on connections to OSDs; none: it is not asked for.
    pub compression: Option<Compression>,
    /// Say to OSDs that this is one of them, and go where they reach each other: Ceph's agree to compress with nobody else,
    /// and nowhere else. (Where clients reach them they count a message by its compressed length when it comes and by its
    /// real one when it goes, and 18.2 does not survive that.)
    pub as_osd: bool,
    /// The identity of the client, and the methods and modes that it accepts.
    pub credentials: Credentials,
    /// Tells this process from earlier ones at the same address: any random number.
    pub nonce: u32,
    /// Seed of the order in which monitors are tried.
    pub seed: u64,
    /// Seed of what nobody may guess: random bytes that are used for nothing else.
    pub secret_seed: Secret,
    /// This host, as monitors show it.
    pub hostname: String,
    /// Where the memory of messages comes from.
    pub pool: Pool,
    /// The monitor session.
    pub mon: MonConfig,
    /// Requests to OSDs.
    pub osd: OsdConfig,
}

impl Config {
    /// A client called `client.{id}`, without a key, of the cluster with these monitors.
    pub fn new(monitors: impl IntoIterator<Item = impl Into<Monitor>>, id: &str, pool: Pool) -> Self {
        Self {
            monitors: monitors.into_iter().map(Into::into).collect(),
            versions: Versions::default(),
            data_crc: true,
            compression: None,
            as_osd: false,
            credentials: Credentials::new(AuthName::client(id), None),
            nonce: 0,
            seed: 0,
            secret_seed: Secret::new(vec![0; 32]),
            hostname: String::new(),
            pool,
            mon: MonConfig::default(),
            osd: OsdConfig::default(),
        }
    }
}

/// A monitor that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// Where it is reached.
    pub addrs: AddrVec,
    /// Those with the lowest number are tried first.
    pub priority: u16,
    /// Among those of one priority, one with a higher weight is more likely to be tried first.
    pub weight: u16,
}

impl From<AddrVec> for Monitor {
    /// A monitor like any other.
    fn from(addrs: AddrVec) -> Self {
        Self { addrs, priority: 0, weight: 0 }
    }
}

impl Monitor {
    /// Returns a configured monitor, and one with a lower priority at its fallback address.
    pub fn configured(host: MonHost, priority: u16, weight: u16) -> impl Iterator<Item = Self> {
        let first = Self { addrs: host.addrs, priority, weight };
        let other = host.fallback.map(|addr| Self {
            addrs: AddrVec(vec![addr]),
            priority: priority.saturating_add(1),
            weight,
        });
        std::iter::once(first).chain(other)
    }
}

/// How a monitor is found and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonConfig {
    /// Monitors tried at the same time (`mon_client_hunt_parallel`).
    pub hunt_parallel: usize,
    /// How long the monitors that are tried have to answer (`mon_client_hunt_interval`).
    pub hunt_interval: Duration,
    /// How long to wait when all that were tried have failed, the first time; doubled every time.
    pub hunt_rest: Duration,
    /// The longest such wait (`mon_client_hunt_interval` times `mon_client_hunt_interval_max_multiple`).
    pub hunt_rest_max: Duration,
    /// Requests to monitors that may be without an answer.
    pub max_requests: usize,
    /// How long a request may be without an answer; `None`: for ever (`rados_mon_op_timeout`).
    pub request_timeout: Option<Duration>,
}

impl Default for MonConfig {
    fn default() -> Self {
        Self {
            hunt_parallel: 3,
            hunt_interval: Duration::from_secs(3),
            hunt_rest: Duration::from_millis(100),
            hunt_rest_max: Duration::from_secs(30),
            // Administration, not data: a program that has more of them in flight has lost count.
            max_requests: 1024,
            request_timeout: None,
        }
    }
}

/// How requests to OSDs are sent, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsdConfig {
    /// Requests in flight (`objecter_inflight_ops`), at most [`OsdConfig::MAX_OPS`].
    pub max_ops: usize,
    /// Bytes written and read by requests in flight (`objecter_inflight_op_bytes`). A single larger request passes.
    pub max_bytes: u64,
    /// How long a request may be without a reply unless it says so itself; `None`: for ever (`rados_osd_op_timeout`).
    pub request_timeout: Option<Duration>,
    /// How long a connection without requests is kept open (the kernel's `osd_idle_ttl`).
    pub idle_timeout: Duration,
    /// How long to wait before a connection that failed is opened again, doubled every time until messages could flow
    /// on one. (librados does not wait at all before it connects to an OSD again.)
    pub reconnect: Duration,
    /// The longest such wait (`ms_max_backoff`).
    pub reconnect_max: Duration,
    /// How long requests may wait for a reply before a newer map is asked for (`objecter_timeout`).
    pub laggy: Duration,
    /// Time between the pings of a watch (`objecter_tick_interval`).
    pub ping_interval: Duration,
    /// After how many seconds without a ping the OSD drops a watch (`osd_client_watch_timeout`).
    pub watch_timeout: u32,
    /// Requests that take as long are told of, with where their time went; `None`: none are.
    pub slow: Option<Duration>,
}

impl OsdConfig {
    /// The most requests in flight that can be told apart.
    pub const MAX_OPS: usize = 1 << 15;
}

impl Default for OsdConfig {
    fn default() -> Self {
        Self {
            max_ops: 1024,
            max_bytes: 100 << 20,
            request_timeout: None,
            idle_timeout: Duration::from_secs(60),
            reconnect: Duration::from_millis(10),
            reconnect_max: Duration::from_secs(15),
            laggy: Duration::from_secs(10),
            ping_interval: Duration::from_secs(5),
            watch_timeout: 30,
            slow: None,
        }
    }
}
