//! Completions: what a program waits on, or is called back by.

use super::callbacks::Callbacks;
use super::lock::lock;
use super::task::Cancel;
use crate::border::{Handle, Opaque};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A program's function for a completion, with the completion and the program's own argument.
pub(crate) type Callback = Option<extern "C" fn(Handle<AioCompletion>, Opaque)>;

/// A completion of librados or librbd. The program holds one reference to it, the request in flight another: so it may be
/// released in its callback, or before.
pub(crate) struct AioCompletion {
    state: Mutex<CompletionState>,
    changed: Condvar,
    /// What it waits for.
    task: OnceLock<Weak<dyn Cancel>>,
    is_cancelled: AtomicBool,
    /// Called in this order.
    callbacks: [Callback; 2],
    pub(crate) argument: Opaque,
}

#[derive(Default)]
struct CompletionState {
    result: Option<i64>,
    is_called_back: bool,
    version: u64,
    waiters: usize,
    /// The image to whose events it belongs.
    events: Option<Arc<Events>>,
}

impl AioCompletion {
    pub(crate) fn new(argument: Opaque, callbacks: [Callback; 2]) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            task: OnceLock::new(),
            is_cancelled: AtomicBool::new(false),
            callbacks,
            argument,
        })
    }

    /// One that nobody is called back by.
    pub(crate) fn plain() -> Arc<Self> {
        Self::new(Opaque(std::ptr::null_mut()), [None, None])
    }

    /// Has it put among an image's events when it completes.
    pub(crate) fn belongs_to(&self, events: Arc<Events>) {
        lock(&self.state).events = Some(events);
    }

    /// Says what it waits for.
    pub(super) fn can_be_ended_by(&self, task: &Arc<dyn Cancel>) {
        // A program that uses a completion twice can cancel what it used it for first.
        let _ = self.task.set(Arc::downgrade(task));
    }

    /// Takes what it waits for back: it completes with ECANCELED, if it is not complete.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.task.get().and_then(Weak::upgrade).into_iter().for_each(|task| task.cancel());
    }

    /// Was it taken back?
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Says which version the object had.
    pub(crate) fn set_version(&self, version: u64) {
        lock(&self.state).version = version;
    }

    pub(crate) fn version(&self) -> u64 {
        lock(&self.state).version
    }

    /// The result, or 0 before there is one.
    pub(crate) fn result(&self) -> i64 {
        lock(&self.state).result.unwrap_or(0)
    }

    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.state).result.is_some()
    }

    pub(crate) fn is_called_back(&self) -> bool {
        lock(&self.state).is_called_back
    }

    /// Waits for the result.
    pub(crate) fn wait(&self) -> i64 {
        self.wait_until(|state| state.result.is_some()).result.unwrap_or(0)
    }

    /// Waits until the callbacks have returned.
    pub(crate) fn wait_called_back(&self) {
        drop(self.wait_until(|state| state.is_called_back));
    }

    fn wait_until(&self, is_so: impl Fn(&CompletionState) -> bool) -> MutexGuard<'_, CompletionState> {
        let mut state = lock(&self.state);
        while !is_so(&state) {
            state.waiters += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiters -= 1;
        }
        state
    }

    fn change(&self, change: impl FnOnce(&mut CompletionState)) {
        let mut state = lock(&self.state);
        change(&mut state);
        let has_waiters = state.waiters > 0;
        drop(state);
        if has_waiters {
            self.changed.notify_all();
        }
    }

    /// The request is done with: the result is there first, then the callbacks run, then its image has an event.
    pub(crate) fn complete(self: Arc<Self>, result: i64, callbacks: &Callbacks) {
        let has_callbacks = self.callbacks.iter().any(Option::is_some);
        self.change(|state| {
            state.result = Some(result);
            state.is_called_back = !has_callbacks;
        });
        if !has_callbacks {
            return self.tell_image();
        }
        callbacks.call(move || {
            for callback in self.callbacks.iter().flatten() {
                callback(Handle::of(&self), self.argument);
            }
            self.change(|state| state.is_called_back = true);
            self.tell_image();
        });
    }

    fn tell_image(self: Arc<Self>) {
        let events = lock(&self.state).events.take();
        if let Some(events) = events {
            events.add(self);
        }
    }
}

/// The completions of an image that its program asks for by a descriptor.
pub(crate) struct Events {
    descriptor: i32,
    completed: Mutex<VecDeque<Arc<AioCompletion>>>,
}

impl Events {
    /// `descriptor`: an eventfd, or the writing end of a pipe.
    pub(crate) fn new(descriptor: i32) -> Self {
        Self { descriptor, completed: Mutex::default() }
    }

    fn add(&self, completion: Arc<AioCompletion>) {
        lock(&self.completed).push_back(completion);
        // SAFETY: the program keeps the descriptor open while the image is.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        // An eventfd takes one number of eight bytes, of which a pipe's reader sees what it likes. One that is full, or closed,
        // is the program's business.
        let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
    }

    /// Takes the oldest of them, at most as many.
    pub(crate) fn take(&self, most: usize) -> Vec<Arc<AioCompletion>> {
        let mut completed = lock(&self.completed);
        let count = completed.len().min(most);
        completed.drain(..count).collect()
    }
}
