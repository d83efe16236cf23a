//! The watches that a handle of a cluster has, and the callbacks that tell its program what happens to them.

use crate::border::{Errno, Opaque};
use crate::runtime::{Callbacks, block_on, lock, next_of, spawn};
use onego::rados::{Notification, Watch, WatchEvent, WatchMonitor};
use onego_buf::List;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Told of a notification: the program's argument, the notification's number, the watch's, the sender's, and what it says
/// (`rados_watchcb2_t`).
pub(super) type Notify = extern "C" fn(Opaque, u64, u64, u64, *const c_void, usize);

/// Told of the end of a watch (`rados_watcherrcb_t`).
pub(super) type Fail = Option<extern "C" fn(Opaque, u64, c_int)>;

/// Told of a notification, which is acknowledged by itself (`rados_watchcb_t`).
pub(super) type NotifyOld = extern "C" fn(u8, u64, Opaque);

/// How a program is told.
#[derive(Clone, Copy)]
pub(super) enum Told {
    Callbacks(Notify, Fail),
    Old(NotifyOld),
}

/// A watch of a program's.
struct Watched {
    /// `None`: it is given up.
    watch: Mutex<Option<Watch>>,
    monitor: WatchMonitor,
    cookie: u64,
    is_lost: AtomicBool,
    told: Told,
    argument: Opaque,
    /// Notifications that were given to the program, and that it has not acknowledged.
    open: Mutex<HashMap<u64, Notification>>,
}

/// The watches of a handle, by their cookies.
#[derive(Default)]
pub(super) struct Watches {
    by_cookie: Mutex<HashMap<u64, Arc<Watched>>>,
}

impl Watches {
    /// Adds a watch, whose cookie is `known` to the program before its first callback.
    pub(super) fn add(
        &self,
        watch: Watch,
        told: Told,
        argument: Opaque,
        callbacks: Arc<Callbacks>,
        known: impl FnOnce(u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let watched = Arc::new(Watched {
            cookie: watch.cookie(),
            monitor: watch.monitor(),
            watch: Mutex::new(Some(watch)),
            is_lost: AtomicBool::new(false),
            told,
            argument,
            open: Mutex::default(),
        });
        known(watched.cookie)?;
        lock(&self.by_cookie).insert(watched.cookie, Arc::clone(&watched));
        spawn(watched.follow(callbacks));
        Ok(())
    }

    fn get(&self, cookie: u64) -> Result<Arc<Watched>, Errno> {
        lock(&self.by_cookie).get(&cookie).cloned().ok_or(Errno::NOTCONN)
    }

    /// Returns how many milliseconds ago the watch was known to hold. Fails if it is lost.
    pub(super) fn check(&self, cookie: u64) -> Result<c_int, Errno> {
        let age = block_on(self.get(cookie)?.monitor.age())?.ok_or(Errno::NOTCONN)?;
        Ok(c_int::try_from(age.as_millis()).unwrap_or(c_int::MAX))
    }

    /// Takes a watch, so that its program is told nothing more; `None`: it was lost.
    pub(super) fn take(&self, cookie: u64) -> Result<Option<Watch>, Errno> {
        let watched = lock(&self.by_cookie).remove(&cookie).ok_or(Errno::NOTCONN)?;
        let watch = watched.end();
        Ok(watch.filter(|_| !watched.is_lost.load(Ordering::Relaxed)))
    }

    /// Gives all of them up.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.by_cookie));
        for watched in all.into_values() {
            drop(watched.end());
        }
    }

    /// Acknowledges a notification.
    pub(super) fn acknowledge(&self, cookie: u64, notification: u64, reply: List) -> Result<(), Errno> {
        let watched = self.get(cookie)?;
        let notification = lock(&watched.open).remove(&notification).ok_or(Errno::NOENT)?;
        notification.acknowledge(reply);
        Ok(())
    }
}

impl Watched {
    /// Tells the program what happens, until the watch ends.
    async fn follow(self: Arc<Self>, callbacks: Arc<Callbacks>) {
        while let Some(event) = next_of(&self.watch, Watch::next).await {
            let watched = Arc::clone(&self);
            match event {
                WatchEvent::Notify(notification) => callbacks.call(move || watched.notified(notification)),
                WatchEvent::Lost => {
                    self.is_lost.store(true, Ordering::Relaxed);
                    callbacks.call(move || watched.failed());
                }
            }
        }
    }

    fn notified(&self, notification: Notification) {
        match self.told {
            Told::Old(notify) => notify(0, 0, self.argument),
            Told::Callbacks(notify, _) => {
                let (id, notifier) = (notification.id(), notification.notifier());
                let payload = notification.payload().to_segment();
                lock(&self.open).insert(id, notification);
                notify(self.argument, id, self.cookie, notifier, payload.as_ptr().cast(), payload.len());
            }
        }
    }

    fn failed(&self) {
        if let Told::Callbacks(_, Some(fail)) = self.told {
            fail(self.argument, self.cookie, Errno::NOTCONN.negative());
        }
    }

    /// The program is told nothing more. What it has not acknowledged is acknowledged now.
    fn end(&self) -> Option<Watch> {
        let watch = lock(&self.watch).take();
        lock(&self.open).clear();
        watch
    }
}
