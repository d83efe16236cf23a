use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a single owner, which may change it; any thread may read it.
///
/// A change is a load and a store, not a read-modify-write: concurrent changes by two threads would lose counts.
/// [`Recorder`](crate::Recorder) enforces a single owner.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter with value 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to the counter. Only the owner may call this.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Subtracts from the counter, for values that can decrease. Only the owner may call this.
    #[inline]
    pub fn sub(&self, less: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(less), Ordering::Relaxed);
    }

    /// Sets the value. Only the owner may call this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
