//! Detection of dead peers.

use crate::config::Keepalive;
use onego_wire::Time;

#[derive(Debug)]
pub(crate) struct Liveness {
    keepalive: Option<Keepalive>,
    heard: Time,
    /// Time of the pending keepalive request.
    asked: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Ask,
    GiveUp(Keepalive),
}

impl Liveness {
    pub(crate) fn new(now: Time, keepalive: Option<Keepalive>) -> Self {
        Self { keepalive, heard: now, asked: None }
    }

    /// Records that bytes arrived from the peer.
    #[inline]
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.asked = None;
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let keepalive = self.keepalive?;
        Some(match self.asked {
            None => self.heard + keepalive.interval,
            Some(asked) => asked + keepalive.timeout,
        })
    }

    pub(crate) fn timeout(&mut self, now: Time) -> Option<Due> {
        let keepalive = self.keepalive?;
        if self.asked.is_some() {
            return Some(Due::GiveUp(keepalive));
        }
        self.asked = Some(now);
        Some(Due::Ask)
    }
}
