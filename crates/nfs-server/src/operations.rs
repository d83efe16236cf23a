//! Calls, counted by procedure.

use onego_metrics::{OperationsSnapshot, Recorder};
use onego_nfs::rpc::Procedure as _;
use onego_nfs::{KINDS, kind, mount, v3};
use onego_wire::Time;
use std::time::Duration;

/// A call, as it is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedCall {
    kind: usize,
    /// When it came.
    since: Time,
    /// Bytes that it brought.
    brought: u64,
}

impl CountedCall {
    /// A call of NFS, of a procedure that there is.
    pub(super) fn nfs(since: Time, procedure: u32, brought: usize) -> Self {
        Self { kind: kind(v3::PROGRAM, procedure), since, brought: brought as u64 }
    }

    /// A call of MOUNT.
    pub(super) fn mount(since: Time) -> Self {
        Self { kind: kind(mount::PROGRAM, mount::Mnt::NUMBER), since, brought: 0 }
    }
}

/// Counts calls that are carried out: neither those that are refused before, nor those that have come again.
#[derive(Debug)]
pub(super) struct Operations {
    recorder: Recorder,
    /// From how long on a call is slow.
    slow: Duration,
}

impl Default for Operations {
    fn default() -> Self {
        Self { recorder: Recorder::new(KINDS), slow: Duration::MAX }
    }
}

impl Operations {
    /// Tells of calls that take as long.
    pub(super) fn set_slow(&mut self, slow: Duration) {
        self.slow = slow;
    }

    pub(super) fn begin(&self) {
        self.recorder.begin();
    }

    /// A call is carried out: this is the front of its reply, and the length of its payload.
    pub(super) fn end(&self, now: Time, asked: &CountedCall, front: &[u8], payload: usize) {
        let took = now.since(asked.since);
        let bytes = asked.brought + payload as u64;
        self.recorder.end(asked.kind, bytes, took, has_failed(asked.kind, front));
        if took >= self.slow {
            let kind = KINDS[asked.kind];
            tracing::warn!(target: "onego::slow", kind, bytes, ?took, "a call was slow");
        }
    }

    pub(super) fn snapshot(&self) -> OperationsSnapshot {
        self.recorder.reader().snapshot()
    }
}

/// Does a reply say that the call failed? Behind the id of the call come the kind of the message, whether the call was
/// accepted, a verifier without a body and whether it was carried out (RFC 5531, section 9), and then the status of the results
/// (RFC 1813, section 2.6). NULL has none, and not all procedures of MOUNT do.
fn has_failed(kind: usize, front: &[u8]) -> bool {
    let word = |at: usize| front.get(at..at + 4).is_some_and(|word| word != [0; 4]);
    let has_status = !["null", "mount"].contains(&KINDS[kind]);
    word(8) || word(20) || has_status && word(24)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_nfs::rpc::{Accepted, Denied, Reply};
    use onego_nfs::v3::Status;
    use onego_nfs::xdr::{Writer, Xdr as _};

    #[test]
    fn a_failure_is_seen_in_the_reply() {
        let reply = |result, status: u32| {
            let mut front = Writer::new();
            Reply { xid: 7, result }.encode(&mut front);
            [front.as_slice(), &status.to_be_bytes()].concat()
        };
        let failed = |result, status| has_failed(1, &reply(result, status));
        assert!(!failed(Ok(Accepted::Success), 0));
        assert!(failed(Ok(Accepted::Success), Status::Stale as u32));
        assert!(failed(Ok(Accepted::GarbageArguments), 0));
        assert!(failed(Err(Denied::TOO_WEAK), 0));
        assert!(!has_failed(0, &reply(Ok(Accepted::Success), 1)), "NULL has no status");
    }
}
