//! Reactor that drives a client of any protocol, on its owner's thread or on one of the client.

use crate::driver::Driver;
use onego_engine::{Stats, Wait};
use onego_wire::{Machine, Time};
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::Poll;
use std::time::Duration;

/// Limit on the shutdown of a client. An unreleased watch makes other clients wait for half a minute; a reachable
/// peer answers at once.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Interface between the reactor and the client that it drives.
pub trait Core: Machine {
    /// A completed tagged request.
    type Completed;
    /// Error type of the client.
    type Error: From<EngineFailed> + std::fmt::Display;

    /// Returns whether another tagged request can start without growing any queue.
    fn has_room(&self) -> bool;

    fn next_completed(&mut self) -> Option<Self::Completed>;

    /// Returns whether all handles are gone and nothing is in flight.
    fn is_over(&self) -> bool;

    fn close(&self);

    /// Starts releasing state that the peer would otherwise keep for a dead client.
    fn shut_down(&mut self, _now: Time) {}

    fn is_leaving(&self) -> bool {
        false
    }
}

/// The event engine failed, which makes the reactor unusable.
#[derive(Debug)]
pub struct EngineFailed {
    pub(crate) what: &'static str,
    pub(crate) source: io::Error,
}

impl EngineFailed {
    pub(crate) fn opening(source: io::Error) -> Self {
        Self { what: "opening the event engine", source }
    }

    pub(crate) fn waiting(source: io::Error) -> Self {
        Self { what: "waiting for events", source }
    }
}

/// A client driven by the thread that owns it: no second thread, no wake-ups, no locks on the path of a request.
///
/// Use it as [`ceph::Reactor`](crate::ceph::Reactor) or [`nfs::Reactor`](crate::nfs::Reactor), whose docs describe
/// its construction and its requests. Two ways to use it can be mixed: [`block_on`](Self::block_on) runs any future
/// of this crate's API while driving the client; alternatively, submit requests with a tag, call
/// [`turn`](Self::turn), and collect the tags of finished requests with [`completion`](Self::completion).
pub struct Reactor<C: Core> {
    driver: Driver<C>,
}

impl<C: Core> Reactor<C> {
    pub(crate) fn over(driver: Driver<C>) -> Self {
        Self { driver }
    }

    pub(crate) fn core(&mut self) -> (&mut C, Time) {
        let now = self.driver.now();
        (self.driver.machine_mut(), now)
    }

    /// Processes all pending work, and sleeps as `wait` allows if there is none. Fails if the event engine fails; the
    /// reactor is then unusable.
    pub fn turn(&mut self, wait: Wait) -> Result<(), C::Error> {
        self.driver.turn(wait).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Returns the engine's counters of system calls and bytes.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// Runs a future to completion while driving the client. Fails if the event engine fails.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, C::Error> {
        self.driver.block_on(future).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Returns whether another request can be submitted.
    pub fn has_room(&self) -> bool {
        self.driver.machine().has_room()
    }

    /// Removes and returns the next completed tagged request.
    pub fn completion(&mut self) -> Option<C::Completed> {
        self.driver.machine_mut().next_completed()
    }

    /// Drives the client on a runtime, instead of a thread, until all its handles are dropped. `wait` waits by the
    /// runtime's means until the descriptor is readable or the timeout, if any, expires; returning early is harmless.
    ///
    /// The future must stay on the thread that created the reactor (`spawn_local`, or joined with the program's own
    /// futures). Fails if the event engine or `wait` fails. Dropping the future shuts the client down, as dropping
    /// the reactor does.
    ///
    /// With tokio, `wait` is
    ///
    /// ```text
    /// async |descriptor: BorrowedFd<'_>, timeout: Option<Duration>| {
    ///     let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    ///     let timeout = timeout.unwrap_or(Duration::MAX);
    ///     let _ = tokio::time::timeout(timeout, descriptor.readable()).await;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The examples `on_tokio` and `on_smol` are complete programs.
    ///
    /// This requires the epoll engine, the default; other engines fail at once with an I/O error of kind
    /// `Unsupported`. A ring with deferred completions does not become readable when one arrives, because its owner
    /// must enter the kernel first.
    pub async fn drive<W>(mut self, mut wait: W) -> Result<(), C::Error>
    where
        W: AsyncFnMut(BorrowedFd<'_>, Option<Duration>) -> io::Result<()>,
    {
        while !self.driver.machine().is_over() {
            self.turn(Wait::Poll)?;
            match self.driver.sleep_elsewhere().map_err(EngineFailed::waiting)? {
                Some((descriptor, most)) => wait(descriptor, most).await.map_err(EngineFailed::waiting)?,
                // Let the thread's other futures run.
                None => yield_now().await,
            }
        }
        Ok(())
    }

    /// Drives the client until its handles are dropped. Calls `after_turn` after each turn, and once more after all
    /// completions have been delivered.
    pub(crate) fn run(mut self, after_turn: impl Fn()) {
        while !self.driver.machine().is_over() {
            let turned = self.turn(Wait::Forever);
            after_turn();
            if let Err(error) = turned {
                tracing::error!(%error, "the reactor failed");
                break;
            }
        }
        drop(self);
        after_turn();
    }
}

pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<C: Core> Drop for Reactor<C> {
    /// Shuts the client down; waits at most a second to release the peer's state.
    fn drop(&mut self) {
        self.driver.machine().close();
        let now = self.driver.now();
        self.driver.machine_mut().shut_down(now);
        let until = now + SHUTDOWN_TIMEOUT;
        while self.driver.machine().is_leaving() && self.driver.now() < until {
            if self.driver.turn(Wait::Until(until)).is_err() {
                return;
            }
        }
    }
}
