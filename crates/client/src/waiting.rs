//! Reports of why a client is waiting, after a wait of two seconds.

use onego_wire::Time;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shorter waits go unreported: a new cluster map takes about a second to spread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two checks. A check walks all requests in flight.
const INTERVAL: Duration = Duration::from_secs(1);

/// A check delayed by this much means that the client was not driven meanwhile: the replies may lie unread in the
/// sockets.
const LATE: Duration = Duration::from_millis(500);

/// A sentence that states what a client waits for and why.
pub(crate) trait WaitReport: fmt::Display + Clone {
    fn elapsed(&self) -> Duration;
}

/// Hook called when a client has waited for two seconds, when the object or reason of the wait changes, and with
/// `None` when the client proceeds. It runs on the thread that drives the client and must not block.
///
/// Use it as [`ceph::WaitingHook`](crate::ceph::WaitingHook) or [`nfs::WaitingHook`](crate::nfs::WaitingHook).
///
/// ```
/// use onego::ceph::WaitingHook;
/// let hook = WaitingHook::new(|waiting| {
///     if let Some(waiting) = waiting {
///         eprintln!("{waiting}"); // "waiting for osd.0 at 10.0.0.1:6800, because ..."
///     }
/// });
/// # let _ = hook;
/// ```
pub struct WaitingHook<W>(Arc<Hook<W>>);

type Hook<W> = dyn Fn(Option<&W>) + Send + Sync;

impl<W> WaitingHook<W> {
    /// Creates a hook that calls `hook`.
    pub fn new(hook: impl Fn(Option<&W>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl<W> Clone for WaitingHook<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> fmt::Debug for WaitingHook<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingHook")
    }
}

#[derive(Debug)]
pub(crate) struct Report<W>(Arc<Mutex<Option<W>>>);

impl<W> Default for Report<W> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<W> Clone for Report<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Clone> Report<W> {
    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<W> {
        self.lock().clone()
    }
}

/// Checks once a second whether a busy client makes progress.
#[derive(Debug)]
pub(crate) struct StallMonitor<W> {
    next_check: Option<Time>,
    reported: Option<String>,
    report: Report<W>,
    hook: Option<WaitingHook<W>>,
}

impl<W: WaitReport> StallMonitor<W> {
    pub(crate) fn new(report: Report<W>, hook: Option<WaitingHook<W>>) -> Self {
        Self { next_check: None, reported: None, report, hook }
    }

    #[inline]
    pub(crate) fn set_busy(&mut self, now: Time, is_busy: bool) {
        if is_busy != self.next_check.is_some() {
            self.next_check = is_busy.then(|| now + PATIENCE);
            if !is_busy {
                self.report(None);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next_check
    }

    pub(crate) fn check(&mut self, now: Time, waiting: impl FnOnce() -> Option<W>) {
        let Some(at) = self.next_check.filter(|at| *at <= now) else { return };
        self.next_check = Some(now + INTERVAL);
        if now.since(at) < LATE {
            self.report(waiting().filter(|waiting| waiting.elapsed() >= PATIENCE));
        }
    }

    fn report(&mut self, waiting: Option<W>) {
        if waiting.is_none() && self.reported.is_none() {
            return;
        }
        let sentence = waiting.as_ref().map(ToString::to_string);
        self.report.lock().clone_from(&waiting);
        if sentence == self.reported {
            return;
        }
        match &waiting {
            Some(waiting) => tracing::info!(elapsed = ?waiting.elapsed(), "{waiting}"),
            None => tracing::info!("the client proceeds"),
        }
        self.reported = sentence;
        if let Some(WaitingHook(hook)) = &self.hook {
            hook(waiting.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Sentence(&'static str, u64);

    impl fmt::Display for Sentence {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl WaitReport for Sentence {
        fn elapsed(&self) -> Duration {
            Duration::from_secs(self.1)
        }
    }

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn reports_are_sent_once_and_only_after_two_seconds() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&reported);
        let hook = WaitingHook::new(move |waiting: Option<&Sentence>| {
            log.lock().unwrap().push(waiting.map(ToString::to_string));
        });
        let report = Report::default();
        let mut stall_monitor = StallMonitor::new(report.clone(), Some(hook));
        stall_monitor.set_busy(at(0), true);
        stall_monitor.check(at(1), || panic!("too early to check"));
        stall_monitor.check(at(2), || Some(Sentence("refused", 1)));
        assert_eq!(report.get(), None);
        stall_monitor.check(at(3), || Some(Sentence("refused", 2)));
        stall_monitor.check(at(4), || Some(Sentence("refused", 3)));
        assert_eq!(report.get(), Some(Sentence("refused", 3)));
        stall_monitor.check(at(5), || Some(Sentence("reset", 4)));
        stall_monitor.set_busy(at(6), true);
        stall_monitor.set_busy(at(6), false);
        assert_eq!((report.get(), stall_monitor.deadline()), (None, None));
        assert_eq!(*reported.lock().unwrap(), [Some("refused".into()), Some("reset".into()), None]);
    }

    #[test]
    fn an_undriven_client_is_not_reported_as_waiting() {
        let report = Report::default();
        let mut stall_monitor = StallMonitor::new(report.clone(), None);
        stall_monitor.set_busy(at(0), true);
        stall_monitor.check(at(9), || panic!("the replies may lie in the sockets"));
        assert_eq!((report.get(), stall_monitor.deadline()), (None, Some(at(10))));
        stall_monitor.check(at(10), || Some(Sentence("unanswered", 10)));
        assert!(report.get().is_some());
    }
}
