//! Configuration and limits of a client.

use onego_buf::Pool;
use onego_msgr::Compression;
use onego_msgr::addr::{AddrVec, MonHost, Versions};
use onego_msgr::auth::{AuthName, Credentials, Secret};
use std::time::Duration;

/// Configuration of a client. Names in parentheses are the corresponding options of librados.
#[derive(Debug, Clone)]
pub struct Config {
    /// Initial monitors (`mon_host`). After the first session, the monitor map replaces them.
    pub monitors: Vec<Monitor>,
    /// Accepted versions of the messenger protocol.
    pub versions: Versions,
    /// Whether to generate and check checksums of payloads. In version 1 each side decides for itself; in version 2 nothing
    /// on the wire tells, so the cluster needs the same setting (`ms_crc_data`).
    pub data_crc: bool,
    /// Compression to negotiate on OSD connections, if any.
    pub compression: Option<Compression>,
    /// Identifies as an OSD and connects to the cluster addresses: Ceph's OSDs negotiate compression with other OSDs only,
    /// and only there. (On the public addresses they account for a received message by its compressed length and release
    /// its real one, which crashes 18.2.)
    pub as_osd: bool,
    /// Identity of the client, and the accepted authentication methods and modes.
    pub credentials: Credentials,
    /// Random number that distinguishes this process from earlier ones at the same address.
    pub nonce: u32,
    /// Seed of the order in which monitors are tried.
    pub seed: u64,
    /// Seed of secrets: random bytes that are used for nothing else.
    pub secret_seed: Secret,
    /// Name of this host, as shown by monitors.
    pub hostname: String,
    /// Pool of the messages' memory.
    pub pool: Pool,
    /// The monitor session.
    pub mon: MonConfig,
    /// Requests to OSDs.
    pub osd: OsdConfig,
}

impl Config {
    /// Creates a configuration for `client.{id}`, without a key, with these monitors.
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

/// Address of a monitor, with its order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// Addresses.
    pub addrs: AddrVec,
    /// Lower values are tried first.
    pub priority: u16,
    /// Within a priority, a higher weight makes an earlier try more likely.
    pub weight: u16,
}

impl From<AddrVec> for Monitor {
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

/// Configuration of the monitor session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonConfig {
    /// Monitors tried in parallel (`mon_client_hunt_parallel`).
    pub hunt_parallel: usize,
    /// Timeout of a try (`mon_client_hunt_interval`).
    pub hunt_interval: Duration,
    /// Delay after all tries have failed for the first time; doubles each time.
    pub hunt_rest: Duration,
    /// Longest such delay (`mon_client_hunt_interval` times `mon_client_hunt_interval_max_multiple`).
    pub hunt_rest_max: Duration,
    /// Maximum number of monitor requests in flight.
    pub max_requests: usize,
    /// Timeout of a monitor request; `None`: no timeout (`rados_mon_op_timeout`).
    pub request_timeout: Option<Duration>,
}

impl Default for MonConfig {
    fn default() -> Self {
        Self {
            hunt_parallel: 3,
            hunt_interval: Duration::from_secs(3),
            hunt_rest: Duration::from_millis(100),
            hunt_rest_max: Duration::from_secs(30),
            // Administration, not data: a program with more in flight is out of control.
            max_requests: 1024,
            request_timeout: None,
        }
    }
}

/// Configuration of OSD requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsdConfig {
    /// Maximum number of requests in flight (`objecter_inflight_ops`), at most [`OsdConfig::MAX_OPS`].
    pub max_ops: usize,
    /// Maximum number of bytes in flight (`objecter_inflight_op_bytes`). A single larger request is admitted.
    pub max_bytes: u64,
    /// Timeout of a request without one of its own; `None`: no timeout (`rados_osd_op_timeout`).
    pub request_timeout: Option<Duration>,
    /// Time after which an idle connection is closed (the kernel's `osd_idle_ttl`).
    pub idle_timeout: Duration,
    /// Delay before a failed connection is reopened; doubles until one becomes ready. (librados reconnects to an OSD
    /// without a delay.)
    pub reconnect: Duration,
    /// Longest such delay (`ms_max_backoff`).
    pub reconnect_max: Duration,
    /// Time without a reply after which a newer map is requested (`objecter_timeout`).
    pub laggy: Duration,
    /// Interval of a watch's pings (`objecter_tick_interval`).
    pub ping_interval: Duration,
    /// Seconds without a ping after which an OSD drops a watch (`osd_client_watch_timeout`).
    pub watch_timeout: u32,
    /// Duration from which a request is logged as slow, with a breakdown; `None`: never.
    pub slow: Option<Duration>,
}

impl OsdConfig {
    /// Upper bound of [`max_ops`](Self::max_ops).
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
