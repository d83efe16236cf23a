//! What threads share here. Loom's types in the place of these try every order of events: `cargo xtask sanitize`.

#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};

/// Tells loom who reads and who writes the bytes of a block, so that it finds a write beside another access which nothing
/// has put in order. Without loom it is nothing.
#[derive(Default)]
pub(crate) struct Access {
    #[cfg(loom)]
    bytes: loom::cell::UnsafeCell<()>,
}

impl Access {
    #[inline(always)]
    pub(crate) fn read(&self) {
        #[cfg(loom)]
        self.bytes.with(|_| ());
    }

    #[inline(always)]
    pub(crate) fn write(&self) {
        #[cfg(loom)]
        self.bytes.with_mut(|_| ());
    }
}
