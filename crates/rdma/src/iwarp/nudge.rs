//! Makes a server look at what it may have overlooked.
//!
//! Linux's siw, as a server, sends the MPA Reply before it listens to what comes next (siw_cm.c, `siw_accept`). What a
//! quick client sends in between stays where it is until more bytes come: for ever, if the client waits for an answer.
//! So a client that has sent something and hears nothing sends an RDMA Write of no bytes, which touches nothing and
//! completes nothing there, after each of a few waits.

use onego_wire::Time;
use std::time::Duration;

/// Since the connection is established: the first is longer than siw takes, the others are for slow machines.
const WAITS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// Of a client whose server has said nothing since its reply.
#[derive(Debug)]
pub(super) struct Nudge {
    established: Time,
    /// Waits that are over.
    over: usize,
}

impl Nudge {
    pub(super) fn new(established: Time) -> Self {
        Self { established, over: 0 }
    }

    /// When the next wait is over, if there is one.
    pub(super) fn deadline(&self) -> Option<Time> {
        WAITS.get(self.over).map(|wait| self.established + *wait)
    }

    /// Is a wait over? It is told once.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|deadline| now >= deadline);
        self.over += usize::from(due);
        due
    }
}
