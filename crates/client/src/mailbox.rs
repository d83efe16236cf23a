use onego_engine::Waker;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{self, Poll};

/// Most commands queued for the reactor; senders of more wait. Deep enough that a woken reactor finds a full batch of
/// work, small enough that the queue stays short compared with the requests in flight.
const CAPACITY: usize = 1024;

#[derive(Debug)]
pub(crate) struct Closed;

pub(crate) struct Mailbox<C> {
    state: Mutex<MailboxState<C>>,
    reactor: OnceLock<Waker>,
    sweep: AtomicBool,
}

struct MailboxState<C> {
    commands: VecDeque<C>,
    senders: BTreeMap<u64, task::Waker>,
    last_sender: u64,
    closed: bool,
}

/// A command waiting for room in the mailbox.
struct Sending<'a, C> {
    mailbox: &'a Mailbox<C>,
    command: Option<C>,
    number: Option<u64>,
}

impl<C> Sending<'_, C> {
    fn poll(&mut self, cx: &task::Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.mailbox.lock();
        if state.closed {
            return Poll::Ready(Err(Closed));
        }
        if state.commands.len() >= CAPACITY {
            let number = *self.number.get_or_insert_with(|| {
                state.last_sender += 1;
                state.last_sender
            });
            // One waker per sender, however often it is polled; the newest counts.
            state.senders.insert(number, cx.waker().clone());
            return Poll::Pending;
        }
        state.senders.remove(&self.number.take().unwrap_or_default());
        state.commands.extend(self.command.take());
        Poll::Ready(Ok(()))
    }
}

impl<C> Drop for Sending<'_, C> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.mailbox.lock();
        if state.senders.remove(&number).is_some() || state.commands.len() >= CAPACITY {
            return;
        }
        // This sender was woken for room that it no longer needs: pass the wake-up on.
        let next = state.senders.pop_first();
        drop(state);
        if let Some((_, next)) = next {
            next.wake();
        }
    }
}

impl<C> Mailbox<C> {
    pub(crate) fn new() -> Self {
        let state = MailboxState {
            commands: VecDeque::new(),
            senders: BTreeMap::new(),
            last_sender: 0,
            closed: false,
        };
        Self { state: Mutex::new(state), reactor: OnceLock::new(), sweep: AtomicBool::new(false) }
    }

    pub(crate) fn set_reactor(&self, waker: Waker) {
        // One reactor drives the mailbox for its whole life; a second call changes nothing.
        let _ = self.reactor.set(waker);
    }

    fn lock(&self) -> MutexGuard<'_, MailboxState<C>> {
        // No code panics in the middle of a change, so a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command; waits while the mailbox is full.
    pub(crate) async fn send(&self, command: C) -> Result<(), Closed> {
        let mut sending = Sending { mailbox: self, command: Some(command), number: None };
        poll_fn(|cx| sending.poll(cx)).await?;
        self.wake_reactor();
        Ok(())
    }

    /// Adds a command without waiting, even if the mailbox is full. The number of such commands is bounded: at most
    /// one for each opened item (opening goes through [`send`](Self::send)), one for each notification (each watch
    /// holds a bounded number), and requests that their caller bounds.
    #[cfg_attr(not(feature = "ceph"), expect(dead_code, reason = "the NFS client has nothing to close"))]
    pub(crate) fn post(&self, command: C) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.commands.push_back(command);
        drop(state);
        self.wake_reactor();
    }

    /// Requests a sweep of abandoned requests by the reactor.
    pub(crate) fn ask_sweep(&self) {
        if !self.sweep.swap(true, Ordering::AcqRel) {
            self.wake_reactor();
        }
    }

    /// Returns whether a sweep was requested since the last call.
    #[inline]
    pub(crate) fn take_sweep(&self) -> bool {
        self.sweep.load(Ordering::Relaxed) && self.sweep.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn wake_reactor(&self) {
        if let Some(reactor) = self.reactor.get() {
            reactor.wake();
        }
    }

    pub(crate) fn take(&self) -> Option<C> {
        let mut state = self.lock();
        let command = state.commands.pop_front()?;
        let sender = state.senders.pop_first();
        drop(state);
        if let Some((_, sender)) = sender {
            sender.wake();
        }
        Some(command)
    }

    /// Refuses all further commands and drops queued ones, which their senders observe.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (commands, senders) = (std::mem::take(&mut state.commands), std::mem::take(&mut state.senders));
        drop(state);
        drop(commands);
        senders.into_values().for_each(task::Waker::wake);
        self.wake_reactor();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counter() -> (Arc<Count>, task::Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), task::Waker::from(count))
    }

    fn full() -> Mailbox<usize> {
        let mailbox = Mailbox::new();
        (0..CAPACITY).for_each(|n| mailbox.post(n));
        mailbox
    }

    #[test]
    fn a_repeatedly_polled_sender_waits_once() {
        let mailbox = full();
        let (woken, waker) = counter();
        let mut sending = pin!(mailbox.send(CAPACITY));
        for _ in 0..1000 {
            assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(mailbox.lock().senders.len(), 1);
        assert_eq!(mailbox.take(), Some(0));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!(mailbox.lock().senders.len(), 0);
        assert_eq!(mailbox.lock().commands.back(), Some(&CAPACITY));
    }

    #[test]
    fn a_dropped_sender_leaves_nothing_behind_and_passes_its_turn_on() {
        let mailbox = full();
        let ((first_woken, first), (second_woken, second)) = (counter(), counter());
        let mut waits = Box::pin(mailbox.send(1));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&first)).is_pending());
        drop(waits);
        assert_eq!(mailbox.lock().senders.len(), 0, "a dropped sender leaves no waker");

        let mut leaves = Box::pin(mailbox.send(2));
        let mut stays = Box::pin(mailbox.send(3));
        assert!(leaves.as_mut().poll(&mut Context::from_waker(&first)).is_pending());
        assert!(stays.as_mut().poll(&mut Context::from_waker(&second)).is_pending());
        mailbox.take();
        assert_eq!(first_woken.0.load(Ordering::Relaxed), 1);
        drop(leaves);
        assert_eq!(second_woken.0.load(Ordering::Relaxed), 1, "the next sender gets the room");
        assert!(stays.as_mut().poll(&mut Context::from_waker(&second)).is_ready());
    }
}
