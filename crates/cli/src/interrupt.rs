//! The end of a command by a signal: at the first one, at every stage, with a word on what is left behind.
//!
//! A thread waits for the signals. Where nothing has to be wound down it ends the program right away. Where a command has
//! something open that the cluster should be told of, the command's thread is woken and ends by itself; if it makes no
//! progress for [`GRACE`], or a second signal comes, the program ends all the same.

use crate::failure::Failure;
use crate::names;
use crate::signal;
use signal_hook::consts::SIGPIPE;
use signal_hook::iterator::Signals;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How long a command that winds down may make no progress: a cluster that answers does within a fraction of it.
const GRACE: Duration = Duration::from_secs(3);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Raised with the first signal, for those who look at a flag.
static STOP: AtomicBool = AtomicBool::new(false);

/// The signals are somebody else's now.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// A command was ended in the middle of its work.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Grows with all that is done while a command winds down.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

static STATE: Mutex<SignalState> = Mutex::new(SignalState { waker: None, unfinished: Vec::new(), next: 0 });

/// What the thread of the signals has to know of the command.
struct SignalState {
    /// Wakes the command's thread from where it waited last.
    waker: Option<Waker>,
    unfinished: Vec<UnfinishedEntry>,
    next: u64,
}

struct UnfinishedEntry {
    number: u64,
    winds_down: bool,
    /// Clears up what can be, and says what is left.
    left: Box<dyn FnOnce() -> Option<String> + Send>,
}

fn state() -> MutexGuard<'static, SignalState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the program by the signals from here on.
pub(crate) fn watch() -> Result<(), Failure> {
    let signals = Signals::new(signal::ending()).map_err(Failure::io("listening to signals"))?;
    let thread = thread::Builder::new().name("onego-signals".into());
    thread.spawn(move || wait(signals)).map(drop).map_err(Failure::io("listening to signals"))
}

fn wait(mut signals: Signals) {
    for signal in signals.forever() {
        if HANDED_OVER.load(Ordering::SeqCst) {
            return;
        }
        // The second ends everything.
        if signal::heard() != 0 || !raise(signal) {
            end();
        }
        // Without a thread for it there is no patience either.
        let watch = thread::Builder::new().spawn(end_without_progress);
        if watch.is_err() {
            end();
        }
    }
}

/// Asks the command to wind down, as a signal does. False: there is nothing that would have to be.
fn raise(signal: i32) -> bool {
    signal::note(signal);
    STOP.store(true, Ordering::SeqCst);
    let mut state = state();
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
    state.unfinished.iter().any(|entry| entry.winds_down)
}

fn end_without_progress() {
    let (mut seen, mut since) = (PROGRESS.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < GRACE {
        thread::sleep(LOOK);
        let now = PROGRESS.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    end()
}

/// Ends the program, and says what is left behind.
fn end() -> ! {
    let unfinished = std::mem::take(&mut state().unfinished);
    unfinished.into_iter().filter_map(|entry| (entry.left)()).for_each(|left| say(&left));
    std::process::exit(signal::exit_code().into())
}

/// Says a line on standard error, in place of a bar that may be there.
pub(crate) fn say(line: &str) {
    say_as_it_is(&format!("onego: {line}"));
}

/// The same with the words of another program.
pub(crate) fn say_as_it_is(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let on_terminal = stderr.is_terminal();
    let clear = if on_terminal { "\r\x1b[K" } else { "" };
    // Standard error may be closed: then the words are lost.
    let _ = write!(stderr, "{clear}").and_then(|()| names::write_line(&mut stderr, line, on_terminal));
}

/// Has a signal asked the command to end?
pub(crate) fn is_heard() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Ends a measurement whose results nobody reads any more.
pub(crate) fn raise_unread() {
    raise(SIGPIPE);
}

/// Raised by the first signal.
pub(crate) fn stop() -> &'static AtomicBool {
    &STOP
}

/// Fails if a signal has asked the command to end.
pub(crate) fn check() -> Result<(), Failure> {
    if is_heard() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Something was done towards the end.
pub(crate) fn progress() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// Leaves the signals to a server that waits for them itself.
pub(crate) fn hand_over() {
    HANDED_OVER.store(true, Ordering::SeqCst);
}

/// Runs a future until it is done or a signal comes.
pub(crate) async fn unless<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        // First, so that no signal comes between the look and the sleep.
        state().waker = Some(context.waker().clone());
        if is_heard() {
            return Poll::Ready(Err(Failure::Interrupted));
        }
        future.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Runs the work of a command that has a client of a cluster. A signal ends the work, and the command goes on to end its client:
/// the cluster then keeps no watch and no lock for it. Work that [winds down](Unfinished::winding_down) by itself is waited for.
pub(crate) async fn unless_handled<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let own = Unfinished::winding_down(|| None);
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let is_handled = {
            let mut state = state();
            state.waker = Some(context.waker().clone());
            state.unfinished.iter().any(|entry| entry.winds_down && entry.number != own.number)
        };
        if is_heard() && !is_handled {
            CUT_SHORT.store(true, Ordering::SeqCst);
            return Poll::Ready(Err(Failure::Interrupted));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Something that is not finished, as long as this lives.
pub(crate) struct Unfinished {
    number: u64,
    /// Its owner says itself what is left where it is dropped.
    is_silent: bool,
}

impl Unfinished {
    /// A signal ends the program or the work at once: then `left` clears up, and says what is left behind.
    pub(crate) fn new(left: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        Self::add(false, false, left)
    }

    /// The same for an owner that does so when it is dropped.
    pub(crate) fn of_owner(left: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        Self::add(false, true, left)
    }

    /// A signal lets the command wind down, as long as that makes progress.
    pub(crate) fn winding_down(left: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        Self::add(true, true, left)
    }

    fn add(
        winds_down: bool,
        is_silent: bool,
        left: impl FnOnce() -> Option<String> + Send + 'static,
    ) -> Self {
        let mut state = state();
        state.next += 1;
        let number = state.next;
        state.unfinished.push(UnfinishedEntry { number, winds_down, left: Box::new(left) });
        Self { number, is_silent }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let entry = {
            let mut state = state();
            let at = state.unfinished.iter().position(|entry| entry.number == self.number);
            at.map(|at| state.unfinished.remove(at))
        };
        if let Some(entry) = entry
            && !self.is_silent
            && CUT_SHORT.load(Ordering::SeqCst)
            && let Some(left) = (entry.left)()
        {
            say(&left);
        }
    }
}
