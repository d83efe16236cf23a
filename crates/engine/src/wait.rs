//! How long an engine may sleep.

use crate::socket::ACCEPT_PAUSE;
use crate::system::clock;
use onego_wire::Time;
use std::time::Duration;

/// How long a turn may sleep when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Poll,
    /// Until that time at most.
    Until(Time),
    /// Until something happens.
    Forever,
}

/// How long an engine may sleep; `None`: until something happens. With listeners that rest, no longer than they do.
pub(crate) fn timeout(wait: Wait, resting: bool) -> Option<Duration> {
    let timeout = match wait {
        Wait::Poll => Some(Duration::ZERO),
        Wait::Until(time) => Some(time.since(clock::now())),
        Wait::Forever => None,
    };
    if resting { Some(timeout.map_or(ACCEPT_PAUSE, |timeout| timeout.min(ACCEPT_PAUSE))) } else { timeout }
}
