//! Whether the peer is still there.

use crate::config::Keepalive;
use onego_wire::Time;

/// When something was heard of the peer last, and when it is to be asked for a sign of life.
#[derive(Debug)]
pub(crate) struct Liveness {
    keepalive: Option<Keepalive>,
    heard: Time,
    /// When a sign of life was asked for that is not here yet.
    asked: Option<Time>,
}

/// What the time that has passed asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask for a sign of life.
    Ask,
    /// Give the peer up.
    GiveUp(Keepalive),
}

impl Liveness {
    pub(crate) fn new(now: Time, keepalive: Option<Keepalive>) -> Self {
        Self { keepalive, heard: now, asked: None }
    }

    /// Something came from the peer.
    #[inline]
    pub(crate) fn heard(&mut self, now: Time) {
        self.heard = now;
        self.asked = None;
    }

    /// When there is something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let keepalive = self.keepalive?;
        Some(match self.asked {
            None => self.heard + keepalive.interval,
            Some(asked) => asked + keepalive.timeout,
        })
    }

    /// What is to be done, when the deadline has passed.
    pub(crate) fn timeout(&mut self, now: Time) -> Option<Due> {
        let keepalive = self.keepalive?;
        if self.asked.is_some() {
            return Some(Due::GiveUp(keepalive));
        }
        self.asked = Some(now);
        Some(Due::Ask)
    }
}
