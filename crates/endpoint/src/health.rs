use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether a process is ready to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet.
    Starting,
    /// It serves.
    Ready,
    /// Not any more: it ends, and finishes what it has begun.
    Draining,
}

/// Whether this process is ready. Cheap to clone: all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health {
    readiness: Arc<AtomicU8>,
}

impl Health {
    /// From now on the process serves.
    pub fn ready(&self) {
        self.readiness.store(1, Ordering::SeqCst);
    }

    /// From now on it does not: it ends.
    pub fn drain(&self) {
        self.readiness.store(2, Ordering::SeqCst);
    }

    /// Whether it is ready now.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::SeqCst) {
            0 => Readiness::Starting,
            1 => Readiness::Ready,
            _ => Readiness::Draining,
        }
    }
}
