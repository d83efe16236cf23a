//! The figures of a cluster as metrics.

mod operations;

pub(super) use operations::PoolOperations;

use crate::mon::Usage;
use onego_ceph::types::Epoch;
use onego_engine::Waker;
use onego_metrics::{Collect, Families, OperationNames, OperationsSnapshot, Published};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How requests to OSDs are told.
const REQUESTS: OperationNames = OperationNames {
    latency: (
        "onego_cluster_request_duration_seconds",
        "Time from the turn in which a request of a client came to that in which its reply was sent",
    ),
    bytes: ("onego_cluster_bytes_total", "Bytes that requests of clients brought or read"),
    errors: ("onego_cluster_errors_total", "Requests of clients that were answered with an error"),
    in_flight: (
        "onego_cluster_in_flight",
        "Requests of clients whose replies wait until something is durable",
    ),
};

/// What a cluster has cost so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Processor time of the cluster's thread.
    pub cpu: Duration,
    /// System calls and bytes.
    pub engine: onego_engine::Stats,
    /// What the cluster holds.
    pub usage: Usage,
    /// The epoch of the newest map.
    pub epoch: Epoch,
    /// Requests of clients to OSDs, by the names of their pools. A request takes from the turn in which it comes to the one in
    /// which its reply is sent: nothing, unless the reply waits until something is durable.
    pub operations: BTreeMap<String, OperationsSnapshot>,
    /// Bytes of buffers that are kept for payloads to come.
    pub idle_buffers: u64,
    /// Connections that are open.
    pub connections: usize,
}

/// What others read of a cluster, from any thread. Of one that has ended, it is what was read last.
#[derive(Debug, Clone)]
pub struct Figures {
    pub(super) published: Arc<Published<Stats>>,
    pub(super) waker: Waker,
}

impl Figures {
    /// What the cluster has cost so far. A cluster whose thread does not answer within a tenth of a second is described as it
    /// was before.
    pub fn stats(&self) -> Stats {
        self.published.ask(|| self.waker.wake())
    }
}

impl Collect for Figures {
    fn collect(&self, families: &mut Families) {
        let Stats { engine, usage, epoch, operations, idle_buffers, connections, .. } = self.stats();
        engine.collect("onego-cluster", families);
        for (pool, seen) in &operations {
            families.operations(&REQUESTS, &vec![("pool", pool.clone())], seen);
        }
        for (osd, usage) in &usage.osds {
            let labels = || vec![("osd", osd.to_string())];
            let help = "Memory that the objects of an OSD take";
            families.gauge("onego_osd_used_bytes", help, labels(), usage.used as f64);
            let help = "Memory that an OSD may take for objects";
            families.gauge("onego_osd_limit_bytes", help, labels(), usage.total as f64);
        }
        let objects = usage.objects() as f64;
        families.gauge("onego_cluster_objects", "Objects in all pools", Vec::new(), objects);
        let owner = |owner: &str| vec![("owner", owner.to_owned())];
        let help = "Memory by what holds it";
        families.gauge("onego_memory_bytes", help, owner("store"), usage.used as f64);
        families.gauge("onego_memory_bytes", help, owner("idle_buffers"), idle_buffers as f64);
        let help = "The epoch of the newest map of OSDs";
        families.gauge("onego_cluster_map_epoch", help, Vec::new(), epoch.into());
        let help = "Connections that are open";
        families.gauge("onego_cluster_connections", help, Vec::new(), connections as f64);
    }
}
