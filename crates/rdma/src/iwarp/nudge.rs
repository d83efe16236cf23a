//! Nudges a server that may have overlooked early bytes.
//!
//! Linux's siw, as a server, sends the MPA Reply before it listens for further bytes (siw_cm.c, `siw_accept`). Bytes
//! that a quick client sends in between stay unread until more arrive: forever, if the client waits for a reply. So a
//! client that has sent something and receives nothing sends a zero-length RDMA Write, which touches and completes
//! nothing there, after each of a few waits.

use onego_wire::Time;
use std::time::Duration;

/// Time since the connection was established: the first wait is longer than siw takes, the others are for slow
/// machines.
const WAITS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// State of a client whose server has sent nothing since its reply.
#[derive(Debug)]
pub(super) struct Nudge {
    established: Time,
    over: usize,
}

impl Nudge {
    pub(super) fn new(established: Time) -> Self {
        Self { established, over: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        WAITS.get(self.over).map(|wait| self.established + *wait)
    }

    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|deadline| now >= deadline);
        self.over += usize::from(due);
        due
    }
}
