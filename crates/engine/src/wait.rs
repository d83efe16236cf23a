//! Limits on an engine's sleep.

use crate::socket::ACCEPT_PAUSE;
use crate::system::clock;
use onego_wire::Time;
use std::time::Duration;

/// Limit on the sleep of a turn without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// No sleep.
    Poll,
    /// Sleep at most until that time.
    Until(Time),
    /// Sleep until an event arrives.
    Forever,
}

/// Returns the limit on an engine's sleep; `None`: no limit. With paused listeners it is at most their pause.
pub(crate) fn timeout(wait: Wait, resting: bool) -> Option<Duration> {
    let timeout = match wait {
        Wait::Poll => Some(Duration::ZERO),
        Wait::Until(time) => Some(time.since(clock::now())),
        Wait::Forever => None,
    };
    if resting { Some(timeout.map_or(ACCEPT_PAUSE, |timeout| timeout.min(ACCEPT_PAUSE))) } else { timeout }
}
