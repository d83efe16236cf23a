//! Requests of clients, counted by kind.

use onego_block::Op;
use onego_metrics::{OperationNames, OperationsSnapshot, Recorder};
use onego_wire::Time;
use std::time::Duration;

/// How requests of clients are told.
pub const REQUESTS: OperationNames = OperationNames {
    latency: (
        "onego_export_request_duration_seconds",
        "Time from the turn in which a request of a client came to that in which it was done",
    ),
    bytes: ("onego_export_bytes_total", "Bytes that requests of clients wrote or read"),
    errors: ("onego_export_errors_total", "Requests of clients that failed"),
    in_flight: ("onego_export_in_flight", "Requests of clients that are at the device, or wait for it"),
};

/// The names of kinds, in their order.
const KINDS: &[&str] = &["read", "write", "flush", "trim", "zero", "status"];

/// What a client asks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Flush,
    Trim,
    Zero,
    Status,
}

impl From<&Op> for RequestKind {
    fn from(op: &Op) -> Self {
        match op {
            Op::Read { .. } | Op::ReadInto { .. } => Self::Read,
            Op::Write { .. } => Self::Write,
            Op::Flush => Self::Flush,
            Op::Trim { .. } => Self::Trim,
            Op::Zero { .. } => Self::Zero,
            Op::Status { .. } => Self::Status,
        }
    }
}

/// A request of a client, as it is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientRequest {
    pub(crate) kind: RequestKind,
    /// First byte of the device.
    pub(crate) offset: u64,
    /// Bytes that it reads or writes.
    pub(crate) bytes: u64,
    /// When it came.
    pub(crate) since: Time,
}

/// Counts the requests to one export.
#[derive(Debug)]
pub(crate) struct Operations {
    recorder: Recorder,
    /// From how long on a request is slow.
    slow: Duration,
}

impl Operations {
    /// `slow`: requests that take as long are told of.
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        Self { recorder: Recorder::new(KINDS), slow: slow.unwrap_or(Duration::MAX) }
    }

    /// A request has come.
    #[inline]
    pub(crate) fn begin(&self) {
        self.recorder.begin();
    }

    /// Nobody waits for a request any more.
    pub(crate) fn forget(&self) {
        self.recorder.forget();
    }

    /// A request is done.
    #[inline]
    pub(crate) fn end(&self, now: Time, asked: &ClientRequest, has_failed: bool) {
        let took = now.since(asked.since);
        self.recorder.end(asked.kind as usize, asked.bytes, took, has_failed);
        if took >= self.slow {
            tell_slow(asked, took, has_failed);
        }
    }

    /// What was counted so far.
    pub(crate) fn snapshot(&self) -> OperationsSnapshot {
        self.recorder.reader().snapshot()
    }
}

/// Says that the device was slow. A client of a cluster under it says where the time went.
#[cold]
fn tell_slow(asked: &ClientRequest, took: Duration, has_failed: bool) {
    let ClientRequest { kind, offset, bytes, .. } = *asked;
    let kind = KINDS[kind as usize];
    tracing::warn!(target: "onego::slow", kind, offset, bytes, has_failed, ?took, "a request to a device was slow");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_name() {
        let ops = [
            (Op::Read { length: 1 }, "read"),
            (Op::Write { data: Default::default() }, "write"),
            (Op::Flush, "flush"),
            (Op::Trim { length: 1 }, "trim"),
            (Op::Zero { length: 1 }, "zero"),
            (Op::Status { length: 1 }, "status"),
        ];
        for (op, name) in ops {
            assert_eq!(KINDS[RequestKind::from(&op) as usize], name);
        }
    }
}
