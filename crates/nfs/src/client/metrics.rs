//! Call statistics of a client.

use crate::kinds::KINDS;
use onego_metrics::{Collect, Counter, Families, OperationNames, OperationsSnapshot, Reader, Recorder};
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

const CALLS: OperationNames = OperationNames {
    latency: ("onego_nfs_client_call_duration_seconds", "Time from the start of a call to its end"),
    bytes: ("onego_nfs_client_bytes_total", "File bytes written or read"),
    errors: ("onego_nfs_client_errors_total", "Calls that failed"),
    in_flight: ("onego_nfs_client_in_flight", "Calls in flight"),
};

/// Call statistics of a client at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallsSnapshot {
    /// Calls by [kind](KINDS). A call that the server executed is not an error, whatever its status.
    pub calls: OperationsSnapshot,
    /// Calls that were sent again after their connection broke.
    pub retries: u64,
    /// Connections that were reopened after one broke.
    pub reconnects: u64,
}

/// Handle to a client's call statistics. Usable on any thread and after the client is dropped; cheap to clone.
#[derive(Debug, Clone)]
pub struct CallFigures {
    calls: Reader,
    repeated: Arc<Repeated>,
}

#[derive(Debug, Default)]
struct Repeated {
    retries: Counter,
    reconnects: Counter,
}

impl CallFigures {
    /// Returns the current values.
    pub fn snapshot(&self) -> CallsSnapshot {
        let Repeated { retries, reconnects } = &*self.repeated;
        CallsSnapshot { calls: self.calls.snapshot(), retries: retries.get(), reconnects: reconnects.get() }
    }
}

impl Collect for CallFigures {
    fn collect(&self, families: &mut Families) {
        let CallsSnapshot { calls, retries, reconnects } = self.snapshot();
        families.operations(&CALLS, &Vec::new(), &calls);
        let help = "Calls that were sent again";
        families.counter("onego_nfs_client_retries_total", help, Vec::new(), retries as f64);
        let help = "Connections to servers that were opened again after one had broken";
        families.counter("onego_nfs_client_reconnects_total", help, Vec::new(), reconnects as f64);
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    recorder: Recorder,
    repeated: Arc<Repeated>,
    slow: Duration,
    now: Time,
}

pub(super) struct Ended {
    pub(super) kind: usize,
    pub(super) bytes: u64,
    pub(super) has_failed: bool,
    pub(super) made: Time,
    pub(super) sent: Option<Time>,
}

impl Meter {
    pub(super) fn new(slow: Option<Duration>) -> Self {
        Self {
            recorder: Recorder::new(KINDS),
            repeated: Arc::default(),
            slow: slow.unwrap_or(Duration::MAX),
            now: Time::default(),
        }
    }

    pub(super) fn figures(&self) -> CallFigures {
        CallFigures { calls: self.recorder.reader(), repeated: Arc::clone(&self.repeated) }
    }

    /// Advances the clock. Calls that end without their own timestamp end at this time.
    #[inline]
    pub(super) fn tick(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    pub(super) fn begin(&self) {
        self.recorder.begin();
    }

    #[inline]
    pub(super) fn end(&self, ended: &Ended) {
        let took = self.now.since(ended.made);
        self.recorder.end(ended.kind, ended.bytes, took, ended.has_failed);
        if took >= self.slow {
            self.log_slow(ended, took);
        }
    }

    /// Logs a slow call, split into the time before its last transmission and the time after.
    #[cold]
    fn log_slow(&self, ended: &Ended, took: Duration) {
        let Ended { kind, bytes, has_failed, made, sent } = *ended;
        let queue = sent.map_or(took, |sent| sent.since(made));
        let (kind, server) = (KINDS[kind], took.saturating_sub(queue));
        tracing::warn!(
            target: "onego::slow",
            kind, bytes, has_failed, ?took, ?queue, wire_and_server = ?server,
            "slow call to a file server"
        );
    }

    pub(super) fn retry(&self) {
        self.repeated.retries.add(1);
    }

    pub(super) fn reconnect(&self) {
        self.repeated.reconnects.add(1);
    }
}
