//! Reports what a client waits for, once that takes long.

use onego_wire::Time;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Waiting that takes less is not worth a word: a new map of a cluster takes about a second to spread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at what is waited for. A look walks over all requests in flight.
const INTERVAL: Duration = Duration::from_secs(1);

/// A look that comes this much later than planned finds a client that nobody drove meanwhile: what it waits for may lie
/// in the sockets.
const LATE: Duration = Duration::from_millis(500);

/// What a client waits for, and why: a sentence.
pub(crate) trait WaitReport: fmt::Display + Clone {
    /// How long it has been waited for.
    fn elapsed(&self) -> Duration;
}

/// Called when a client has waited for two seconds, when it waits for something else or for another reason, and with
/// `None` when it goes on. It is called on the thread that drives the client, and must not block.
///
/// Its names in use are [`ceph::WaitingHook`](crate::ceph::WaitingHook) and [`nfs::WaitingHook`](crate::nfs::WaitingHook).
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
    /// A hook that calls `hook`.
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

/// The newest report, which other threads may look at.
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

/// Looks once a second whether a client that has something to do gets on with it.
#[derive(Debug)]
pub(crate) struct Lookout<W> {
    /// When to look next; `None`: there is nothing to wait for.
    look_at: Option<Time>,
    /// The sentence that was reported last.
    reported: Option<String>,
    report: Report<W>,
    hook: Option<WaitingHook<W>>,
}

impl<W: WaitReport> Lookout<W> {
    pub(crate) fn new(report: Report<W>, hook: Option<WaitingHook<W>>) -> Self {
        Self { look_at: None, reported: None, report, hook }
    }

    /// Says whether the client has anything to do.
    #[inline]
    pub(crate) fn set_busy(&mut self, now: Time, is_busy: bool) {
        if is_busy != self.look_at.is_some() {
            self.look_at = is_busy.then(|| now + PATIENCE);
            if !is_busy {
                self.report(None);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, now: Time, waiting: impl FnOnce() -> Option<W>) {
        let Some(at) = self.look_at.filter(|at| *at <= now) else { return };
        self.look_at = Some(now + INTERVAL);
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
            None => tracing::info!("the client goes on"),
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

    /// A sentence, and the seconds for which it has been true.
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
    fn news_are_reported_once_and_only_after_two_seconds() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&reported);
        let hook = WaitingHook::new(move |waiting: Option<&Sentence>| {
            log.lock().unwrap().push(waiting.map(ToString::to_string));
        });
        let report = Report::default();
        let mut lookout = Lookout::new(report.clone(), Some(hook));
        lookout.set_busy(at(0), true);
        lookout.look(at(1), || panic!("it is too early"));
        lookout.look(at(2), || Some(Sentence("refused", 1)));
        assert_eq!(report.get(), None);
        lookout.look(at(3), || Some(Sentence("refused", 2)));
        lookout.look(at(4), || Some(Sentence("refused", 3)));
        assert_eq!(report.get(), Some(Sentence("refused", 3)));
        lookout.look(at(5), || Some(Sentence("reset", 4)));
        lookout.set_busy(at(6), true);
        lookout.set_busy(at(6), false);
        assert_eq!((report.get(), lookout.deadline()), (None, None));
        assert_eq!(*reported.lock().unwrap(), [Some("refused".into()), Some("reset".into()), None]);
    }

    #[test]
    fn a_client_that_nobody_drove_is_not_said_to_wait() {
        let report = Report::default();
        let mut lookout = Lookout::new(report.clone(), None);
        lookout.set_busy(at(0), true);
        lookout.look(at(9), || panic!("the replies may be there"));
        assert_eq!((report.get(), lookout.deadline()), (None, Some(at(10))));
        lookout.look(at(10), || Some(Sentence("unanswered", 10)));
        assert!(report.get().is_some());
    }
}
