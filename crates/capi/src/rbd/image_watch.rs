//! Watches of images, by which programs are told that an image has changed, or that a snapshot of it is about to be made.

use crate::border::{Errno, Opaque};
use crate::runtime::{Callbacks, lock, next_of, spawn};
use onego::rbd::{ImageEvent, ImageWatch, QuiesceRequest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A program's callback for an event; it gets the program's own argument (`rbd_update_callback_t`).
pub(super) type Told = extern "C" fn(Opaque);

/// What a program is told.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// That the header has changed.
    Updates(Told),
    /// That a snapshot is about to be made, and that it is made.
    Quiesce { begin: Told, end: Told },
}

/// A watch of a program's.
struct Watched {
    /// `None`: it is given up.
    watch: Mutex<Option<ImageWatch>>,
    wanted: Wanted,
    argument: Opaque,
    /// What the program has not answered yet.
    open: Mutex<Option<QuiesceRequest>>,
}

/// The watches of a handle, by their numbers.
#[derive(Default)]
pub(super) struct ImageWatches {
    by_cookie: Mutex<HashMap<u64, Arc<Watched>>>,
}

impl ImageWatches {
    /// Adds a watch, whose number is `known` to the program before its first callback.
    pub(super) fn add(
        &self,
        watch: ImageWatch,
        wanted: Wanted,
        argument: Opaque,
        callbacks: Arc<Callbacks>,
        known: impl FnOnce(u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let cookie = watch.cookie();
        known(cookie)?;
        let (watch, open) = (Mutex::new(Some(watch)), Mutex::default());
        let watched = Arc::new(Watched { watch, wanted, argument, open });
        lock(&self.by_cookie).insert(cookie, Arc::clone(&watched));
        spawn(watched.follow(callbacks));
        Ok(())
    }

    /// Takes a watch, so that its program is told nothing more.
    pub(super) fn take(&self, cookie: u64) -> Result<Option<ImageWatch>, Errno> {
        let watched = lock(&self.by_cookie).remove(&cookie).ok_or(Errno::INVAL)?;
        Ok(watched.end())
    }

    /// Gives all of them up.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.by_cookie));
        for watched in all.into_values() {
            drop(watched.end());
        }
    }

    /// The program answers that its writes rest, or why they do not: 0 or a negative errno.
    pub(super) fn answer(&self, cookie: u64, result: i32) -> Result<(), Errno> {
        let watched = lock(&self.by_cookie).get(&cookie).cloned().ok_or(Errno::INVAL)?;
        let request = lock(&watched.open).take().ok_or(Errno::INVAL)?;
        request.answer(if result < 0 { Err(onego::ceph::Errno(-result)) } else { Ok(()) });
        Ok(())
    }
}

impl Watched {
    /// Tells the program what happens, until the watch ends.
    async fn follow(self: Arc<Self>, callbacks: Arc<Callbacks>) {
        while let Some(event) = next_of(&self.watch, ImageWatch::next).await {
            let watched = Arc::clone(&self);
            callbacks.call(move || watched.tell(event));
        }
    }

    fn tell(&self, event: ImageEvent) {
        if lock(&self.watch).is_none() {
            return;
        }
        match (event, self.wanted) {
            (ImageEvent::Changed | ImageEvent::Lost, Wanted::Updates(told)) => told(self.argument),
            (ImageEvent::Quiesce(request), Wanted::Quiesce { begin, .. }) => {
                *lock(&self.open) = Some(request);
                begin(self.argument);
            }
            (ImageEvent::Unquiesce, Wanted::Quiesce { end, .. }) => end(self.argument),
            _ => {}
        }
    }

    /// The program is told nothing more. What it has not answered is granted.
    fn end(&self) -> Option<ImageWatch> {
        let watch = lock(&self.watch).take();
        lock(&self.open).take();
        watch
    }
}
