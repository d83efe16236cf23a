//! The thread that calls programs back.
//!
//! There is one for the process, so no two callbacks run at a time, as librbd promises for an image. It is not a reactor's: a
//! callback may make calls that wait for one.

use super::lock::lock;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// What is to be called, in order.
pub(crate) struct Callbacks {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_waiting: bool,
}

thread_local! {
    /// Does this thread say when a turn has ended?
    static ENDS_TURNS: Cell<bool> = const { Cell::new(false) };
}

/// The thread of a process; a fork begins its own.
static THREAD: Mutex<Option<(u32, Arc<Callbacks>)>> = Mutex::new(None);

impl Callbacks {
    /// Those of this process; the first call starts the thread.
    pub(crate) fn of_process() -> std::io::Result<Arc<Self>> {
        let mut thread = lock(&THREAD);
        let process = std::process::id();
        match &*thread {
            Some((owner, callbacks)) if *owner == process => Ok(Arc::clone(callbacks)),
            _ => {
                let callbacks = Arc::new(Self { queue: Mutex::default(), changed: Condvar::new() });
                let running = Arc::clone(&callbacks);
                thread::Builder::new().name("onego-callbacks".into()).spawn(move || running.run())?;
                // What a parent had is left where it is: its locks may be held by threads that are not here.
                std::mem::forget(thread.replace((process, Arc::clone(&callbacks))));
                Ok(callbacks)
            }
        }
    }

    /// Has something called.
    pub(crate) fn call(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(Box::new(job));
        if !ENDS_TURNS.get() {
            self.wake(queue);
        }
    }

    /// Has called what this thread has added since it last ended a turn. From now on nothing else of it is called before that: to wake
    /// the other thread costs more than most callbacks, and it would take the processor from this one.
    pub(crate) fn end_turn(&self) {
        ENDS_TURNS.set(true);
        let queue = lock(&self.queue);
        if !queue.jobs.is_empty() {
            self.wake(queue);
        }
    }

    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let is_waiting = std::mem::take(&mut queue.is_waiting);
        drop(queue);
        if is_waiting {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            let jobs = std::mem::take(&mut queue.jobs);
            if jobs.is_empty() {
                queue.is_waiting = true;
                queue = self.changed.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            }
            drop(queue);
            for job in jobs {
                // One that panics is one of ours; the others have to be called all the same.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
            queue = lock(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn what_a_turn_has_called_is_called_when_it_has_ended() {
        let callbacks = Callbacks::of_process().unwrap();
        let (told, calls) = mpsc::channel();
        let reactor = thread::spawn(move || {
            callbacks.end_turn();
            for turn in 0..1000 {
                for call in 0..turn % 3 {
                    let told = told.clone();
                    callbacks.call(move || told.send((turn, call)).unwrap());
                }
                callbacks.end_turn();
                for call in 0..turn % 3 {
                    assert_eq!(calls.recv_timeout(Duration::from_secs(10)), Ok((turn, call)));
                }
            }
        });
        reactor.join().unwrap();
    }
}
