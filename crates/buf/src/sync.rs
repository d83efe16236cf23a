//! Synchronization primitives. With loom's types in their place, every order of events is tried: `cargo xtask
//! sanitize`.

#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};

/// Reports reads and writes of a block's bytes to loom, so that it detects a write unordered with another access.
/// Without loom it is a no-op.
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
