use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one owner: the owner changes it, any thread reads it.
///
/// A change is a load and a store, not a read-modify-write: two owners at a time would lose counts. [`Recorder`](crate::Recorder)
/// sees to it that there is one.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it. For the owner alone.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Takes from it: for what comes and goes. For the owner alone.
    #[inline]
    pub fn sub(&self, less: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(less), Ordering::Relaxed);
    }

    /// Makes it this. For the owner alone.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
