//! Tells callers what a client waits for, once that takes long.

use onego_ceph::client::{Awaited, Waiting};
use onego_wire::Time;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Waiting that takes less is not worth a word: a new map of the cluster takes about a second to spread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two looks at what is waited for. A look walks over all requests in flight.
const INTERVAL: Duration = Duration::from_secs(1);

/// Called when a client has waited for two seconds, when it waits for something else or for another reason, and with
/// `None` when it goes on. It is called on the thread that drives the client, and must not block.
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
#[derive(Clone)]
pub struct WaitingHook(Arc<Hook>);

type Hook = dyn Fn(Option<&Waiting>) + Send + Sync;

impl WaitingHook {
    /// A hook that calls `hook`.
    pub fn new(hook: impl Fn(Option<&Waiting>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl fmt::Debug for WaitingHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitingHook")
    }
}

/// The newest report, which other threads may look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report(Arc<Mutex<Option<Waiting>>>);

impl Report {
    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<Waiting> {
        self.lock().clone()
    }
}

/// Looks now and then whether a client that has something to do gets on with it.
#[derive(Debug)]
pub(crate) struct Lookout {
    /// When to look next; `None`: there is nothing to wait for.
    look_at: Option<Time>,
    /// What was told last.
    told: Option<(Awaited, Option<String>)>,
    report: Report,
    hook: Option<WaitingHook>,
}

impl Lookout {
    pub(crate) fn new(report: Report, hook: Option<WaitingHook>) -> Self {
        Self { look_at: None, told: None, report, hook }
    }

    /// Says whether the client has anything to do.
    #[inline]
    pub(crate) fn heed(&mut self, now: Time, is_busy: bool) {
        if is_busy != self.look_at.is_some() {
            self.look_at = is_busy.then(|| now + PATIENCE);
            if !is_busy {
                self.tell(None);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, now: Time, waiting: impl FnOnce() -> Option<Waiting>) {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = Some(now + INTERVAL);
            self.tell(waiting().filter(|waiting| waiting.elapsed >= PATIENCE));
        }
    }

    fn tell(&mut self, waiting: Option<Waiting>) {
        if waiting.is_none() && self.told.is_none() {
            return;
        }
        let news = waiting
            .as_ref()
            .map(|waiting| (waiting.target.clone(), waiting.cause.as_ref().map(ToString::to_string)));
        self.report.lock().clone_from(&waiting);
        if news == self.told {
            return;
        }
        self.told = news;
        match &waiting {
            Some(waiting) => tracing::info!(elapsed = ?waiting.elapsed, "{waiting}"),
            None => tracing::info!("the client goes on"),
        }
        if let Some(WaitingHook(hook)) = &self.hook {
            hook(waiting.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::client::Error;
    use std::io::ErrorKind;

    /// What `Client::waiting` would say.
    fn waiting(elapsed: u64, kind: ErrorKind) -> Option<Waiting> {
        Some(Waiting::new(Awaited::MonitorReply, Duration::from_secs(elapsed), Some(Error::Io(kind))))
    }

    #[test]
    fn news_are_told_once_and_only_after_two_seconds() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let hook = WaitingHook::new(move |waiting| {
            log.lock().unwrap().push(waiting.map(ToString::to_string));
        });
        let report = Report::default();
        let mut lookout = Lookout::new(report.clone(), Some(hook));
        let at = |seconds| Time::default() + Duration::from_secs(seconds);
        lookout.heed(at(0), true);
        lookout.look(at(1), || panic!("it is too early"));
        lookout.look(at(2), || waiting(1, ErrorKind::ConnectionRefused));
        assert_eq!(report.get(), None);
        lookout.look(at(3), || waiting(2, ErrorKind::ConnectionRefused));
        lookout.look(at(4), || waiting(3, ErrorKind::ConnectionRefused));
        assert_eq!(report.get().unwrap().elapsed, Duration::from_secs(3));
        lookout.look(at(5), || waiting(4, ErrorKind::ConnectionReset));
        lookout.heed(at(6), true);
        lookout.heed(at(6), false);
        assert_eq!((report.get(), lookout.deadline()), (None, None));
        let told = told.lock().unwrap();
        let [Some(first), Some(second), None] = &told[..] else { panic!("{told:?}") };
        assert!(first.contains("refused") && second.contains("reset"), "{told:?}");
    }
}
