//! The reactor: drives a client of any protocol, on the thread that owns it or on one of the client's own.

use crate::driver::Driver;
use onego_engine::{Stats, Wait};
use onego_wire::{Machine, Time};
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::Poll;
use std::time::Duration;

/// How long the end of a client may take. Others wait for half a minute for a watch that was not given up, and a peer
/// that can be reached answers at once.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// What a reactor has to know of the client that it drives.
pub trait Core: Machine {
    /// A tagged request that is done with.
    type Completed;
    /// Why the client fails.
    type Error: From<EngineFailed> + std::fmt::Display;

    /// May another tagged request be started without making anything grow?
    fn has_room(&self) -> bool;

    /// The next tagged request that is done with.
    fn next_completed(&mut self) -> Option<Self::Completed>;

    /// Are all handles gone, and is nothing in flight?
    fn is_over(&self) -> bool;

    /// Refuses all further commands.
    fn close(&self);

    /// Gives up what the peer would otherwise keep for a client that is gone.
    fn say_farewell(&mut self, _now: Time) {}

    /// Is there still something that the peer keeps?
    fn is_leaving(&self) -> bool {
        false
    }
}

/// The event engine failed: the reactor is of no use after it.
#[derive(Debug)]
pub struct EngineFailed {
    /// What was tried.
    pub(crate) what: &'static str,
    /// The system's answer.
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

/// A client that is driven by the thread that owns it: no other thread, no wake-ups, no locks on the way of a request.
///
/// Its names in use are [`ceph::Reactor`](crate::ceph::Reactor) and [`nfs::Reactor`](crate::nfs::Reactor), which say how
/// one is made and what can be submitted. Two ways to use it, which mix: [`block_on`](Self::block_on) runs any future of
/// this crate's API and drives the client meanwhile; or requests are submitted with a tag, and [`turn`](Self::turn) and
/// [`completion`](Self::completion) say which tags are done.
pub struct Reactor<C: Core> {
    driver: Driver<C>,
}

impl<C: Core> Reactor<C> {
    pub(crate) fn over(driver: Driver<C>) -> Self {
        Self { driver }
    }

    /// The client, to be given work, and the time for it.
    pub(crate) fn core(&mut self) -> (&mut C, Time) {
        let now = self.driver.now();
        (self.driver.machine_mut(), now)
    }

    /// Moves what can be moved, and sleeps as `wait` allows if there is nothing to do. An error is one of the event
    /// engine; the reactor is of no use after it.
    pub fn turn(&mut self, wait: Wait) -> Result<(), C::Error> {
        self.driver.turn(wait).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// What the engine has done so far: system calls and bytes.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// Runs a future to its end, driving the client meanwhile. An error is one of the event engine.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, C::Error> {
        self.driver.block_on(future).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// May another request be submitted?
    pub fn has_room(&self) -> bool {
        self.driver.machine().has_room()
    }

    /// The next tagged request that is done with.
    pub fn completion(&mut self) -> Option<C::Completed> {
        self.driver.machine_mut().next_completed()
    }

    /// Drives the client on a runtime, instead of a thread, until all its handles are gone. `wait` is the runtime's way to
    /// wait: until the descriptor is readable, or until the time is over if there is one; to return earlier does no harm.
    ///
    /// The future has to stay on the thread on which the reactor was made (`spawn_local`, or beside the program's own
    /// futures). An error is one of the event engine or of `wait`. Dropping the future ends the client, as dropping the
    /// reactor does.
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
    /// The example `on_tokio` is a whole program, and `on_smol` another.
    ///
    /// It takes the engine epoll, which is the default: over another it fails at once, with an I/O error of the kind
    /// `Unsupported`. A ring whose completions are deferred until its owner enters the kernel does not become readable when
    /// one is there.
    pub async fn drive<W>(mut self, mut wait: W) -> Result<(), C::Error>
    where
        W: AsyncFnMut(BorrowedFd<'_>, Option<Duration>) -> io::Result<()>,
    {
        while !self.driver.machine().is_over() {
            self.turn(Wait::Poll)?;
            match self.driver.sleep_elsewhere().map_err(EngineFailed::waiting)? {
                Some((descriptor, most)) => wait(descriptor, most).await.map_err(EngineFailed::waiting)?,
                // The other futures of this thread have their turn, too.
                None => yield_now().await,
            }
        }
        Ok(())
    }

    /// Drives the client until its handles are gone. `after_turn` is called after each turn, and once more when all that was asked for
    /// has been told.
    pub(crate) fn run(mut self, after_turn: impl Fn()) {
        while !self.driver.machine().is_over() {
            let turned = self.turn(Wait::Forever);
            after_turn();
            if let Err(error) = turned {
                tracing::error!(%error, "the reactor stops");
                break;
            }
        }
        drop(self);
        after_turn();
    }
}

/// Is ready when it is polled the second time.
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
    /// Ends the client. What the peer would keep is given up, for which at most a second is waited.
    fn drop(&mut self) {
        self.driver.machine().close();
        let now = self.driver.now();
        self.driver.machine_mut().say_farewell(now);
        let until = now + FAREWELL;
        while self.driver.machine().is_leaving() && self.driver.now() < until {
            if self.driver.turn(Wait::Until(until)).is_err() {
                return;
            }
        }
    }
}
