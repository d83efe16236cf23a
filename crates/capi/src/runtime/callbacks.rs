//! The thread that calls programs back.
//!
//! There is one for the process, so no two callbacks run at a time, as librbd promises for an image. It is not a reactor's: a
//! callback may make calls that wait for one.

use super::lock::lock;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
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
