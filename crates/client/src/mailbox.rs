//! How other threads hand work to the reactor.

use onego_engine::Waker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{self, Poll};

/// Most commands that wait for the reactor; who wants to add one more waits itself. Deep enough that a reactor which
/// wakes up finds a full batch of work, small enough that what waits here is little beside what is in flight.
const CAPACITY: usize = 1024;

/// The reactor is gone, or its handles are.
#[derive(Debug)]
pub(crate) struct Closed;

/// Commands on their way to the reactor, in order.
pub(crate) struct Mailbox<C> {
    state: Mutex<State<C>>,
    reactor: OnceLock<Waker>,
    /// Somebody has stopped waiting for an answer.
    sweep: AtomicBool,
}

struct State<C> {
    commands: VecDeque<C>,
    senders: VecDeque<task::Waker>,
    closed: bool,
}

impl<C> Mailbox<C> {
    pub(crate) fn new() -> Self {
        let state = State { commands: VecDeque::new(), senders: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), reactor: OnceLock::new(), sweep: AtomicBool::new(false) }
    }

    /// Says whom to wake when a command arrives.
    pub(crate) fn set_reactor(&self, waker: Waker) {
        // There is one reactor for the mailbox's whole life; a second call changes nothing.
        let _ = self.reactor.set(waker);
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // No code panics between the two halves of a change, so a poisoned state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command, waiting while the mailbox is full.
    pub(crate) async fn send(&self, command: C) -> Result<(), Closed> {
        let mut command = Some(command);
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.closed {
                return Poll::Ready(Err(Closed));
            }
            if state.commands.len() >= CAPACITY {
                state.senders.push_back(cx.waker().clone());
                return Poll::Pending;
            }
            state.commands.extend(command.take());
            Poll::Ready(Ok(()))
        })
        .await?;
        self.wake_reactor();
        Ok(())
    }

    /// Adds a command that nobody waits for. It goes in even if the mailbox is full: there is at most one for each
    /// thing that was opened, and what was opened has passed by [`send`](Self::send).
    pub(crate) fn post(&self, command: C) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.commands.push_back(command);
        drop(state);
        self.wake_reactor();
    }

    /// Has the reactor look for requests that nobody waits for any more.
    pub(crate) fn ask_sweep(&self) {
        if !self.sweep.swap(true, Ordering::AcqRel) {
            self.wake_reactor();
        }
    }

    /// Is it to look for them? If so, it is told once.
    #[inline]
    pub(crate) fn take_sweep(&self) -> bool {
        self.sweep.load(Ordering::Relaxed) && self.sweep.swap(false, Ordering::AcqRel)
    }

    fn wake_reactor(&self) {
        if let Some(reactor) = self.reactor.get() {
            reactor.wake();
        }
    }

    /// Takes the oldest command.
    pub(crate) fn take(&self) -> Option<C> {
        let mut state = self.lock();
        let command = state.commands.pop_front()?;
        let sender = state.senders.pop_front();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
        Some(command)
    }

    /// Refuses all further commands and drops those that wait: their senders see that.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (commands, senders) = (std::mem::take(&mut state.commands), std::mem::take(&mut state.senders));
        drop(state);
        drop(commands);
        senders.into_iter().for_each(task::Waker::wake);
        self.wake_reactor();
    }

    /// Has [`close`](Self::close) been called?
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}
