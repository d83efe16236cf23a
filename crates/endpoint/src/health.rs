use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The readiness of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not ready yet.
    Starting,
    /// Ready to serve.
    Ready,
    /// Shutting down, and finishing work in progress.
    Draining,
}

/// Shared readiness of this process. Clones refer to the same state.
#[derive(Debug, Clone, Default)]
pub struct Health {
    readiness: Arc<AtomicU8>,
}

impl Health {
    /// Marks the process as ready.
    pub fn ready(&self) {
        self.readiness.store(1, Ordering::SeqCst);
    }

    /// Marks the process as draining.
    pub fn drain(&self) {
        self.readiness.store(2, Ordering::SeqCst);
    }

    /// Returns the current readiness.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::SeqCst) {
            0 => Readiness::Starting,
            1 => Readiness::Ready,
            _ => Readiness::Draining,
        }
    }
}
