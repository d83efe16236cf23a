//! The figures of a server as metrics.

use onego_engine::Waker;
use onego_metrics::{Collect, Families, OperationNames, OperationsSnapshot, Published};
use std::sync::Arc;
use std::time::Duration;

/// How calls are told.
const CALLS: OperationNames = OperationNames {
    latency: (
        "onego_nfs_call_duration_seconds",
        "Time from the turn in which a call came to that in which its reply was made",
    ),
    bytes: ("onego_nfs_bytes_total", "Bytes of files that calls wrote or read"),
    errors: ("onego_nfs_errors_total", "Calls that were answered with an error"),
    in_flight: ("onego_nfs_in_flight", "Calls that are carried out"),
};

/// What a server has cost so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Processor time of the server's thread.
    pub cpu: Duration,
    /// System calls and bytes.
    pub engine: onego_engine::Stats,
    /// Calls that were answered.
    pub calls: u64,
    /// Connections that are open.
    pub connections: usize,
    /// Calls that were carried out, by procedure, with those of MOUNT as `mount`. Of a file system in memory they take no time
    /// but that until the next turn.
    pub operations: OperationsSnapshot,
    /// Bytes of buffers that are kept for payloads to come.
    pub idle_buffers: u64,
}

/// What others read of a server, from any thread. Of one that has ended, it is what was read last.
#[derive(Debug, Clone)]
pub struct Figures {
    pub(super) published: Arc<Published<Stats>>,
    pub(super) waker: Waker,
    /// The path of the export.
    pub(super) export: String,
}

impl Figures {
    /// What the server has cost so far. A server whose thread does not answer within a tenth of a second is described as it was
    /// before.
    pub fn stats(&self) -> Stats {
        self.published.ask(|| self.waker.wake())
    }
}

impl Collect for Figures {
    fn collect(&self, families: &mut Families) {
        let Stats { engine, connections, operations, idle_buffers, .. } = self.stats();
        engine.collect("onego-nfs", families);
        families.operations(&CALLS, &vec![("export", self.export.clone())], &operations);
        let help = "Connections that are open";
        families.gauge("onego_nfs_connections", help, Vec::new(), connections as f64);
        let owner = vec![("owner", "idle_buffers".to_owned())];
        families.gauge("onego_memory_bytes", "Memory by what holds it", owner, idle_buffers as f64);
    }
}
