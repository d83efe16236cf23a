//! Metrics of a client's OSD requests.

use crate::osdmap::OsdMap;
use onego_metrics::{Collect, Counter, Families, OperationNames, OperationsSnapshot, Reader, Recorder};
use onego_wire::Time;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const KINDS: &[&str] = &["read", "write"];

/// Maximum number of pools with their own metrics. Requests to others count for the pool `other`.
const POOLS_MAX: usize = 256;

const OTHER: i64 = -1;

const REQUESTS: OperationNames = OperationNames {
    latency: (
        "onego_client_request_duration_seconds",
        "Time from the submission of a request to an OSD to the end of it",
    ),
    bytes: ("onego_client_bytes_total", "Bytes that requests to OSDs wrote or read"),
    errors: (
        "onego_client_errors_total",
        "Requests to OSDs that failed or were answered with an error other than that something exists, or does not",
    ),
    in_flight: ("onego_client_in_flight", "Requests to OSDs that have not ended"),
};

/// Snapshot of a client's metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientSnapshot {
    /// OSD requests by pool name, of the kinds `read` (only reads) and `write` (may change something), without
    /// watches. Latencies are from the submission of a request to its end, including all waits.
    pub pools: BTreeMap<String, OperationsSnapshot>,
    /// Requests that were resent because of a broken connection, a new map or an OSD's reply.
    pub retries: u64,
    /// OSD connections that were reopened after a failure.
    pub reconnects: u64,
    /// Epoch of the newest OSD map; 0: none yet.
    pub map_epoch: u32,
}

/// Reader of a client's metrics, on any thread, even after the client's end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ClientFigures {
    shared: Arc<ClientCounts>,
}

#[derive(Debug, Default)]
struct ClientCounts {
    /// By pool number. Locked for the first request to a pool, and by readers.
    pools: Mutex<BTreeMap<i64, PoolFigures>>,
    retries: Counter,
    reconnects: Counter,
    map_epoch: Counter,
}

#[derive(Debug)]
struct PoolFigures {
    /// `None`: no map has named the pool yet.
    name: Option<String>,
    operations: Reader,
}

impl ClientFigures {
    /// Returns a snapshot of the metrics.
    pub fn snapshot(&self) -> ClientSnapshot {
        let ClientCounts { pools, retries, reconnects, map_epoch } = &*self.shared;
        let mut named = BTreeMap::<String, OperationsSnapshot>::new();
        for (id, pool) in &*pools.lock().unwrap_or_else(PoisonError::into_inner) {
            let name = pool.name.clone().unwrap_or_else(|| id.to_string());
            named.entry(name).or_default().merge(&pool.operations.snapshot());
        }
        ClientSnapshot {
            pools: named,
            retries: retries.get(),
            reconnects: reconnects.get(),
            map_epoch: map_epoch.get() as u32,
        }
    }
}

impl Collect for ClientFigures {
    fn collect(&self, families: &mut Families) {
        let ClientSnapshot { pools, retries, reconnects, map_epoch } = self.snapshot();
        for (pool, seen) in &pools {
            families.operations(&REQUESTS, &vec![("pool", pool.clone())], seen);
        }
        let help = "Requests to OSDs that were sent again";
        families.counter("onego_client_retries_total", help, Vec::new(), retries as f64);
        let help = "Connections to OSDs that were opened again after one had failed";
        families.counter("onego_client_reconnects_total", help, Vec::new(), reconnects as f64);
        let help = "The epoch of the newest map of OSDs that clients have; the lowest of several";
        families.lowest("onego_client_map_epoch", help, Vec::new(), map_epoch.into());
    }
}

#[derive(Debug)]
pub(crate) struct Meter {
    figures: ClientFigures,
    recorders: FxHashMap<i64, Recorder>,
    slow: Duration,
    now: Time,
}

pub(crate) struct Ended<'a> {
    pub(crate) pool: i64,
    pub(crate) object: &'a [u8],
    pub(crate) osd: i32,
    pub(crate) writes: bool,
    pub(crate) bytes: u64,
    pub(crate) has_failed: bool,
    pub(crate) since: Time,
    pub(crate) sent_at: Time,
    pub(crate) attempts: i32,
}

impl Meter {
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        Self {
            figures: ClientFigures::default(),
            recorders: FxHashMap::default(),
            slow: slow.unwrap_or(Duration::MAX),
            now: Time::default(),
        }
    }

    pub(crate) fn figures(&self) -> ClientFigures {
        self.figures.clone()
    }

    /// Sets the time, which is also that of ends without one.
    #[inline]
    pub(crate) fn tick(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    pub(crate) fn begin(&mut self, pool: i64, map: Option<&OsdMap>) {
        match self.recorders.get(&pool) {
            Some(recorder) => recorder.begin(),
            None => self.begin_first(pool, map),
        }
    }

    #[cold]
    fn begin_first(&mut self, pool: i64, map: Option<&OsdMap>) {
        let pool = if self.recorders.len() < POOLS_MAX { pool } else { OTHER };
        let shared = &self.figures.shared;
        let recorder = self.recorders.entry(pool).or_insert_with(|| {
            let recorder = Recorder::new(KINDS);
            let name = match pool {
                OTHER => Some("other".to_owned()),
                _ => map.and_then(|map| map.pool_names.get(&pool).cloned()),
            };
            let figures = PoolFigures { name, operations: recorder.reader() };
            shared.pools.lock().unwrap_or_else(PoisonError::into_inner).insert(pool, figures);
            recorder
        });
        recorder.begin();
    }

    #[inline]
    pub(crate) fn end(&self, ended: &Ended<'_>) {
        let took = self.now.since(ended.since);
        let recorder = self.recorders.get(&ended.pool).or_else(|| self.recorders.get(&OTHER));
        if let Some(recorder) = recorder {
            recorder.end(usize::from(ended.writes), ended.bytes, took, ended.has_failed);
        }
        if took >= self.slow {
            self.tell_slow(ended, took);
        }
    }

    /// Logs a slow request with the time until it was last sent, and from then to its end.
    #[cold]
    fn tell_slow(&self, ended: &Ended<'_>, took: Duration) {
        let Ended { pool, object, osd, writes, bytes, sent_at, since, attempts, has_failed } = *ended;
        let (kind, object) = (KINDS[usize::from(writes)], String::from_utf8_lossy(object));
        // A request that was never sent only waited.
        let queue = if attempts > 0 { sent_at.since(since) } else { took };
        let server = took.saturating_sub(queue);
        tracing::warn!(
            target: "onego::slow",
            kind, pool, %object, osd, bytes, attempts, has_failed, ?took, ?queue, wire_and_server = ?server,
            "a request to an OSD was slow"
        );
    }

    pub(crate) fn redirect(&mut self, from: i64, to: i64, map: Option<&OsdMap>) {
        if let Some(recorder) = self.recorders.get(&from).or_else(|| self.recorders.get(&OTHER)) {
            recorder.forget();
        }
        self.begin(to, map);
    }

    pub(crate) fn retry(&self) {
        self.figures.shared.retries.add(1);
    }

    pub(crate) fn reconnect(&self) {
        self.figures.shared.reconnects.add(1);
    }

    pub(crate) fn map(&self, map: &OsdMap) {
        self.figures.shared.map_epoch.set(map.epoch.into());
        let mut pools = self.figures.shared.pools.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, pool) in &mut *pools {
            if let Some(name) = map.pool_names.get(id) {
                pool.name = Some(name.clone());
            }
        }
    }
}
