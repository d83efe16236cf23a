//! What a client counts of its calls.

use crate::kinds::KINDS;
use onego_metrics::{Collect, Counter, Families, OperationNames, OperationsSnapshot, Reader, Recorder};
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

/// How calls are told.
const CALLS: OperationNames = OperationNames {
    latency: (
        "onego_nfs_client_call_duration_seconds",
        "Time from the moment at which a call was made to its end",
    ),
    bytes: ("onego_nfs_client_bytes_total", "Bytes of files that calls wrote or read"),
    errors: ("onego_nfs_client_errors_total", "Calls that were not carried out"),
    in_flight: ("onego_nfs_client_in_flight", "Calls that have not ended"),
};

/// What a client has counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CallsSnapshot {
    /// Calls by [kind](KINDS). Those that the server has carried out are no errors, whatever their status.
    pub calls: OperationsSnapshot,
    /// Calls that were sent again, because their connection had broken.
    pub retries: u64,
    /// Connections that were opened again after one had broken.
    pub reconnects: u64,
}

/// Reads what a client has counted, on any thread, also after its end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallFigures {
    calls: Reader,
    repeated: Arc<Repeated>,
}

/// What had to be done again.
#[derive(Debug, Default)]
struct Repeated {
    retries: Counter,
    reconnects: Counter,
}

impl CallFigures {
    /// What was counted so far.
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

/// Counts, for the thread that drives the client.
#[derive(Debug)]
pub(super) struct Meter {
    recorder: Recorder,
    repeated: Arc<Repeated>,
    /// From how long on a call is slow.
    slow: Duration,
    /// When the client was driven last.
    now: Time,
}

/// A call that ends.
pub(super) struct Ended {
    pub(super) kind: usize,
    pub(super) bytes: u64,
    pub(super) has_failed: bool,
    pub(super) made: Time,
    /// When it was sent last, if it was.
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

    /// The time has come to this. What ends without a time of its own ends now.
    #[inline]
    pub(super) fn tick(&mut self, now: Time) {
        self.now = now;
    }

    /// A call is made.
    #[inline]
    pub(super) fn begin(&self) {
        self.recorder.begin();
    }

    /// A call ends.
    #[inline]
    pub(super) fn end(&self, ended: &Ended) {
        let took = self.now.since(ended.made);
        self.recorder.end(ended.kind, ended.bytes, took, ended.has_failed);
        if took >= self.slow {
            self.tell_slow(ended, took);
        }
    }

    /// Says where the time of a slow call went: until it was sent for the last time, and from then until its end.
    #[cold]
    fn tell_slow(&self, ended: &Ended, took: Duration) {
        let Ended { kind, bytes, has_failed, made, sent } = *ended;
        let queue = sent.map_or(took, |sent| sent.since(made));
        let (kind, server) = (KINDS[kind], took.saturating_sub(queue));
        tracing::warn!(
            target: "onego::slow",
            kind, bytes, has_failed, ?took, ?queue, wire_and_server = ?server,
            "a call to a server of files was slow"
        );
    }

    /// A call is to be sent again.
    pub(super) fn retry(&self) {
        self.repeated.retries.add(1);
    }

    /// A connection is opened in place of one that has broken.
    pub(super) fn reconnect(&self) {
        self.repeated.reconnects.add(1);
    }
}
