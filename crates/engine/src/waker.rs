//! Wake-ups of a sleeping event loop, without a system call while the loop is awake.
//!
//! One atomic word holds the loop's state, so no order of events loses a wake-up. All changes of one word have one
//! total order; each is a read-modify-write. Take a [`Waker::wake`] (W) that follows a change of data the loop has to
//! see:
//! - The loop's step to `ASLEEP` (S) precedes W: W reads `ASLEEP` and writes to the eventfd, on which the loop sleeps
//!   or is about to sleep.
//! - W precedes S: S is a compare-exchange from `AWAKE`, finds `NOTIFIED` instead, and the loop does not sleep.
//!
//! In both cases the loop's next step is a swap to `AWAKE` that reads `NOTIFIED`. It acquires what W released (a swap
//! by another waker in between continues the release sequence), so the loop sees the changed data.
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

// Loom tries all orders of events: `cargo xtask sanitize`.
#[cfg(loom)]
use loom::sync::{Arc, atomic::AtomicU8};
use std::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::{Arc, atomic::AtomicU8};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    /// `None` for a loop that never sleeps in the kernel.
    eventfd: Option<OwnedFd>,
}

/// Wakes an event loop from any thread. Costs no system call while the loop is awake.
#[derive(Debug, Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// Makes the loop run once more; it then sees all changes made before this call.
    pub fn wake(&self) {
        if self.shared.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
            && let Some(eventfd) = &self.shared.eventfd
        {
            // Each write adds 1 to a 64-bit counter that is never reset: it cannot overflow and fail.
            let written = rustix::io::write(eventfd, &1u64.to_ne_bytes());
            debug_assert_eq!(written, Ok(8), "an eventfd takes a write");
        }
    }
}

/// The loop's side of a [`Waker`].
#[derive(Debug)]
pub struct Sleeper {
    shared: Arc<Shared>,
}

impl Sleeper {
    /// Creates the side of a loop that sleeps in the kernel, on [`Self::eventfd`].
    pub fn new() -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::from_eventfd(Some(eventfd)))
    }

    /// Creates the side of a loop that never sleeps in the kernel.
    pub fn sleepless() -> Self {
        Self::from_eventfd(None)
    }

    fn from_eventfd(eventfd: Option<OwnedFd>) -> Self {
        Self { shared: Arc::new(Shared { state: AtomicU8::new(AWAKE), eventfd }) }
    }

    /// Returns the eventfd that becomes readable, one edge for each wake-up of a sleeping loop.
    pub fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.shared.eventfd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the other side.
    pub fn waker(&self) -> Waker {
        Waker { shared: Arc::clone(&self.shared) }
    }

    /// Marks the loop as about to sleep. Returns `false` if it was woken in the meantime and must not sleep.
    pub fn fall_asleep(&self) -> bool {
        self.shared.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns whether the loop was woken since it last [woke up](Self::wake_up).
    pub fn is_woken(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Marks the loop as awake. Returns `true` if a waker woke it.
    pub fn wake_up(&self) -> bool {
        // Usually there was no wake-up, and this load avoids exclusive access to the word.
        self.shared.state.load(Ordering::Relaxed) != AWAKE
            && self.shared.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn count(sleeper: &Sleeper) -> u64 {
        let mut counter = [0; 8];
        match rustix::io::read(sleeper.eventfd().unwrap(), &mut counter) {
            Ok(_) => u64::from_ne_bytes(counter),
            Err(_) => 0,
        }
    }

    #[test]
    fn only_the_first_wake_of_a_sleeping_loop_enters_the_kernel() {
        let sleeper = Sleeper::new().unwrap();
        let waker = sleeper.waker();
        waker.wake();
        assert_eq!(count(&sleeper), 0, "the loop was awake");
        assert!(!sleeper.fall_asleep());
        assert!(sleeper.wake_up());
        assert!(!sleeper.wake_up());

        assert!(sleeper.fall_asleep());
        waker.wake();
        waker.wake();
        assert_eq!(count(&sleeper), 1);
        assert!(sleeper.wake_up());
    }

    #[test]
    fn a_loop_that_wakes_by_itself_was_not_woken() {
        let sleeper = Sleeper::new().unwrap();
        assert!(sleeper.fall_asleep());
        assert!(!sleeper.wake_up());
        sleeper.waker().wake();
        assert_eq!(count(&sleeper), 0);
    }
}

#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Sleeps as an engine does, except that it yields to loom's scheduler.
    fn sleep(sleeper: &Sleeper) {
        if sleeper.fall_asleep() {
            let eventfd = sleeper.eventfd().unwrap();
            while rustix::io::read(eventfd, &mut [0; 8]).is_err() {
                thread::yield_now();
            }
        }
        sleeper.wake_up();
    }

    #[test]
    fn no_order_of_events_loses_a_wake_up_or_its_data() {
        const WAKERS: usize = 2;
        let mut model = loom::model::Builder::new();
        // Every order with at most three forced switches. Two show nearly all faults; without a bound this takes
        // minutes.
        model.preemption_bound = Some(3);
        model.check(|| {
            let sleeper = Sleeper::new().unwrap();
            let work = Arc::new(AtomicUsize::new(0));
            for _ in 0..WAKERS {
                let (waker, work) = (sleeper.waker(), Arc::clone(&work));
                thread::spawn(move || {
                    work.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                });
            }
            // A lost wake-up is a sleep that does not end, which loom reports as a failure.
            while work.load(Ordering::Relaxed) < WAKERS {
                sleep(&sleeper);
            }
        });
    }
}
